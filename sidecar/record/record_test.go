package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sub(t testing.TB) string {
	t.Helper()
	d := filepath.Join(t.TempDir(), "session")
	must(t, os.Mkdir(d, 0o700))
	return d
}

// stepKey derives a key as different as a real root's.
func stepKey(session, step string) keys.Secret {
	return keys.NewSecret([]byte(fmt.Sprintf("%-32.32s", session+"/"+step)))
}

func config(session, step string) Config {
	return Config{Session: session, Step: step, Key: stepKey(session, step), Reserve: 1 << 20, Now: func() time.Time { return noon }}
}

func check(session string, known *Head) Check {
	return Check{Session: session, Known: known, Key: func(step string) (keys.Secret, error) {
		if step != "open" && step != "serve" && step != "seal" {
			return keys.Secret{}, errors.New("unknown step")
		}
		return stepKey(session, step), nil
	}}
}

// session writes a record of two steps and returns its directory and head. The
// same id gives the same bytes.
func session(t testing.TB, id string) (string, Head) {
	t.Helper()
	return sessionFrom(t, id, 0)
}

func sessionFrom(t testing.TB, id string, first int) (string, Head) {
	t.Helper()
	d := sub(t)
	w, err := Create(d, safedir.Rules{}, config(id, "open"))
	must(t, err)
	h, err := w.Phase("opened", map[string]string{"policy": "tab\tline\nend"})
	must(t, err)
	must(t, w.Close())
	w, err = OpenAppend(d, safedir.Rules{}, config(id, "serve"), &h)
	must(t, err)
	for i := range 4 {
		h, err = w.Append("granted", first+i)
		must(t, err)
	}
	must(t, w.Close())
	return d, h
}

func TestRoundTrip(t *testing.T) {
	d, h := session(t, "s1")
	rows, got, err := VerifyDir(d, safedir.Rules{}, check("s1", &h))
	must(t, err)
	if got != h || h.Count != 5 || len(rows) != 5 || rows[0].Step != "open" || rows[4].Step != "serve" || string(rows[4].Data) != "3" {
		t.Fatalf("%+v %v", rows, got)
	}
	if _, err := Create(d, safedir.Rules{}, config("s1", "open")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("a second Create: %v", err)
	}
	st, err := os.Stat(filepath.Join(d, FileName))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", st.Mode(), err)
	}
}

func TestK3Tampering(t *testing.T) {
	other, _ := session(t, "s2")
	foreign := lines(t, other)
	again, _ := sessionFrom(t, "s1", 10)
	otherLife := lines(t, again)
	for name, c := range map[string]struct {
		spoil func(l [][]byte) [][]byte
		seq   uint64
		torn  bool
	}{
		"positive control": {func(l [][]byte) [][]byte { return l }, 0, false},
		"edited": {func(l [][]byte) [][]byte {
			l[2] = bytes.Replace(l[2], []byte("granted"), []byte("refused"), 1)
			return l
		}, 3, false},
		"MAC edited": {func(l [][]byte) [][]byte {
			l[2] = append(l[2][:len(l[2])-2], "0\n"...)
			l[2][len(l[2])-3] ^= 1
			return l
		}, 3, false},
		"dropped":                       {func(l [][]byte) [][]byte { return append(l[:2], l[3:]...) }, 3, false},
		"first dropped":                 {func(l [][]byte) [][]byte { return l[1:] }, 1, false},
		"swapped":                       {func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }, 3, false},
		"twice":                         {func(l [][]byte) [][]byte { return append(l, l[4]) }, 6, false},
		"replayed from another session": {func(l [][]byte) [][]byte { l[2] = foreign[2]; return l }, 3, false},
		"a row of another life of it":   {func(l [][]byte) [][]byte { l[2] = otherLife[2]; return l }, 3, false},
		"all from another session":      {func([][]byte) [][]byte { return foreign }, 1, false},
		"cut in the middle of a line":   {func(l [][]byte) [][]byte { l[4] = l[4][:len(l[4])/2]; return l }, 5, true},
		"cut before the line feed":      {func(l [][]byte) [][]byte { l[4] = l[4][:len(l[4])-1]; return l }, 5, true},
		"cut at a line's end":           {func(l [][]byte) [][]byte { return l[:4] }, 5, false},
		"all cut":                       {func([][]byte) [][]byte { return nil }, 1, false},
		"a row of nobody's":             {func(l [][]byte) [][]byte { return append(l, []byte("{}\t00\n")) }, 6, false},
		"no MAC": {func(l [][]byte) [][]byte {
			l[1], _, _ = bytes.Cut(l[1], []byte("\t"))
			l[1] = append(l[1], '\n')
			return l
		}, 2, false},
		"an endless line": {func(l [][]byte) [][]byte { return append(l, bytes.Repeat([]byte("x"), MaxLine+1)) }, 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, h := session(t, "s1")
			must(t, os.WriteFile(filepath.Join(d, FileName), bytes.Join(c.spoil(lines(t, d)), nil), 0o600))
			rows, _, err := VerifyDir(d, safedir.Rules{}, check("s1", &h))
			var broken *BrokenError
			switch {
			case c.seq == 0:
				must(t, err)
			case !errors.As(err, &broken) || broken.Seq != c.seq || errors.Is(err, ErrTorn) != c.torn:
				t.Fatalf("error %v, want row %d", err, c.seq)
			case uint64(len(rows)) != c.seq-1:
				t.Fatalf("%d rows before row %d", len(rows), c.seq)
			}
		})
	}
}

func lines(t testing.TB, dir string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, FileName))
	must(t, err)
	l := bytes.SplitAfter(b, []byte("\n"))
	return l[:len(l)-1]
}

func TestMACCoversEverything(t *testing.T) {
	k := stepKey("s", "x")
	base, err := mac(k, "s", 1, "00", []byte("p"))
	must(t, err)
	for name, f := range map[string]func() (string, error){
		"key":      func() (string, error) { return mac(stepKey("s", "y"), "s", 1, "00", []byte("p")) },
		"session":  func() (string, error) { return mac(k, "t", 1, "00", []byte("p")) },
		"number":   func() (string, error) { return mac(k, "s", 2, "00", []byte("p")) },
		"before":   func() (string, error) { return mac(k, "s", 1, "01", []byte("p")) },
		"payload":  func() (string, error) { return mac(k, "s", 1, "00", []byte("q")) },
		"boundary": func() (string, error) { return mac(k, "s", 1, "0070", nil) },
	} {
		if got, err := f(); err != nil || got == base {
			t.Errorf("%s is not covered: %v", name, err)
		}
	}
	again, err := mac(k, "s", 1, "00", []byte("p"))
	if err != nil || again != base {
		t.Fatal("not deterministic")
	}
}

func TestKnownHead(t *testing.T) {
	d, h := session(t, "s1")
	l := lines(t, d)
	early := Head{Count: 3, MAC: string(bytes.TrimSpace(l[2][bytes.IndexByte(l[2], '\t'):]))}
	for _, known := range []*Head{nil, {}, &early, &h} {
		_, _, err := VerifyDir(d, safedir.Rules{}, check("s1", known))
		must(t, err)
	}
	for _, known := range []*Head{{Count: 6, MAC: h.MAC}, {Count: 5, MAC: early.MAC}, {Count: 3, MAC: h.MAC}} {
		if _, _, err := VerifyDir(d, safedir.Rules{}, check("s1", known)); err == nil {
			t.Errorf("%+v is in it", known)
		}
		if _, err := OpenAppend(d, safedir.Rules{}, config("s1", "seal"), known); err == nil {
			t.Errorf("%+v is its end", known)
		}
	}
}

// TestK7ServeCannotWriteAsOpen: a step's key makes only its own rows.
func TestK7ServeCannotWriteAsOpen(t *testing.T) {
	d, h := session(t, "s1")
	forger := config("s1", "open")
	forger.Key = stepKey("s1", "serve")
	w, err := OpenAppend(d, safedir.Rules{}, forger, &h)
	must(t, err)
	_, err = w.Append("granted", 1)
	must(t, err)
	must(t, w.Close())
	var broken *BrokenError
	if _, _, err := VerifyDir(d, safedir.Rules{}, check("s1", nil)); !errors.As(err, &broken) || broken.Seq != 6 {
		t.Fatalf("error %v", err)
	}
}

func TestK3TornLineIsNeverRepaired(t *testing.T) {
	for _, cut := range []int{0, 1, 20} {
		d, h := session(t, "s1")
		file := filepath.Join(d, FileName)
		st, err := os.Stat(file)
		must(t, err)
		must(t, os.Truncate(file, st.Size()-int64(cut)))
		torn, err := os.ReadFile(file)
		must(t, err)
		for _, known := range []*Head{nil, &h} {
			w, err := OpenAppend(d, safedir.Rules{}, config("s1", "serve"), known)
			if errors.Is(err, ErrTorn) != (cut > 0) {
				t.Fatalf("cut %d, OpenAppend: %v", cut, err)
			}
			if err == nil {
				must(t, w.Close())
			}
			if _, _, err := VerifyDir(d, safedir.Rules{}, check("s1", known)); errors.Is(err, ErrTorn) != (cut > 0) {
				t.Fatalf("cut %d, VerifyDir: %v", cut, err)
			}
		}
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, torn) {
			t.Errorf("cut %d: the record was changed: %v", cut, err)
		}
	}
}

func TestK4ConcurrentAppends(t *testing.T) {
	d := sub(t)
	w, err := Create(d, safedir.Rules{}, config("s1", "serve"))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- w.Run(ctx) }()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for range 20 {
				if _, err := w.Append("granted", i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	must(t, <-ran)
	h := w.Head()
	must(t, w.Close())
	rows, got, err := VerifyDir(d, safedir.Rules{}, check("s1", &h))
	if err != nil || len(rows) != 640 || got != h {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
}

func TestSpaceIsReservedAndEnds(t *testing.T) {
	d := sub(t)
	c := config("s1", "serve")
	c.Reserve = margin + 4096
	w, err := Create(d, safedir.Rules{}, c)
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(d, FileName), &st))
	if st.Size != 0 || st.Blocks*512 < c.Reserve {
		t.Fatalf("size %d, %d blocks", st.Size, st.Blocks)
	}
	n := 0
	for ; ; n++ {
		if _, err = w.Append("granted", strings.Repeat("x", 100)); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) || n < 10 {
		t.Fatalf("after %d rows: %v", n, err)
	}
	if _, err := w.Append("granted", strings.Repeat("x", 100)); !errors.Is(err, ErrFull) {
		t.Fatalf("again: %v", err)
	}
	h, err := w.Phase("closed", "the end still fits")
	must(t, err)
	must(t, w.Close())
	_, _, err = VerifyDir(d, safedir.Rules{}, check("s1", &h))
	must(t, err)
}

func TestNothingAfterAFailure(t *testing.T) {
	fault := errors.New("fault")
	for name, spoil := range map[string]func(w *Writer){
		"write": func(w *Writer) { w.file = failing{w.file, fault} },
		"sync":  func(w *Writer) { w.sync = func() error { return fault } },
	} {
		w, err := Create(sub(t), safedir.Rules{}, config("s1", "serve"))
		must(t, err)
		_, err = w.Phase("ready", 1)
		must(t, err)
		goodFile, goodSync := w.file, w.sync
		before := w.Head()
		spoil(w)
		if _, err := w.Phase("x", 1); !errors.Is(err, fault) {
			t.Fatalf("%s: %v", name, err)
		}
		w.file, w.sync = goodFile, goodSync
		if _, err := w.Append("y", 1); !errors.Is(err, fault) {
			t.Fatalf("%s: a row after it: %v", name, err)
		}
		if err := w.Run(t.Context()); !errors.Is(err, fault) {
			t.Errorf("%s: Run: %v", name, err)
		}
		if name == "write" && w.Head() != before {
			t.Errorf("%s: the head moved", name)
		}
		w.Close()
	}
}

type failing struct {
	file
	err error
}

func (f failing) Write(b []byte) (int, error) { return 0, f.err }

func TestRunSyncsInTime(t *testing.T) {
	w, err := Create(sub(t), safedir.Rules{}, config("s1", "serve"))
	must(t, err)
	defer w.Close()
	synced := make(chan struct{}, 10)
	w.sync = func() error { synced <- struct{}{}; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- w.Run(ctx) }()
	_, err = w.Append("granted", 1)
	must(t, err)
	select {
	case <-synced:
	case <-time.After(5 * time.Second):
		t.Fatal("never synced")
	}
	_, err = w.Append("granted", 2)
	must(t, err)
	cancel()
	must(t, <-ran)
	if len(synced) != 1 {
		t.Fatal("not synced at the end")
	}
}

func TestAppendRefuses(t *testing.T) {
	w, err := Create(sub(t), safedir.Rules{}, config("s1", "serve"))
	must(t, err)
	for name, f := range map[string]func() error{
		"kind":        func() error { _, err := w.Append("Gran ted", 1); return err },
		"no kind":     func() error { _, err := w.Append("", 1); return err },
		"too long":    func() error { _, err := w.Append("x", strings.Repeat("x", MaxLine)); return err },
		"unencodable": func() error { _, err := w.Append("x", func() {}); return err },
	} {
		if f() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	_, err = w.Append("x", 1)
	must(t, err)
	must(t, w.Close())
	must(t, w.Close())
	if _, err := w.Append("x", 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	for _, c := range []Config{{}, {Session: "s"}, {Session: "s", Step: "x"}, {Session: "s", Step: "x", Key: keys.NewSecret([]byte("short"))}, {Session: "s", Step: "x", Key: stepKey("s", "x"), Reserve: 1}} {
		if _, err := Create(sub(t), safedir.Rules{}, c); err == nil {
			t.Errorf("%+v: accepted", c)
		}
	}
}

func FuzzVerify(f *testing.F) {
	d, _ := session(f, "s1")
	b, err := os.ReadFile(filepath.Join(d, FileName))
	must(f, err)
	f.Add(b)
	f.Add(b[:len(b)-3])
	f.Add([]byte("{}\t\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		rows, head, err := Verify(bytes.NewReader(in), check("s1", nil))
		if uint64(len(rows)) != head.Count {
			t.Fatalf("%d rows, head %d", len(rows), head.Count)
		}
		if err == nil && !bytes.HasPrefix(b, in) {
			t.Fatal("verified what was not written")
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	c := config("s1", "serve")
	c.Reserve = maxReserve
	w, err := Create(sub(b), safedir.Rules{}, c)
	must(b, err)
	defer w.Close()
	for b.Loop() {
		if _, err := w.Append("granted", "/home/me/site/.envrc"); err != nil {
			b.Fatal(err)
		}
	}
}

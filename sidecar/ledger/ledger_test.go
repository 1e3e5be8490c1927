package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fixture is a control: root keys, and a ledger with its init act.
type fixture struct {
	root   *keys.Root
	keys   string
	dir    string
	trust  Trust
	signer *keys.Signer
}

func sub(t testing.TB, name string) string {
	t.Helper()
	d := filepath.Join(t.TempDir(), name)
	must(t, os.Mkdir(d, 0o700))
	return d
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	f := fixture{keys: sub(t, "root"), dir: sub(t, "ledger")}
	var err error
	f.root, err = keys.CreateRoot(f.keys, keys.Rules{})
	must(t, err)
	f.trust, f.signer = trustOf(t, f.root)
	l, _, err := Create(t.Context(), f.dir, safedir.Rules{}, f.trust, f.signer, "me", now)
	must(t, err)
	must(t, l.Close())
	return f
}

func trustOf(t testing.TB, r *keys.Root) (Trust, *keys.Signer) {
	t.Helper()
	v, err := r.Verifier(keys.DomainLedger, 0, "")
	must(t, err)
	s, err := r.Signer(keys.DomainLedger, r.Current(), "")
	must(t, err)
	return Trust{ControlID: r.ControlID(), Verifier: v}, s
}

func (f fixture) open(t testing.TB) *Ledger {
	t.Helper()
	l, err := Open(f.dir, safedir.Rules{}, f.trust)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func (f fixture) file(name string) string { return filepath.Join(f.dir, name) }

func digest(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

func approve(path, content string) Entry {
	p := NewPath(path)
	p.SHA256, p.Decision = digest(content), Approved
	return Entry{Time: now, By: "me", Kind: KindApprove, Path: &p}
}

func deny(path, content string) Entry {
	e := approve(path, content)
	e.Kind, e.Path.Decision = KindDeny, Denied
	return e
}

func revoke(path string) Entry {
	p := NewPath(path)
	return Entry{Time: now, By: "me", Kind: KindRevoke, Path: &p}
}

func act(t testing.TB, l *Ledger, s Signer, e Entry) Acted {
	t.Helper()
	did, err := l.Act(t.Context(), s, e)
	must(t, err)
	return did
}

func approved(t testing.TB, l *Ledger, path, content string) bool {
	t.Helper()
	s, err := l.View()
	return err == nil && s.Approved(path, sha256.Sum256([]byte(content)), now)
}

func TestT1RoundTripReplaceRevoke(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	for _, path := range []string{"/a/.envrc", "/a/sp ace\n\x1b", "/a/\xff\xfe"} {
		act(t, l, f.signer, approve(path, "one"))
		if !approved(t, l, path, "one") || approved(t, l, path, "onf") || approved(t, l, path, "") {
			t.Fatalf("%q: round trip", path)
		}
		act(t, l, f.signer, approve(path, "two"))
		if approved(t, l, path, "one") || !approved(t, l, path, "two") {
			t.Fatalf("%q: replace", path)
		}
		other := f.open(t)
		if !approved(t, other, path, "two") {
			t.Fatalf("%q: not seen by another reader", path)
		}
		act(t, l, f.signer, revoke(path))
		if approved(t, l, path, "two") || approved(t, other, path, "two") {
			t.Fatalf("%q: revoke", path)
		}
	}
	e := approve("/e", "x")
	until := now.Add(time.Hour)
	e.Path.Expires = &until
	act(t, l, f.signer, e)
	s, err := l.View()
	must(t, err)
	sum := sha256.Sum256([]byte("x"))
	if !s.Approved("/e", sum, until.Add(-1)) || s.Approved("/e", sum, until) {
		t.Fatal("expiry")
	}
	if all := s.Decisions(); len(all) != 1 || all[0].Raw() != "/e" {
		t.Fatalf("decisions %v", all)
	}
}

func TestT2UnknownPath(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	if approved(t, l, "/a", "x") {
		t.Fatal("in an empty ledger")
	}
	act(t, l, f.signer, approve("/a", "x"))
	if !approved(t, l, "/a", "x") {
		t.Fatal("positive control")
	}
	for _, p := range []string{"/b", "a", "", "/a/", "/A", "//a"} {
		if approved(t, l, p, "x") {
			t.Errorf("%q approved", p)
		}
	}
}

func TestT3PathIsNeverRead(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	file := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(file, []byte("good"), 0o600))
	act(t, l, f.signer, approve(file, "good"))
	must(t, os.WriteFile(file, []byte("evil"), 0o600))
	if !approved(t, l, file, "good") || approved(t, l, file, "evil") {
		t.Fatal("the file's bytes counted")
	}
	must(t, os.Remove(file))
	if !approved(t, l, file, "good") {
		t.Fatal("the file's absence counted")
	}
}

func TestT4CorruptLedger(t *testing.T) {
	const path = "/a"
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f fixture)
		says  string
	}{
		"head not JSON": {func(t *testing.T, f fixture) { write(t, f.file("head"), "x") }, "head"},
		"head empty":    {func(t *testing.T, f fixture) { write(t, f.file("head"), "") }, "head"},
		"head an array": {func(t *testing.T, f fixture) { write(t, f.file("head"), "[]") }, "head"},
		"head a directory": {func(t *testing.T, f fixture) {
			swap(t, f.file("head"), func(n string) error { return os.Mkdir(n, 0o700) })
		}, "head"},
		"head a FIFO": {func(t *testing.T, f fixture) {
			swap(t, f.file("head"), func(n string) error { return unix.Mkfifo(n, 0o600) })
		}, "head"},
		"head a link loop": {func(t *testing.T, f fixture) {
			swap(t, f.file("head"), func(n string) error { return os.Symlink("head", n) })
		}, "head"},
		"head too large": {func(t *testing.T, f fixture) { write(t, f.file("head"), strings.Repeat(" ", maxHead+1)) }, "more than"},
		"head missing":   {func(t *testing.T, f fixture) { must(t, os.Remove(f.file("head"))) }, "missing beside a ledger"},
		"head 0644":      {func(t *testing.T, f fixture) { must(t, os.Chmod(f.file("head"), 0o644)) }, "0644"},
		"ledger missing": {func(t *testing.T, f fixture) { must(t, os.Remove(f.file("ledger"))) }, "ledger"},
		"ledger empty":   {func(t *testing.T, f fixture) { write(t, f.file("ledger"), "") }, "act 1"},
		"ledger a directory": {func(t *testing.T, f fixture) {
			swap(t, f.file("ledger"), func(n string) error { return os.Mkdir(n, 0o700) })
		}, "ledger"},
		"ledger a FIFO": {func(t *testing.T, f fixture) {
			swap(t, f.file("ledger"), func(n string) error { return unix.Mkfifo(n, 0o600) })
		}, "ledger"},
		"ledger a link loop": {func(t *testing.T, f fixture) {
			swap(t, f.file("ledger"), func(n string) error { return os.Symlink("ledger", n) })
		}, "ledger"},
		"malformed line": {func(t *testing.T, f fixture) { edit(t, f, func(l [][]byte) [][]byte { l[1] = []byte("{}"); return l }) }, "act 2"},
		"unknown decision": {func(t *testing.T, f fixture) {
			edit(t, f, replaceIn(1, `"decision":"approved"`, `"decision":"APPROVED"`))
		}, "act 2"},
		"unparseable time": {func(t *testing.T, f fixture) { edit(t, f, replaceIn(1, `"2026-`, `"x2026-`)) }, "act 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			l := f.open(t)
			act(t, l, f.signer, approve(path, "x"))
			act(t, l, f.signer, approve("/b", "x"))
			c.spoil(t, f)
			before := snapshot(t, f.dir)
			fresh, err := Open(f.dir, safedir.Rules{}, f.trust)
			if err == nil {
				defer fresh.Close()
				_, err = fresh.View()
				if approved(t, fresh, path, "x") {
					t.Error("approved")
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), f.dir) {
				t.Errorf("error %v, want %q and the directory in it", err, c.says)
			}
			if fresh != nil {
				_, err := fresh.Update(t.Context(), f.signer, func(*State) ([]Entry, error) { return []Entry{revoke(path)}, nil })
				if err == nil {
					t.Error("an act succeeded")
				}
			}
			if _, _, err := Create(t.Context(), f.dir, safedir.Rules{}, f.trust, f.signer, "me", now); err == nil {
				t.Error("a new ledger was made over it")
			}
			if after := snapshot(t, f.dir); after != before {
				t.Errorf("changed: %s\n%s", before, after)
			}
		})
	}
}

func TestT4OnlyAbsentIsEmpty(t *testing.T) {
	f := newFixture(t)
	empty := sub(t, "empty")
	if _, err := Open(empty, safedir.Rules{}, f.trust); !errors.Is(err, ErrNoLedger) || errors.Is(err, ErrAnchor) {
		t.Fatalf("an empty directory: %v", err)
	}
	known := f.trust
	known.Anchor = &Anchor{ControlID: f.trust.ControlID, Count: 1, Hash: digest("")}
	if _, err := Open(empty, safedir.Rules{}, known); !errors.Is(err, ErrNoLedger) || !errors.Is(err, ErrAnchor) {
		t.Fatalf("K8, an empty control at a known place: %v", err)
	}
	if _, _, err := Create(t.Context(), empty, safedir.Rules{}, known, f.signer, "me", now); !errors.Is(err, ErrAnchor) {
		t.Fatalf("K8, a new ledger at a known place: %v", err)
	}
}

func TestT5DecisionWords(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	for _, word := range []Decision{"APPROVED", "", "approve", Denied, "approved "} {
		e := approve("/a", "x")
		e.Path.Decision = word
		if _, err := l.Act(t.Context(), f.signer, e); err == nil {
			t.Errorf("%q recorded", word)
		}
	}
	act(t, l, f.signer, deny("/a", "x"))
	s, err := l.View()
	must(t, err)
	r, ok := s.Decision("/a")
	if !ok || r.Decision != Denied || approved(t, l, "/a", "x") || len(s.Decisions()) != 1 || s.Count() != 2 {
		t.Fatalf("denied: %+v %v", r, ok)
	}
	if _, ok := s.Decision("/b"); ok {
		t.Fatal("absent is not denied")
	}
}

func TestEntriesAreRefused(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	for name, spoil := range map[string]func(e *Entry){
		"relative":               func(e *Entry) { e.Path.Path = "a" },
		"not clean":              func(e *Entry) { e.Path.Path = "/a/../b" },
		"no path":                func(e *Entry) { e.Path.Path = "" },
		"both paths":             func(e *Entry) { e.Path.PathBase64 = []byte("/\xff") },
		"base64 without need":    func(e *Entry) { e.Path.Path, e.Path.PathBase64 = "", []byte("/a") },
		"invalid UTF-8":          func(e *Entry) { e.Path.Path = "/\xff" },
		"NUL":                    func(e *Entry) { e.Path.Path = "/a\x00" },
		"no digest":              func(e *Entry) { e.Path.SHA256 = "" },
		"upper-case digest":      func(e *Entry) { e.Path.SHA256 = strings.ToUpper(e.Path.SHA256) },
		"no time":                func(e *Entry) { e.Time = time.Time{} },
		"nobody":                 func(e *Entry) { e.By = "" },
		"unknown kind":           func(e *Entry) { e.Kind = "x" },
		"kind without its field": func(e *Entry) { e.Kind = KindOpen },
		"two fields":             func(e *Entry) { e.Init = &InitAct{} },
		"expired":                func(e *Entry) { e.Path.Expires = &now },
		"long note":              func(e *Entry) { e.Path.Note = strings.Repeat("x", maxNote+1) },
		"a second init":          func(e *Entry) { e.Kind, e.Path, e.Init = KindInit, nil, &InitAct{ControlID: f.trust.ControlID} },
		"open without epoch": func(e *Entry) {
			e.Kind, e.Path, e.Open = KindOpen, nil, &OpenAct{Session: "s", SessionDigest: digest("")}
		},
		"seal of no verdict": func(e *Entry) {
			e.Kind, e.Path, e.Seal = KindSeal, nil, &SealAct{Session: "s", SealDigest: digest(""), Number: 1, Verdict: "ok"}
		},
		"seal number 0": func(e *Entry) {
			e.Kind, e.Path, e.Seal = KindSeal, nil, &SealAct{Session: "s", SealDigest: digest(""), Verdict: "PASS"}
		},
		"session of a bad name": func(e *Entry) {
			e.Kind, e.Path, e.Open = KindOpen, nil, &OpenAct{Session: "../s", SessionDigest: digest(""), Epoch: 1}
		},
		"rotation to epoch 1":  func(e *Entry) { e.Kind, e.Path, e.Rotate = KindRotate, nil, &RotateAct{Epoch: 1, Reason: keys.Routine} },
		"revoke with a digest": func(e *Entry) { e.Kind, e.Path.Decision = KindRevoke, "" },
	} {
		e := approve("/a", "x")
		spoil(&e)
		if _, err := l.Act(t.Context(), f.signer, e); err == nil {
			t.Errorf("%s: recorded", name)
		}
	}
	act(t, l, f.signer, approve("/a", "x"))
	if s, err := l.View(); err != nil || s.Count() != 2 {
		t.Fatalf("%v", err)
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(content), 0o600))
}

func swap(t *testing.T, name string, make func(string) error) {
	t.Helper()
	must(t, os.Remove(name))
	must(t, make(name))
}

// edit changes the ledger's lines.
func edit(t *testing.T, f fixture, change func([][]byte) [][]byte) {
	t.Helper()
	b, err := os.ReadFile(f.file("ledger"))
	must(t, err)
	lines := bytes.SplitAfter(b, []byte("\n"))
	for i := range lines {
		lines[i] = bytes.TrimSuffix(lines[i], []byte("\n"))
	}
	lines = change(lines[:len(lines)-1])
	must(t, os.WriteFile(f.file("ledger"), append(bytes.Join(lines, []byte("\n")), '\n'), 0o600))
}

func replaceIn(i int, old, new string) func([][]byte) [][]byte {
	return func(l [][]byte) [][]byte {
		l[i] = []byte(strings.Replace(string(l[i]), old, new, 1))
		return l
	}
}

// snapshot is names, types, modes and contents.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		i, err := e.Info()
		must(t, err)
		fmt.Fprintf(&b, "%s %v\n", e.Name(), i.Mode())
		if i.Mode().IsRegular() {
			c, err := os.ReadFile(filepath.Join(dir, e.Name()))
			must(t, err)
			fmt.Fprintf(&b, "%q\n", c)
		}
	}
	return b.String()
}

func TestT6TwoProcesses(t *testing.T) {
	f := newFixture(t)
	const rounds = 200
	run := func(path, kind string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperProcess$")
		c.Env = append(os.Environ(), "PROCTOR_TEST_LEDGER="+f.dir, "PROCTOR_TEST_KEYS="+f.keys, "PROCTOR_TEST_PATH="+path, "PROCTOR_TEST_KIND="+kind, fmt.Sprintf("PROCTOR_TEST_ROUNDS=%d", rounds))
		c.Stderr = os.Stderr
		must(t, c.Start())
		return c
	}
	// One approves /p-N each time, the other revokes /shared after approving it.
	a, b := run("/p", "approve"), run("/shared", "approve-revoke")
	watch := f.open(t)
	ended := make(chan error, 2)
	go func() { ended <- a.Wait() }()
	go func() { ended <- b.Wait() }()
	last := uint64(0)
	for running := 2; running > 0; {
		select {
		case err := <-ended:
			must(t, err)
			running--
		default:
			s, err := watch.View()
			must(t, err)
			if s.Count() < last {
				t.Fatalf("went back from %d to %d", last, s.Count())
			}
			last = s.Count()
		}
	}
	s, err := f.open(t).View()
	must(t, err)
	if s.Count() != 1+3*rounds {
		t.Fatalf("%d acts: some were lost", s.Count())
	}
	for i := range rounds {
		if p := fmt.Sprintf("/p-%d", i); !s.Approved(p, sha256.Sum256([]byte("x")), now) {
			t.Fatalf("%s was lost", p)
		}
	}
	if _, ok := s.Decision("/shared"); ok {
		t.Fatal("a revoked approval came back")
	}
}

// TestHelperProcess is the other process of TestT6TwoProcesses.
func TestHelperProcess(t *testing.T) {
	dir := os.Getenv("PROCTOR_TEST_LEDGER")
	if dir == "" {
		return
	}
	r, err := keys.OpenRoot(os.Getenv("PROCTOR_TEST_KEYS"), keys.Rules{})
	must(t, err)
	trust, signer := trustOf(t, r)
	l, err := Open(dir, safedir.Rules{}, trust)
	must(t, err)
	var rounds int
	fmt.Sscan(os.Getenv("PROCTOR_TEST_ROUNDS"), &rounds)
	path := os.Getenv("PROCTOR_TEST_PATH")
	for i := range rounds {
		if os.Getenv("PROCTOR_TEST_KIND") == "approve" {
			act(t, l, signer, approve(fmt.Sprintf("%s-%d", path, i), "x"))
			continue
		}
		act(t, l, signer, approve(path, "x"))
		_, err := l.Update(t.Context(), signer, func(s *State) ([]Entry, error) {
			if _, ok := s.Decision(path); !ok {
				return nil, fs.ErrNotExist
			}
			return []Entry{revoke(path)}, nil
		})
		must(t, err)
		if approved(t, l, path, "x") {
			t.Fatal("approved after its revocation")
		}
	}
}

func TestK4ConcurrentActs(t *testing.T) {
	f := newFixture(t)
	errs := make(chan error)
	for i := range 32 {
		go func() {
			l, err := Open(f.dir, safedir.Rules{}, f.trust)
			if err == nil {
				_, err = l.Act(context.Background(), f.signer, approve(fmt.Sprintf("/%d", i), "x"))
				err = errors.Join(err, l.Close())
			}
			errs <- err
		}()
	}
	for range 32 {
		must(t, <-errs)
	}
	s, err := f.open(t).View()
	if err != nil || s.Count() != 33 || len(s.Decisions()) != 32 {
		t.Fatalf("%v", err)
	}
}

func TestK3T12Tampering(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f fixture)
		seq   uint64
	}{
		"positive control": {func(*testing.T, fixture) {}, 0},
		"line edited":      {func(t *testing.T, f fixture) { edit(t, f, replaceIn(2, `"by":"me"`, `"by":"ME"`)) }, 4},
		"last line edited": {func(t *testing.T, f fixture) { edit(t, f, replaceIn(4, `"by":"me"`, `"by":"ME"`)) }, 5},
		"line dropped": {func(t *testing.T, f fixture) {
			edit(t, f, func(l [][]byte) [][]byte { return append(l[:2], l[3:]...) })
		}, 3},
		"two swapped": {func(t *testing.T, f fixture) {
			edit(t, f, func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l })
		}, 3},
		"cut at a line's end": {func(t *testing.T, f fixture) { edit(t, f, func(l [][]byte) [][]byte { return l[:4] }) }, 5},
		"half a line": {func(t *testing.T, f fixture) {
			st, err := os.Stat(f.file("ledger"))
			must(t, err)
			must(t, os.Truncate(f.file("ledger"), st.Size()-10))
		}, 5},
		"a live act made a dropped one": {func(t *testing.T, f fixture) {
			edit(t, f, func(l [][]byte) [][]byte {
				// As long as the act was, so that the size gives nothing away.
				line := fmt.Sprintf(`{"seq":3,"dropped":"%x"`, sha256.Sum256(l[2]))
				l[2] = fmt.Appendf(nil, "%-*s}", len(l[2])-1, line)
				return l
			})
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			l := f.open(t)
			for i := range 4 {
				act(t, l, f.signer, approve(fmt.Sprintf("/%d", i), "x"))
			}
			c.spoil(t, f)
			_, err := f.open(t).View()
			var broken *BrokenError
			if c.seq == 0 {
				must(t, err)
			} else if !errors.As(err, &broken) || broken.Seq != c.seq {
				t.Fatalf("error %v, want act %d", err, c.seq)
			}
		})
	}
}

func TestT12HeadOfAnotherDomainOrControl(t *testing.T) {
	f, g := newFixture(t), newFixture(t)
	other, err := f.root.Signer(keys.DomainSeal, 1, "")
	must(t, err)
	raw, err := os.ReadFile(f.file("head"))
	must(t, err)
	_, payload, err := keys.Payload(bytes.TrimSpace(raw))
	must(t, err)
	env, err := other.Sign(t.Context(), HeadType, payload)
	must(t, err)
	write(t, f.file("head"), string(env))
	if _, err := Open(f.dir, safedir.Rules{}, f.trust); !errors.Is(err, keys.ErrSignature) {
		t.Fatalf("another domain: %v", err)
	}
	write(t, f.file("head"), string(raw))
	_, err = Open(f.dir, safedir.Rules{}, f.trust)
	must(t, err)
	if _, err := Open(f.dir, safedir.Rules{}, g.trust); err == nil {
		t.Fatal("another control's trust")
	}
	wrong := f.trust
	wrong.ControlID = g.trust.ControlID
	if _, err := Open(f.dir, safedir.Rules{}, wrong); err == nil {
		t.Fatal("another control id")
	}
	if _, err := f.open(t).Act(t.Context(), g.signer, approve("/a", "x")); err == nil {
		t.Fatal("another control's signer")
	}
	if s, err := f.open(t).View(); err != nil || s.Count() != 1 {
		t.Fatalf("after the refused act: %v", err)
	}
}

func TestK8Anchor(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	act(t, l, f.signer, approve("/a", "x"))
	old := copyDir(t, f.dir)
	oldAnchor := act(t, l, f.signer, revoke("/a")).Anchor
	newest := act(t, l, f.signer, approve("/b", "x")).Anchor
	with := func(dir string, a Anchor) error {
		trust := f.trust
		trust.Anchor = &a
		l, err := Open(dir, safedir.Rules{}, trust)
		if err == nil {
			_, err = l.View()
			l.Close()
		}
		return err
	}
	must(t, with(f.dir, oldAnchor))
	must(t, with(f.dir, newest))
	for name, err := range map[string]error{
		"older ledger":     with(old, newest),
		"other control id": with(f.dir, Anchor{ControlID: "x", Count: newest.Count, Hash: newest.Hash}),
		"other act":        with(f.dir, Anchor{ControlID: newest.ControlID, Count: newest.Count, Hash: oldAnchor.Hash}),
		"other older act":  with(f.dir, Anchor{ControlID: newest.ControlID, Count: oldAnchor.Count, Hash: newest.Hash}),
		"act 0":            with(f.dir, Anchor{ControlID: newest.ControlID}),
	} {
		if !errors.Is(err, ErrAnchor) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// T12: an older valid copy is put back under an open reader.
	for _, name := range []string{"ledger", "head"} {
		b, err := os.ReadFile(filepath.Join(old, name))
		must(t, err)
		write(t, f.file(name), string(b))
	}
	if _, err := l.View(); !errors.Is(err, ErrAnchor) {
		t.Errorf("put back under a reader: %v", err)
	}
	if approved(t, l, "/a", "x") {
		t.Error("a revoked approval came back")
	}
	if _, err := l.Act(t.Context(), f.signer, approve("/c", "x")); !errors.Is(err, ErrAnchor) {
		t.Errorf("an act on it: %v", err)
	}
}

func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := sub(t, "copy")
	for _, name := range []string{"ledger", "head", "lock"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		write(t, filepath.Join(to, name), string(b))
	}
	return to
}

// TestK8CompactionIsAccepted drops a superseded act as the format allows.
func TestK8CompactionIsAccepted(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	first := act(t, l, f.signer, approve("/a", "one")).Anchor
	act(t, l, f.signer, approve("/a", "two"))
	_, err := l.View()
	must(t, err)
	compact(t, f, 2)
	trust := f.trust
	trust.Anchor = &first
	fresh, err := Open(f.dir, safedir.Rules{}, trust)
	must(t, err)
	defer fresh.Close()
	for name, l := range map[string]*Ledger{"fresh": fresh, "open since before": l} {
		if !approved(t, l, "/a", "two") || approved(t, l, "/a", "one") {
			t.Errorf("%s: state", name)
		}
	}
	act(t, fresh, f.signer, approve("/b", "x"))
	if !approved(t, l, "/b", "x") {
		t.Error("an act after it")
	}
}

func compact(t *testing.T, f fixture, seqs ...uint64) {
	t.Helper()
	at := start(f.trust.ControlID)
	edit(t, f, func(lines [][]byte) [][]byte {
		for i, line := range lines {
			d := sha256.Sum256(line)
			for _, s := range seqs {
				if uint64(i)+1 == s {
					line = fmt.Appendf(nil, `{"seq":%d,"dropped":"%x"}`, s, d)
				}
			}
			dropped := bytes.Contains(line, []byte(`"dropped"`))
			at = at.next(line, d)
			if dropped {
				at = at.drop(d)
			}
			lines[i] = line
		}
		return lines
	})
	payload, err := json.Marshal(at.head(f.trust.ControlID, 1))
	must(t, err)
	env, err := f.signer.Sign(t.Context(), HeadType, payload)
	must(t, err)
	must(t, os.WriteFile(f.file("head.new"), env, 0o600))
	must(t, os.Rename(f.file("head.new"), f.file("head")))
}

func TestRotation(t *testing.T) {
	for _, reason := range []keys.Reason{keys.Routine, keys.Leaked} {
		f := newFixture(t)
		l := f.open(t)
		act(t, l, f.signer, approve("/a", "x"))
		next, err := f.root.Rotate(reason)
		must(t, err)
		trust, signer := trustOf(t, next)
		fresh, err := Open(f.dir, safedir.Rules{}, trust)
		if (err == nil) != (reason == keys.Routine) {
			t.Fatalf("%s, before the act: %v", reason, err)
		}
		if fresh != nil {
			fresh.Close()
		}
		_, err = l.Rotate(t.Context(), signer, trust.Verifier, Entry{Time: now, By: "me", Kind: KindRotate, Rotate: &RotateAct{Epoch: 2, Reason: reason}})
		must(t, err)
		fresh, err = Open(f.dir, safedir.Rules{}, trust)
		must(t, err)
		for _, l := range []*Ledger{l, fresh} {
			s, err := l.View()
			if err != nil || len(s.Rotations()) != 1 || !s.Approved("/a", sha256.Sum256([]byte("x")), now) {
				t.Fatalf("%s: %v", reason, err)
			}
		}
		fresh.Close()
		if reason == keys.Leaked {
			// The leaked key signs on: its heads are not believed.
			leaked := f.signer
			if _, err := l.Act(t.Context(), leaked, approve("/evil", "x")); err == nil {
				t.Fatal("a leaked key's act")
			}
		}
	}
}

func TestSessions(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	o := func() Entry {
		return Entry{Time: now, By: "me", Kind: KindOpen, Open: &OpenAct{Session: "s-1", SessionDigest: digest("o"), Epoch: 1}}
	}
	seal := func(n int, verdict string) Entry {
		return Entry{Time: now, By: "me", Kind: KindSeal, Seal: &SealAct{Session: "s-1", SealDigest: digest(fmt.Sprint(n)), Verdict: verdict, Number: n}}
	}
	act(t, l, f.signer, o())
	s, err := l.View()
	must(t, err)
	if _, ok := s.LastSeal("s-1"); ok {
		t.Fatal("a seal before there is one")
	}
	act(t, l, f.signer, seal(1, "FAIL"))
	act(t, l, f.signer, o())
	act(t, l, f.signer, seal(2, "PASS"))
	now2, err := l.View()
	must(t, err)
	last, ok := now2.LastSeal("s-1")
	if !ok || last.Number != 2 || last.Verdict != "PASS" {
		t.Fatalf("%+v", last)
	}
	if o, ok := now2.Session("s-1"); !ok || len(o.Opens) != 2 || len(now2.Sessions()) != 1 {
		t.Fatalf("%+v", o)
	}
	if _, ok := s.LastSeal("s-1"); ok {
		t.Fatal("an older state changed")
	}
}

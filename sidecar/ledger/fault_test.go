package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/keys/safedir"
)

var errFault = errors.New("fault")

// faulty is a real directory whose n-th change fails, with or without having
// been done in part. It notes every change.
type faulty struct {
	store
	failAt int
	torn   bool
	log    []string
}

func (f *faulty) step(name string) error {
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == '.' })[:1], "")
	f.log = append(f.log, name)
	if len(f.log) == f.failAt {
		return errFault
	}
	return nil
}

func base(f *os.File) string {
	b := filepath.Base(f.Name())
	if strings.HasPrefix(b, ".head") {
		return "newhead"
	}
	return b
}

func (f *faulty) WriteAt(file *os.File, b []byte, at int64) error {
	if err := f.step("write " + base(file)); err != nil {
		if f.torn {
			f.store.WriteAt(file, b[:len(b)/2], at)
		}
		return err
	}
	return f.store.WriteAt(file, b, at)
}

func (f *faulty) SyncFile(file *os.File) error {
	if err := f.step("sync " + base(file)); err != nil {
		return err
	}
	return f.store.SyncFile(file)
}

func (f *faulty) Rename(old, new string) error {
	if err := f.step("rename"); err != nil {
		return err
	}
	return f.store.Rename(old, new)
}

func (f *faulty) Sync() error {
	if err := f.step("sync directory"); err != nil {
		return err
	}
	return f.store.Sync()
}

func (f fixture) faulty(t *testing.T, at int, torn bool) (*Ledger, *faulty) {
	t.Helper()
	d, err := safedir.Open(f.dir, safedir.Rules{})
	must(t, err)
	s := &faulty{store: dirStore{d}, failAt: at, torn: torn}
	l, err := openStore(s, f.trust)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l, s
}

func TestT9PowerCutOrder(t *testing.T) {
	f := newFixture(t)
	l, s := f.faulty(t, 0, false)
	act(t, l, f.signer, approve("/a", "x"))
	want := []string{"write ledger", "sync ledger", "write newhead", "sync newhead", "rename", "sync directory"}
	if !slices.Equal(s.log, want) {
		t.Fatalf("order %q", s.log)
	}
}

func TestT8FailedAct(t *testing.T) {
	for at := 1; at <= 6; at++ {
		for _, torn := range []bool{false, true} {
			t.Run(fmt.Sprint(at, torn), func(t *testing.T) {
				f := newFixture(t)
				act(t, f.open(t), f.signer, approve("/old", "x"))
				l, _ := f.faulty(t, at, torn)
				_, err := l.Act(context.Background(), f.signer, approve("/new", "x"))
				landed := at == 6 // the directory's sync, after the rename
				if landed != (err == nil) || (err != nil && !errors.Is(err, errFault)) {
					t.Fatalf("error %v", err)
				}
				for _, l := range []*Ledger{l, f.open(t)} {
					if approved(t, l, "/new", "x") != landed || !approved(t, l, "/old", "x") {
						t.Fatal("the state is neither old nor new")
					}
				}
				names, err := os.ReadDir(f.dir)
				must(t, err)
				if len(names) != 3 {
					t.Fatalf("left behind: %v", names)
				}
				st, err := os.Stat(f.file("ledger"))
				must(t, err)
				s, err := f.open(t).View()
				must(t, err)
				did := act(t, f.open(t), f.signer, approve("/next", "x"))
				if did.Surplus != st.Size()-s.at.size {
					t.Fatalf("surplus %d said, %d there", did.Surplus, st.Size()-s.at.size)
				}
				if written := at > 1 || torn; !landed && (did.Surplus > 0) != written {
					t.Fatalf("surplus %d", did.Surplus)
				}
				fresh := f.open(t)
				if !approved(t, fresh, "/next", "x") || approved(t, fresh, "/new", "x") != landed {
					t.Fatal("after the next act")
				}
			})
		}
	}
}

func TestT8InterruptedCreation(t *testing.T) {
	f := newFixture(t)
	must(t, os.Remove(f.file("head")))
	l, _, err := Create(t.Context(), f.dir, safedir.Rules{}, f.trust, f.signer, "me", now)
	must(t, err)
	defer l.Close()
	act(t, l, f.signer, approve("/a", "x"))
	must(t, os.Remove(f.file("head")))
	if _, _, err := Create(t.Context(), f.dir, safedir.Rules{}, f.trust, f.signer, "me", now); err == nil {
		t.Fatal("a ledger of two acts was taken for an interrupted creation")
	}
}

// unsynced leaves out what makes acts durable, so that benchmarks can build
// large ledgers.
type unsynced struct{ store }

func (unsynced) SyncFile(*os.File) error { return nil }
func (unsynced) Sync() error             { return nil }

func openFast(f fixture) (*Ledger, error) {
	d, err := safedir.Open(f.dir, safedir.Rules{})
	if err != nil {
		return nil, err
	}
	return openStore(unsynced{dirStore{d}}, f.trust)
}

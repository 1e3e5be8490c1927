package subid

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func account(t *testing.T, uid uint32, name string, files map[string]string) Account {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"passwd": "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n", "group": "root:x:0:\nme:x:1000:\n",
		"uid_map": "0 0 4294967295\n", "gid_map": "0 0 4294967295\n",
	}
	for k, v := range files {
		all[k] = v
	}
	for k, v := range all {
		if err := os.WriteFile(filepath.Join(dir, k), []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Account{UID: uid, Name: name, Etc: dir, Proc: dir}
}

func TestClaimAsRootWritesOneLineAndFindsItAgain(t *testing.T) {
	a := account(t, 0, "root", map[string]string{"subuid": "me:100000:65536", "subgid": "me:100000:65536\n"})
	first, err := Claim(a)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Claim(a)
	if err != nil || again != first {
		t.Fatalf("second claim: %v, %v; the first was %v", again, err, first)
	}
	for _, name := range []string{"subuid", "subgid"} {
		b, err := os.ReadFile(filepath.Join(a.Etc, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(b), "proctor:"); got != 1 || !strings.HasPrefix(string(b), "me:100000:65536\n") {
			t.Errorf("%s is %q", name, b)
		}
	}
}

// TestRootsIdsAreNoAccounts: an account that is called as this program is neither
// gets root's ids nor gives root its own.
func TestRootsIdsAreNoAccounts(t *testing.T) {
	a := account(t, 0, "root", map[string]string{"passwd": "root:x:0:0::/:/bin/sh\nproctor:x:995:995::/:/bin/sh\n"})
	if _, err := Claim(a); err != nil {
		t.Fatal(err)
	}
	service := Account{UID: 995, Name: "proctor", Etc: a.Etc, Proc: a.Proc}
	if r, err := Claim(service); !errors.Is(err, ErrNone) {
		t.Errorf("the account got %v, %v", r, err)
	}
	a = account(t, 0, "root", map[string]string{"subuid": "proctor:1000000:256\n", "subgid": "proctor:1000000:256\n"})
	if r, err := Claim(a); err != nil || r.First != lowest {
		t.Errorf("root got %v, %v", r, err)
	}
	service.Etc, service.Proc = a.Etc, a.Proc
	if r, err := Claim(service); err != nil || r != (Range{1000000, 256}) {
		t.Errorf("the account got %v, %v", r, err)
	}
}

func TestClaimAsRootStepsOverWhatIsTaken(t *testing.T) {
	a := account(t, 0, "root", map[string]string{
		"subuid": "vm:536870912:65536\n", "subgid": "",
		"group": "root:x:0:\nodd:x:536936500:\n",
	})
	r, err := Claim(a)
	if err != nil {
		t.Fatal(err)
	}
	if r.First != lowest+2*claimed {
		t.Errorf("claimed %v", r)
	}
}

func TestClaimRefusesAnOverlap(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"another owner's range": {"subuid": "me:100000:65536\nyou:165535:10\n", "subgid": "me:100000:65536\n"},
		"an account":            {"subuid": "me:1:65536\n", "subgid": "me:1:65536\n"},
		"not in this namespace": {"subuid": "me:100000:65536\n", "subgid": "me:100000:65536\n", "uid_map": "0 0 65536\n", "gid_map": "0 0 65536\n"},
		"a malformed line":      {"subuid": "me:100000\n", "subgid": "me:100000:65536\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := Claim(account(t, 1000, "me", files)); err == nil || errors.Is(err, ErrNone) {
				t.Errorf("got %v, %v", r, err)
			}
		})
	}
	good := map[string]string{"subuid": "me:100000:65536\n", "subgid": "me:100000:65536\n"}
	if r, err := Claim(account(t, 1000, "me", good)); err != nil || r != (Range{100000, 65536}) {
		t.Errorf("positive control: %v, %v", r, err)
	}
	if _, err := Claim(account(t, 1000, "me", nil)); !errors.Is(err, ErrNone) {
		t.Errorf("no range at all: %v", err)
	}
}

func TestLeaseGivesNoBlockTwiceWhileItsHolderExists(t *testing.T) {
	dir, r := t.TempDir(), Range{1000, 3 * BlockSize}
	holder := func(name string) string {
		p := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b, c := holder("a"), holder("b"), holder("c")
	seen := map[uint32]bool{}
	for _, h := range []string{a, b, c} {
		block, err := Lease(t.Context(), dir, r, h)
		if err != nil {
			t.Fatal(err)
		}
		if seen[block.First] {
			t.Errorf("block %d was given twice", block.First)
		}
		seen[block.First] = true
	}
	if block, err := Lease(t.Context(), dir, r, holder("d")); err == nil {
		t.Errorf("a fourth block of three: %v", block)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	if block, err := Lease(t.Context(), dir, r, holder("e")); err != nil || block.First != 1000+BlockSize {
		t.Errorf("the block of a holder that is gone: %v, %v", block, err)
	}
}

func TestLeaseIsTheHoldersOwn(t *testing.T) {
	dir, r, holder := t.TempDir(), Range{1000, 4 * BlockSize}, t.TempDir()
	b, err := Lease(t.Context(), dir, r, holder)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Lease(t.Context(), dir, r, t.TempDir()); err != nil || other.First == b.First {
		t.Errorf("another holder: %v, %v", other, err)
	}
	if again, err := Lease(t.Context(), dir, r, holder); err != nil || again.First != b.First {
		t.Errorf("the same holder: %v, %v, and had %v", again, err, b)
	}
	if _, err := Lease(t.Context(), dir, r, filepath.Join(holder, "absent")); err == nil {
		t.Error("a holder that does not exist got a block")
	}
}

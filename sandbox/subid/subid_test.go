package subid

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func files(t *testing.T, subuid, subgid, passwd, group string) Files {
	t.Helper()
	dir := t.TempDir()
	f := Files{filepath.Join(dir, "subuid"), filepath.Join(dir, "subgid"), filepath.Join(dir, "passwd"), filepath.Join(dir, "group")}
	for path, text := range map[string]string{f.SubUID: subuid, f.SubGID: subgid, f.Passwd: passwd, f.Group: group} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestClaimAddsOneLineToEach(t *testing.T) {
	f := files(t, "alice:100000:65536", "alice:100000:65536\n# end\n", "root:x:0:0:::\n", "root:x:0:\n")
	r, err := Claim(f, "proctor", 65536)
	if err != nil || r != (Range{1879048192, 65536}) {
		t.Fatalf("Claim = %v, %v", r, err)
	}
	if got, want := text(t, f.SubUID), "alice:100000:65536\nproctor:1879048192:65536\n"; got != want {
		t.Errorf("subuid is %q, want %q", got, want)
	}
	if got, want := text(t, f.SubGID), "alice:100000:65536\n# end\nproctor:1879048192:65536\n"; got != want {
		t.Errorf("subgid is %q, want %q", got, want)
	}
	again, err := Claim(f, "proctor", 4096)
	if err != nil || again != r {
		t.Errorf("second Claim = %v, %v, want %v", again, err, r)
	}
	if strings.Count(text(t, f.SubUID), "proctor") != 1 {
		t.Error("the second claim added a line")
	}
	for _, p := range []string{f.SubUID, f.SubGID} {
		if _, err := os.Stat(p + ".lock"); !os.IsNotExist(err) {
			t.Errorf("lock of %s is left: %v", p, err)
		}
	}
}

// Whatever already has one of the ids: another place is picked, and lines of
// our own that overlap are refused.
func TestClaimOverlaps(t *testing.T) {
	for name, f := range map[string]func(own string) Files{
		"subuid": func(own string) Files { return files(t, "bob:1879050000:10\n"+own, own, "", "") },
		"subgid": func(own string) Files { return files(t, own, "bob:1879050000:10\n"+own, "", "") },
		"user":   func(own string) Files { return files(t, own, own, "bob:x:1879048192:100:::\n", "") },
		"group of a user": func(own string) Files {
			return files(t, own, own, "bob:x:1000:1879113727:::\n", "")
		},
		"group": func(own string) Files { return files(t, own, own, "", "bob:x:1879048200:\n") },
	} {
		r, err := Claim(f(""), "proctor", 65536)
		if err != nil || r != (Range{1879048192 + 65536, 65536}) {
			t.Errorf("%s: Claim = %v, %v, want the next place", name, r, err)
		}
		got := f("proctor:1879048192:65536\n")
		before := text(t, got.SubUID)
		if r, err := Claim(got, "proctor", 65536); err == nil {
			t.Errorf("%s: Claim with an overlap = %v, want an error", name, r)
		}
		if text(t, got.SubUID) != before {
			t.Errorf("%s: a refused claim changed the file", name)
		}
	}
}

func TestClaimCompletesAnInterruptedOne(t *testing.T) {
	f := files(t, "proctor:1879113728:65536\n", "", "", "")
	r, err := Claim(f, "proctor", 65536)
	if err != nil || r != (Range{1879113728, 65536}) {
		t.Fatalf("Claim = %v, %v", r, err)
	}
	if text(t, f.SubGID) != "proctor:1879113728:65536\n" {
		t.Errorf("subgid is %q", text(t, f.SubGID))
	}
}

func TestClaimRefuses(t *testing.T) {
	for name, f := range map[string]Files{
		"malformed line":   files(t, "what is this\n", "", "", ""),
		"beyond last id":   files(t, "a:4294967295:1\n", "", "", ""),
		"different ranges": files(t, "proctor:1879048192:65536\n", "proctor:1879113728:65536\n", "", ""),
		"two ranges":       files(t, "proctor:1:64\nproctor:100:64\n", "", "", ""),
		"too few":          files(t, "proctor:1879048192:16\n", "", "", ""),
	} {
		if r, err := Claim(f, "proctor", 65536); err == nil {
			t.Errorf("%s: Claim = %v, want an error", name, r)
		}
	}
	f := files(t, "", "", "", "")
	if err := os.WriteFile(f.SubGID+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Claim(f, "proctor", 65536); err == nil || text(t, f.SubUID) != "" {
		t.Errorf("Claim beside a lock: %v, subuid %q", err, text(t, f.SubUID))
	}
	if _, err := os.Stat(f.SubUID + ".lock"); !os.IsNotExist(err) {
		t.Error("its own first lock is left")
	}
}

func TestOfUser(t *testing.T) {
	for _, c := range []struct {
		uid, gid string
		want     Range
		none     bool
	}{
		{"al:100000:65536\n", "al:100000:65536\n", Range{164512, 1024}, false},
		{"al:100000:64\n", "al:100000:64\n", Range{100000, 64}, false},
		{"1000:100000:65536\n", "al:100000:65536\n", Range{164512, 1024}, false},
		{"al:100000:65536\n", "al:100100:100\n", Range{100100, 100}, false},
		{"al:100000:65536\n", "al:300000:65536\n", Range{}, true},
		{"al:100000:65536\n", "", Range{}, true},
		{"bob:100000:65536\n", "bob:100000:65536\n", Range{}, true},
		{"al:100000:31\n", "al:100000:31\n", Range{}, true},
	} {
		got, err := OfUser(files(t, c.uid, c.gid, "", ""), "al", 1000)
		if got != c.want || errors.Is(err, ErrNone) != c.none || (err != nil) != c.none {
			t.Errorf("OfUser(%q, %q) = %v, %v, want %v", c.uid, c.gid, got, err, c.want)
		}
	}
	if _, err := OfUser(files(t, "al:100000:65536\nbob:165000:10\n", "al:100000:65536\n", "", ""), "al", 1000); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("OfUser with another's ids among them: %v, want an overlap", err)
	}
}

// leaseChild is the other process of TestLeaseIsExclusive.
const leaseChild = "PROCTOR_TEST_LEASE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(leaseChild); dir != "" {
		l, err := Pool{dir, Range{1000, 64}}.Lease(nil)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(l.Number)
		os.Exit(0) // without Release: the lock ends with the process
	}
	os.Exit(m.Run())
}

func TestLeaseIsExclusive(t *testing.T) {
	p := Pool{filepath.Join(t.TempDir(), "leases"), Range{1000, 64}} // blocks 0 to 3
	first, err := p.Lease(nil)
	if err != nil || first.Number != 1 || first.First != 1016 {
		t.Fatalf("first lease = %+v, %v", first, err)
	}
	child := func() string {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), leaseChild+"="+p.Dir)
		out, _ := cmd.Output()
		return strings.TrimSpace(string(out))
	}
	if got := child(); got != "2" {
		t.Errorf("another process leased %s, want 2", got)
	}
	if got := child(); got != "2" {
		t.Errorf("after that process ended the next one leased %s, want 2", got)
	}
	second, err := p.Lease(func(id uint32) (bool, error) { return id == 1032, nil })
	if err != nil || second.Number != 3 {
		t.Fatalf("lease beside a block in use = %+v, %v, want 3", second, err)
	}
	if _, err := p.Lease(func(id uint32) (bool, error) { return id == 1032, nil }); !errors.Is(err, ErrAllLeased) {
		t.Errorf("lease of a full pool: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if got := child(); got != "1" {
		t.Errorf("after a release another process leased %s, want 1", got)
	}
	wrong := errors.New("cannot know")
	if _, err := p.Lease(func(uint32) (bool, error) { return false, wrong }); !errors.Is(err, wrong) {
		t.Errorf("lease where use is unknown: %v", err)
	}
}

func FuzzParseEntries(f *testing.F) {
	for _, s := range []string{"", "a:1:2\n", "a:1:2", "# x\n\n1000:100000:65536\n", "a:4294967294:1", "a:4294967295:1", ":1:2", "a:1", "a:-1:2", "a:1:2:3", "a:01:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := ParseEntries(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, e := range entries {
			if e.Range.end() > 1<<32-1 {
				t.Fatalf("range %v goes beyond the last id", e.Range)
			}
			fmt.Fprintf(&b, "%s:%d:%d\n", e.Owner, e.Range.First, e.Range.Count)
		}
		again, err := ParseEntries(b.String())
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%q was read as %v, and that as %v, %v", text, entries, again, err)
		}
	})
}

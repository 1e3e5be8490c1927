package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// nastyNames are directories' names that a shell, a terminal, a CI runner or
// UTF-8 would read as something else.
func nastyNames() []string {
	return append(hostilePaths(), "bad\xff\xfeutf8", "sp ace\n$(touch x)\x1b[31m")
}

// TestT15PastedRemedies: for hostile names, every remedy that sessions show
// prints is pasted into sh: exactly the file that was refused is approved, and
// nothing else runs.
func TestT15PastedRemedies(t *testing.T) {
	d := newDesk(t)
	for i, name := range nastyNames() {
		dir := filepath.Join(d.dir, "site", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "n"), []byte{byte('a' + i)}, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := d.run(`find . -name n -exec sh -c 'cp "$1" "${1%/*}/.envrc"' - {} \;`)
	d.start(cmd)
	d.ends(cmd, exitFail)
	shown := d.output(exitOK, "sessions", "show", d.session().Session)
	remedies := regexp.MustCompile(`(?m)^  remedy   (proctor .*)$`).FindAllStringSubmatch(shown, -1)
	if len(remedies) != len(nastyNames()) {
		t.Fatalf("%d remedies for %d names:\n%s", len(remedies), len(nastyNames()), shown)
	}
	empty := t.TempDir()
	for _, r := range remedies[:6] { // as sh runs them, in a directory of their own
		paste := exec.Command("sh", "-c", r[1])
		paste.Dir = empty
		paste.Env = append(os.Environ(), "PATH="+filepath.Join(d.dir, "bin")+":"+os.Getenv("PATH"))
		if out, err := paste.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", r[1], err, out)
		}
	}
	for _, r := range remedies[6:] { // the rest: as proctor would get them
		words := shellWords(t, r[1])
		if out, err := exec.Command(filepath.Join(d.dir, "bin", "proctor"), words...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", words, err, out)
		}
	}
	if made, err := os.ReadDir(empty); err != nil || len(made) > 0 {
		t.Errorf("pasting made %v, %v", made, err)
	}
	var got []string
	for _, r := range d.trustRecords() {
		got = append(got, r.path())
	}
	var want []string
	for _, name := range nastyNames() {
		want = append(want, filepath.Join(d.dir, "site", name, ".envrc"))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("approved %q,\nwant %q", got, want)
	}
	audit := d.proctor("audit", d.session().Session)
	d.start(audit)
	d.ends(audit, exitOK)
}

func (r trustRow) path() string {
	if r.PathBase64 != nil {
		return string(r.PathBase64)
	}
	return r.Path
}

// output runs a verb that must end with the status, and returns what it printed.
func (d *desk) output(want int, args ...string) string {
	d.Helper()
	cmd := d.proctor(args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != want {
		d.Fatalf("%q ended with %d (%v), want %d: %s%s", args, got, err, want, out.String(), errs.String())
	}
	return out.String()
}

func (d *desk) trustRecords() []trustRow {
	d.Helper()
	var doc trustDocument
	if err := json.Unmarshal([]byte(d.output(exitOK, "trust", "list", "--json")), &doc); err != nil {
		d.Fatal(err)
	}
	return doc.Records
}

// TestT6TwoOperators: two processes approve and revoke at once; nothing is lost,
// and what was revoked last stays so.
func TestT6TwoOperators(t *testing.T) {
	d := newDesk(t)
	const rounds = 6
	var running []*exec.Cmd
	for _, who := range []string{"a.txt", "sub/b.txt"} {
		script := `i=0; while [ $i -lt 6 ]; do "$0" --home home trust approve site/` + who + ` && "$0" --home home trust revoke site/` + who + ` && "$0" --home home trust approve site/run.sh || exit 9; i=$((i+1)); done`
		cmd := exec.Command("sh", "-c", script, filepath.Join(d.dir, "bin", "proctor"))
		cmd.Dir = d.dir
		d.start(cmd)
		running = append(running, cmd)
	}
	for _, cmd := range running {
		d.ends(cmd, exitOK)
	}
	left := d.trustRecords()
	if len(left) != 1 || !strings.HasSuffix(left[0].Path, "site/run.sh") {
		t.Errorf("left: %v", left)
	}
	var log struct {
		Anchor struct{ Count int }
	}
	if err := json.Unmarshal([]byte(d.output(exitOK, "keys", "list", "--json")), &log); err != nil || log.Anchor.Count != 1+2*3*rounds {
		t.Errorf("%d acts, want %d (%v)", log.Anchor.Count, 1+2*3*rounds, err)
	}
}

func TestLifetime(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m": now.Add(90 * time.Minute), "12h": now.Add(12 * time.Hour), "30d": now.AddDate(0, 0, 30),
		"2026-12-31": time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), "2026-11-30": time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := lifetime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0d", "-1d", "-1h", "0s", "d", "tomorrow", "2026-11-29", "99999d", "1w", "2026-13-01", " "} {
		if got, err := lifetime(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got, err := lifetime("", now); got != nil || err != nil {
		t.Errorf("never: %v, %v", got, err)
	}
}

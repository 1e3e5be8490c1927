package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// watched is what a running verb printed so far.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newWatched() *watched { return &watched{more: make(chan struct{}, 1)} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

// finds waits for a match and returns its groups.
func (w *watched) finds(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		w.mu.Lock()
		text := w.text.String()
		w.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m
		}
		select {
		case <-w.more:
		case <-limit.C:
			t.Fatalf("no match for %s in:\n%s", pattern, text)
		}
	}
}

// TestAnAgentAsks: a refused agent asks and waits; the operator sees what is asked
// for, answers, and the agent goes on with the answer; the approval then covers
// what it left.
func TestAnAgentAsks(t *testing.T) {
	d := newDesk(t)
	script := `cd site 2>/dev/null; echo '. ./x.sh' > .envrc
/.proctor/bin/proctor-agent trust decide .envrc; [ $? = 1 ] || exit 11
/.proctor/bin/proctor-agent request file .envrc --reason 'to set the path' --wait 100s || exit 12
/.proctor/bin/proctor-agent trust decide .envrc || exit 13
/.proctor/bin/proctor-agent request host a.h.example:443 --wait 100s; [ $? = 1 ] || exit 14
/.proctor/bin/proctor-agent request list`
	cmd := d.run(script)
	out, errs := newWatched(), newWatched()
	cmd.Stdout, cmd.Stderr = out, errs
	d.start(cmd)
	errs.finds(t, `(?m)^proctor: refused: trust: .*/site/\.envrc: no_record$`)
	approve := errs.finds(t, `(?m)^proctor: hint: (proctor --home \S+ trust approve .*/site/\.envrc --session (\S+) --expect-sha256 \S+)$`)
	show := errs.finds(t, `(?m)^proctor: hint: (proctor --home \S+ requests show r-1 --session \S+)$`)
	for _, hint := range []string{approve[1], show[1]} {
		if err := parses(shellWords(t, hint)); err != nil {
			t.Errorf("%s: %v", hint, err)
		}
	}
	session := approve[2]
	shown := d.output(exitOK, "requests", "show", "r-1")
	for _, want := range []string{"wants      file ", "refused    ", `agent says (not checked): "to set the path"`, "  | . ./x.sh", "refers to  x.sh"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show lacks %q:\n%s", want, shown)
		}
	}
	d.output(exitRefused, "requests", "approve", "r-1") // neither shown nor --yes
	d.output(exitRefused, "requests", "approve", "r-1", "--expect", strings.Repeat("0", 64))
	pasted := regexp.MustCompile(`(?m)^approve    (.*)$`).FindStringSubmatch(shown)
	if pasted == nil {
		t.Fatalf("no command to approve:\n%s", shown)
	}
	d.output(exitOK, append(shellWords(t, pasted[1])[2:], "--reason", "fine")...)
	errs.finds(t, `agent\| proctor: the operator says: fine`)
	errs.finds(t, `(?m)^proctor: request r-2 waits: host a\.h\.example:443$`)
	var doc struct {
		Requests []struct{ ID, Session, State string }
	}
	if err := json.Unmarshal([]byte(d.output(exitOK, "requests", "list", "--json")), &doc); err != nil || len(doc.Requests) != 2 ||
		doc.Requests[0].State != "approved" || doc.Requests[1].State != "waiting" || doc.Requests[1].Session != session {
		t.Errorf("%v: %+v", err, doc)
	}
	if text := d.output(exitOK, "requests", "show", "r-2"); !strings.Contains(text, "before     nothing is recorded for it\n") {
		t.Errorf("show says nothing of before:\n%s", text)
	}
	d.output(exitOK, "allow-host", "a.h.example:80")
	d.output(exitOK, "allow-host", "*.h.example:443", "--expires", "1h")
	d.output(exitOK, "allow-host", "other.example:443")
	if text := d.output(exitOK, "requests", "show", "r-2"); !regexp.MustCompile(`(?m)^before     a\.h\.example:80, approved .* by `).MatchString(text) ||
		!regexp.MustCompile(`(?m)^before     \*\.h\.example:443, approved .* until `).MatchString(text) || strings.Contains(text, "other.example") {
		t.Errorf("show says nothing of before:\n%s", text)
	}
	d.output(exitOK, "requests", "deny", "r-2", "--yes", "--reason", "use the mirror")
	d.ends(cmd, exitOK) // PASS: what it asked for is approved
	errs.finds(t, `agent\| proctor: the operator says: use the mirror`)
	out.finds(t, `(?m)^PASS \(exit 0\): .*1 approved finding`)
	out.finds(t, `(?m)^doors      allowed 1, refused 2, asked 2 `)
	if text := d.output(exitOK, "sessions", "show", session); !strings.Contains(text, "trust: refused: file ") {
		t.Errorf("sessions show does not list what was refused:\n%s", text)
	}
	log := d.output(exitOK, "log", session)
	for _, want := range []string{"decided", "request"} {
		if !strings.Contains(log, want) {
			t.Errorf("the record has no row %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(d.dir, "site", ".envrc")); err == nil {
		t.Error("the product was touched")
	}
	if text := d.output(exitOK, "requests", "list"); text != "" { // no session runs any more
		t.Errorf("%q", text)
	}
}

// tinyRegistry has two packages; the first needs the second.
func tinyRegistry(t *testing.T) string {
	t.Helper()
	integrity := "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))
	docs := map[string]string{
		"/one": `{"name":"one","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"one","version":"1.0.0","dependencies":{"two":"^2.0.0"},"dist":{"integrity":"` + integrity + `","tarball":"http://x/one.tgz"}}}}`,
		"/two": `{"name":"two","dist-tags":{"latest":"2.1.0"},"versions":{"2.1.0":{"name":"two","version":"2.1.0","hasInstallScript":true,"dist":{"integrity":"` + integrity + `","tarball":"http://x/two.tgz"}}}}`,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if docs[r.URL.Path] == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(docs[r.URL.Path]))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestAnAgentAsksForAPackage: the operator sees the identity and what it brings;
// what is approved is exactly that.
func TestAnAgentAsksForAPackage(t *testing.T) {
	d := newDesk(t)
	policy := "version: 1\npackages: {registry: \"" + tinyRegistry(t) + "\"}\n"
	if err := os.WriteFile(filepath.Join(d.dir, "home", "policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := d.run(`/.proctor/bin/proctor-agent request package one@1.0.0 --wait 100s && /.proctor/bin/proctor-agent request package nothing@1.0.0 --wait 100s; [ $? = 1 ]`)
	out, errs := newWatched(), newWatched()
	cmd.Stdout, cmd.Stderr = out, errs
	d.start(cmd)
	errs.finds(t, `(?m)^proctor: request r-1 waits: package one@1\.0\.0$`)
	shown := d.output(exitOK, "requests", "show", "r-1")
	for _, want := range []string{"integrity  sha512-", "closure    2 packages, 1 with install scripts", "before     nothing is recorded for any version"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show lacks %q:\n%s", want, shown)
		}
	}
	commands := regexp.MustCompile(`(?m)^approve    (.*)$`).FindAllStringSubmatch(shown, -1)
	if len(commands) != 2 {
		t.Fatalf("%q", commands)
	}
	one, whole := shellWords(t, commands[0][1])[2:], shellWords(t, commands[1][1])[2:]
	d.output(exitRefused, append(one, "--closure")...) // the digest is of the one alone
	d.output(exitOK, whole...)
	var doc packagesDocument
	if err := json.Unmarshal([]byte(d.output(exitOK, "trust", "list-packages", "--json")), &doc); err != nil || len(doc.Records) != 2 ||
		doc.Records[0].Name != "one" || doc.Records[1].Name != "two" || doc.Records[1].Version != "2.1.0" {
		t.Errorf("%v: %+v", err, doc.Records)
	}
	errs.finds(t, `(?m)^proctor: request r-2 waits: package nothing@1\.0\.0$`)
	if text := d.output(exitOK, "requests", "show", "r-2"); !strings.Contains(text, "identity   none: ") || strings.Contains(text, "\napprove ") {
		t.Errorf("an approval is offered for what there is not:\n%s", text)
	}
	d.output(exitRefused, "requests", "approve", "r-2", "--yes")
	d.output(exitOK, "requests", "deny", "r-2", "--yes")
	d.ends(cmd, exitOK)
}

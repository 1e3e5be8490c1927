package audit_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/packages"
)

// fetched are real packages, approved by what a lock file that the real npm wrote
// says of them, and their real archives.
type fetched struct {
	t        *testing.T
	registry string
	archives map[string][]byte // by integrity
}

func (f fetched) Registry() string { return f.registry }

func (f fetched) Decide(id packages.Identity) packages.Decision {
	if _, ok := f.archives[id.Integrity]; ok {
		return packages.Decision{Allowed: true, Reason: packages.ApprovedRecord}
	}
	return packages.Decision{Reason: packages.NotApproved}
}

func (f fetched) Archive(id packages.Identity) (*packages.Archive, bool) {
	a, err := packages.ReadArchive(bytes.NewReader(f.archives[id.Integrity]))
	if err != nil {
		f.t.Errorf("%s: %v", id.Spec(), err)
		return nil, false
	}
	return a, true
}

// TestRealRegistryInstallation lets the host's npm install packages that people
// use, and compares what it made with the registry's archives: nothing is a finding,
// programs' links, scopes, nested versions and bundled packages included.
func TestRealRegistryInstallation(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "npm", "config", "get", "registry").Output()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("npm is needed: %v", err)
		}
		t.Skipf("npm is needed: %v", err)
	}
	origin, err := packages.Origin(strings.TrimSpace(string(out)))
	must(t, err)
	s := newSession(t, map[string]string{"package.json": `{"name":"p","version":"1.0.0"}`})
	npm := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
		"@modelcontextprotocol/server-filesystem", "jackspeak@3.4.3", "typescript@5.4.5", "bundle-dependencies@1.0.2", "mkdirp@0.5.6")
	npm.Dir = s.stage
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v: %s", err, out)
	}
	f := fetched{t: t, registry: origin, archives: map[string][]byte{}}
	data, err := os.ReadFile(filepath.Join(s.stage, "package-lock.json"))
	must(t, err)
	entries, err := packages.ParseLock(data)
	must(t, err)
	for _, e := range entries {
		if e.Covered() {
			continue
		}
		id, err := e.Identity(origin)
		must(t, err)
		f.fetch(id)
	}
	r := s.judge(audit.Input{Packages: f, Review: audit.List})
	wantFindings(t, r)
	t.Logf("%d entries, %d packages", len(entries), len(r.Packages))
	if len(r.Packages) < 100 {
		t.Errorf("relies on %d packages only", len(r.Packages))
	}
	// One byte more, in one of them.
	s.write(map[string]string{"node_modules/typescript/lib/tsc.js": "evil"})
	if got := details(s.judge(audit.Input{Packages: f, Review: audit.List})); len(got) == 0 || !strings.Contains(strings.Join(got, " "), "node_modules/typescript changed") && !strings.Contains(strings.Join(got, " "), "node_modules/typescript new") {
		t.Errorf("a changed file: %v", got)
	}
}

// fetch gets an archive whose bytes are those of the identity.
func (f fetched) fetch(id packages.Identity) {
	f.t.Helper()
	if _, ok := f.archives[id.Integrity]; ok {
		return
	}
	name := id.Name[strings.LastIndexByte(id.Name, '/')+1:]
	client := http.Client{Timeout: time.Minute}
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.registry+"/"+id.Name+"/-/"+name+"-"+id.Version+".tgz", http.NoBody)
	must(f.t, err)
	resp, err := client.Do(req)
	must(f.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 256<<20))
	must(f.t, err)
	sum := sha512.Sum512(data)
	if "sha512-"+base64.StdEncoding.EncodeToString(sum[:]) != id.Integrity {
		f.t.Fatalf("%s: status %s, other bytes", id.Spec(), resp.Status)
	}
	f.archives[id.Integrity] = data
}

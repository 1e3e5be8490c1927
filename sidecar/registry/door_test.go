package registry_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/registry"
)

// pack makes an archive as npm does.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	tw := tar.NewWriter(zw)
	for name, text := range files {
		mode := int64(0o644)
		if strings.HasSuffix(name, ".js") {
			mode = 0o755
		}
		if err := tw.WriteHeader(&tar.Header{Name: "package/" + name, Mode: mode, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(tw, text)
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func integrity(b []byte) string {
	sum := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// upstream is a registry: a package's versions, each with its package.json and
// archive.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	packages map[string]map[string]published
	asked    []string
}

type published struct {
	manifest map[string]any
	archive  []byte
	link     string // dist.tarball, where it is not the usual one
}

func newUpstream(t testing.TB) *upstream {
	u := &upstream{packages: map[string]map[string]published{}}
	u.Server = httptest.NewServer(http.HandlerFunc(u.answer))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) answer(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, r.URL.Path)
	name, rest, isArchive := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/-/")
	versions, ok := u.packages[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	base := name[strings.LastIndexByte(name, '/')+1:]
	doc := map[string]any{}
	latest := ""
	for v, p := range versions {
		if isArchive && rest == base+"-"+v+".tgz" {
			_, _ = w.Write(p.archive)
			return
		}
		link := p.link
		if link == "" {
			link = u.URL + "/" + name + "/-/" + base + "-" + v + ".tgz"
		}
		entry := map[string]any{"name": name, "version": v, "dist": map[string]any{"integrity": integrity(p.archive), "tarball": link}}
		for k, v := range p.manifest {
			entry[k] = v
		}
		doc[v], latest = entry, max(latest, v)
	}
	if isArchive {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": latest}, "versions": doc})
}

// publish makes a version; more is put into its package.json.
func (u *upstream) publish(t testing.TB, name, version string, more map[string]any) packages.Identity {
	t.Helper()
	manifest := map[string]any{"name": name, "version": version, "main": "index.js"}
	for k, v := range more {
		manifest[k] = v
	}
	b, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	archive := pack(t, map[string]string{
		"package.json": string(b),
		"index.js":     fmt.Sprintf("#!/usr/bin/env node\nconsole.log('%s %s runs');\n", name, version),
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.packages[name] == nil {
		u.packages[name] = map[string]published{}
	}
	u.packages[name][version] = published{manifest: more, archive: archive}
	return packages.Identity{Registry: u.URL, Name: name, Version: version, Integrity: integrity(archive)}
}

// counter is a door that is being served, and what it recorded.
type counter struct {
	testing.TB
	url   string
	cache string

	mu       sync.Mutex
	approved []packages.Identity
	once     packages.Identity // was approved once, and is no more
	denied   string            // name that the policy denies
	allowed  string            // name that the policy allows
	rows     []string
	refusals []door.Refusal
	full     bool
}

func (c *counter) PackageDenied(name string) (string, bool) {
	return c.denied, name == c.denied && name != ""
}

func (c *counter) PackageAllowed(name string) (string, bool) {
	return c.allowed, name == c.allowed && name != ""
}

func (c *counter) Denied(_, _, _ string) (bool, error) { return false, nil }

func (c *counter) Approved(id packages.Identity) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.approved, id), nil
}

func (c *counter) approve(all ...packages.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.approved = append(c.approved, all...)
}

// recorded are the rows of then.
func (c *counter) recorded() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.rows)
}

func (c *counter) refused() []door.Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refusals)
}

func start(t testing.TB, u *upstream, cache string) *counter {
	t.Helper()
	if cache == "" {
		cache = t.TempDir()
	}
	c := &counter{TB: t, cache: cache}
	client, err := packages.NewClient(packages.Config{Registry: u.URL, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	held, err := registry.OpenCache(cache, registry.MaxCache)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.url = "http://" + l.Addr().String()
	d, err := registry.New(registry.Config{
		Registry: client, Address: c.url, Cache: held, Rules: c, Transport: &http.Transport{DisableKeepAlives: true},
		Decide: func(id packages.Identity) packages.Decision {
			return packages.Decide(packages.Question{Spec: id.Spec(), Identity: id, Use: packages.Fetch}, c, c)
		},
		Named: func(name string) ([]packages.Identity, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			var all []packages.Identity
			for _, id := range append([]packages.Identity{c.once}, c.approved...) {
				if id.Name == name {
					all = append(all, id)
				}
			}
			return all, nil
		},
		Row: func(kind string, data any) error {
			b, err := json.Marshal(data)
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.full {
				return errors.New("full")
			}
			c.rows = append(c.rows, kind+" "+string(b))
			return err
		},
		Refused: func(r door.Refusal) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.refusals = append(c.refusals, r)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, held.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// npm runs the real npm, or npx, in a directory whose only registry is the door.
func (c *counter) npm(dir, program string, args ...string) (string, error) {
	c.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") != "" {
			c.Fatal(err)
		}
		c.Skip(err)
	}
	home := c.TempDir()
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "npm_config_registry=" + c.url + "/", "npm_config_replace_registry_host=always",
		"npm_config_cache=" + filepath.Join(home, "cache"), "npm_config_fetch_retries=0", "npm_config_update_notifier=false",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *counter) get(path string, headers ...string) (*http.Response, string) {
	c.Helper()
	req, err := http.NewRequest(http.MethodGet, c.url+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp, "cut: " + err.Error()
	}
	return resp, string(b)
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestD1RealNpm (case D1): the real npm and npx install and run what is approved,
// byte for byte, from ranges and from a lock file, the second time without the
// registry; they print the refusal and the remedy of what is not.
func TestD1RealNpm(t *testing.T) {
	u := newUpstream(t)
	b := u.publish(t, "b", "1.0.0", nil)
	u.publish(t, "b", "1.1.0", nil)
	s := u.publish(t, "@s/deep", "2.0.0", map[string]any{"dependencies": map[string]string{"b": "^1.0.0"}})
	a := u.publish(t, "a", "1.0.0", map[string]any{"dependencies": map[string]string{"b": "^1.0.0", "@s/deep": "2.x"}})
	tool := u.publish(t, "tool", "3.0.0", map[string]any{"bin": "index.js"})
	u.publish(t, "c", "1.0.0", nil)
	c := start(t, u, "")
	c.approve(a, b, s, tool)
	dir := t.TempDir()
	write(t, dir, "package.json", `{"name":"site","version":"1.0.0"}`)
	if out, err := c.npm(dir, "npm", "install", "a@1.0.0"); err != nil {
		t.Fatalf("npm install: %v: %s", err, out)
	}
	for name, id := range map[string]packages.Identity{"a": a, "b": b, "@s/deep": s} {
		got, err := os.ReadFile(filepath.Join(dir, "node_modules", name, "index.js"))
		if err != nil || !strings.Contains(string(got), name+" "+id.Version+" runs") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil || !strings.Contains(string(lock), u.URL+"/b/-/b-1.0.0.tgz") || !strings.Contains(string(lock), b.Integrity) || strings.Contains(string(lock), c.url) {
		t.Errorf("the lock file names the door, or not the registry: %s, %v", lock, err)
	}
	if out, err := c.npm(dir, "npx", "-y", "tool@3.0.0"); err != nil || !strings.Contains(out, "tool 3.0.0 runs") {
		t.Errorf("npx: %v: %s", err, out)
	}
	for _, args := range [][]string{{"npm", "install", "c@1.0.0"}, {"npm", "install", "c"}, {"npx", "-y", "c@1.0.0"}} {
		out, err := c.npm(dir, args[0], args[1:]...)
		if err == nil || !strings.Contains(out, "proctor: c is not approved. The operator can run:  proctor explain c") {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	for _, spec := range []string{"b@1.1.0", "b@latest"} {
		out, err := c.npm(dir, "npm", "install", spec)
		if want := "proctor: b@1.1.0 is not approved. The operator can run:  proctor trust approve-package b@1.1.0"; (err == nil || !strings.Contains(out, want)) != (spec == "b@latest") {
			t.Errorf("npm install %s: %v: %s", spec, err, out)
		}
	}
	if refusals := c.refused(); len(refusals) < 4 {
		t.Errorf("refusals: %v", refusals)
	}
	if out, err := c.npm(dir, "npm", "audit"); err != nil || !strings.Contains(out, "found 0 vulnerabilities") {
		t.Errorf("npm audit: %v: %s", err, out)
	}
	if out, err := c.npm(dir, "npm", "search", "left"); err != nil {
		t.Errorf("npm search: %v: %s", err, out)
	}
	if out, err := c.npm(dir, "npm", "publish"); err == nil || !strings.Contains(out, "nothing is published") && !strings.Contains(out, "ENEEDAUTH") {
		t.Errorf("npm publish: %v: %s", err, out)
	}
	u.Close() // from here on there is no registry
	later := start(t, u, c.cache)
	later.approve(a, b, s, tool)
	if err := os.RemoveAll(filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if out, err := later.npm(dir, "npm", "ci"); err != nil {
		t.Errorf("npm ci without the registry: %v: %s", err, out)
	}
	if out, err := later.npm(dir, "npx", "-y", "tool@3.0.0"); err != nil || !strings.Contains(out, "tool 3.0.0 runs") {
		t.Errorf("npx without the registry: %v: %s", err, out)
	}
}

// TestD3OtherBytes (case D3): whatever the registry or the cache has, only the
// approved bytes come out, and only from the registry's own place.
func TestD3OtherBytes(t *testing.T) {
	u := newUpstream(t)
	id := u.publish(t, "a", "1.0.0", nil)
	const path = "/a/-/a-1.0.0.tgz"
	good := start(t, u, "")
	good.approve(id)
	resp, body := good.get(path)
	if sum := integrity([]byte(body)); resp.StatusCode != 200 || sum != id.Integrity {
		t.Fatalf("%s %s", resp.Status, sum)
	}
	sum, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(id.Integrity, "sha512-"))
	file := filepath.Join(good.cache, "sha512", hex.EncodeToString(sum))
	for name, spoiled := range map[string][]byte{"other bytes": bytes.Replace([]byte(body), []byte(body)[20:21], []byte{^body[20]}, 1), "cut": []byte(body)[:10], "empty": {}} {
		if err := os.WriteFile(file, spoiled, 0o600); err != nil {
			t.Fatal(err)
		}
		if resp, got := good.get(path); resp.StatusCode != 200 || got != body {
			t.Errorf("the cache has %s: %s, %d bytes", name, resp.Status, len(got))
		}
	}
	elsewhere := newUpstream(t)
	for name, change := range map[string]func(p *published){
		"other bytes": func(p *published) {
			p.archive = pack(t, map[string]string{"package.json": `{"name":"a","version":"1.0.0","evil":1}`})
		},
		"a link to another host":      func(p *published) { p.link = elsewhere.URL + path; p.archive = []byte("evil") },
		"a link to a private address": func(p *published) { p.link = "http://169.254.169.254/latest"; p.archive = []byte("evil") },
	} {
		spoilt := newUpstream(t)
		id := spoilt.publish(t, "a", "1.0.0", nil)
		p := spoilt.packages["a"]["1.0.0"]
		change(&p)
		spoilt.packages["a"]["1.0.0"] = p
		c := start(t, spoilt, "")
		c.approve(id)
		for _, ask := range []string{path, "/a"} {
			resp, got := c.get(ask)
			if resp.StatusCode != 403 || !strings.Contains(got, "the registry has other bytes") {
				t.Errorf("%s, %s: %s %s", name, ask, resp.Status, got)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(c.cache, "sha512", "*")); len(left) > 0 {
			t.Errorf("%s: the cache has %v", name, left)
		}
	}
	if len(elsewhere.asked) > 0 {
		t.Errorf("another host was asked: %v", elsewhere.asked)
	}
}

// TestD3LargeOtherBytes (case D3): a large archive is hashed while it is sent or
// read. Other bytes in the cache are cut before their end and gone afterwards,
// and what they say of themselves does not count.
func TestD3LargeOtherBytes(t *testing.T) {
	noise := make([]byte, 300<<10)
	_, _ = rand.Read(noise)
	manifest := func(more string) map[string]string {
		return map[string]string{"package.json": `{"name":"a","version":"1.0.0"` + more + `}`, "noise": string(noise)}
	}
	// What is behind the end of an archive is read by nobody, and hashed all the same.
	good, evil := pack(t, manifest("")), append(pack(t, manifest(`,"bin":"evil.js"`)), noise...)
	u := newUpstream(t)
	u.packages["a"] = map[string]published{"1.0.0": {archive: good}}
	id := packages.Identity{Registry: u.URL, Name: "a", Version: "1.0.0", Integrity: integrity(good)}
	sum, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(id.Integrity, "sha512-"))
	for _, path := range []string{"/a/-/a-1.0.0.tgz", "/a"} {
		c := start(t, u, "")
		c.approve(id)
		if err := os.WriteFile(filepath.Join(c.cache, "sha512", hex.EncodeToString(sum)), evil, 0o600); err != nil {
			t.Fatal(err)
		}
		resp, body := c.get(path)
		if path == "/a" {
			if resp.StatusCode != 200 || strings.Contains(body, "evil.js") {
				t.Errorf("%s: %s %s", path, resp.Status, body)
			}
			continue
		}
		rows := c.recorded()
		if !strings.HasPrefix(body, "cut: ") || !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, "npm-failed ") }) {
			t.Errorf("%s: %s, %d bytes, %q", path, resp.Status, len(body), rows)
		}
		if resp, body := c.get(path); resp.StatusCode != 200 || body != string(good) {
			t.Errorf("%s again: %s, %d bytes", path, resp.Status, len(body))
		}
	}
}

// TestD3ArchivesOwnWords (case D3): an archive that says that it is another
// package is none.
func TestD3ArchivesOwnWords(t *testing.T) {
	for name, archive := range map[string][]byte{
		"another name":    pack(t, map[string]string{"package.json": `{"name":"b","version":"1.0.0"}`}),
		"another version": pack(t, map[string]string{"package.json": `{"name":"a","version":"1.0.1"}`}),
		"no package.json": pack(t, map[string]string{"index.js": ""}),
		"a name twice":    pack(t, map[string]string{"package.json": `{"name":"a","name":"a","version":"1.0.0"}`}),
		"not an archive":  []byte("text"),
	} {
		u := newUpstream(t)
		u.packages["a"] = map[string]published{"1.0.0": {archive: archive}}
		c := start(t, u, "")
		c.approve(packages.Identity{Registry: u.URL, Name: "a", Version: "1.0.0", Integrity: integrity(archive)})
		if resp, got := c.get("/a/-/a-1.0.0.tgz"); resp.StatusCode != 200 || got != string(archive) {
			t.Errorf("%s: %s", name, resp.Status) // they are the approved bytes, whatever they are
		}
		if resp, got := c.get("/a"); resp.StatusCode != 404 || !strings.Contains(got, "a@1.0.0: ") {
			t.Errorf("%s: %s %s", name, resp.Status, got)
		}
	}
}

// TestDocuments: a document holds approved versions only, read from their own
// archives, with links to the door.
func TestDocuments(t *testing.T) {
	u := newUpstream(t)
	one := u.publish(t, "a", "1.0.0", map[string]any{"bin": "index.js", "scripts": map[string]string{"postinstall": "x"}})
	two := u.publish(t, "a", "1.10.0", nil)
	u.publish(t, "a", "2.0.0", nil)
	beta := u.publish(t, "a", "3.0.0-beta.1", nil)
	// What the registry says of approved bytes does not count once they are here.
	p := u.packages["a"]["1.0.0"]
	p.manifest = map[string]any{"dependencies": map[string]string{"evil": "1.0.0"}}
	u.packages["a"]["1.0.0"] = p
	c := start(t, u, "")
	c.approve(one, two, beta)
	if resp, _ := c.get("/a/-/a-1.0.0.tgz"); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	resp, body := c.get("/a")
	var doc struct {
		Tags     map[string]string `json:"dist-tags"`
		Versions map[string]struct {
			Dependencies map[string]string
			Bin          map[string]string
			Script       bool `json:"hasInstallScript"`
			Dist         struct{ Integrity, Tarball string }
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %s, %v", resp.Status, body, err)
	}
	v := doc.Versions["1.0.0"]
	if len(doc.Versions) != 3 || doc.Tags["latest"] != "1.10.0" || len(v.Dependencies) != 0 || v.Bin["a"] != "index.js" || !v.Script ||
		v.Dist.Integrity != one.Integrity || v.Dist.Tarball != c.url+"/a/-/a-1.0.0.tgz" {
		t.Errorf("%s", body)
	}
	if resp, body := c.get("/a/1.10.0"); resp.StatusCode != 200 || !strings.Contains(body, two.Integrity) {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, body := c.get("/a/2.0.0"); resp.StatusCode != 403 {
		t.Errorf("%s %s", resp.Status, body)
	}
	c.denied = "a"
	for _, path := range []string{"/a", "/a/-/a-1.0.0.tgz"} {
		if resp, body := c.get(path); resp.StatusCode != 403 || strings.Contains(body, "can run") {
			t.Errorf("%s, denied by the policy: %s %s", path, resp.Status, body)
		}
	}
	c.denied, c.allowed = "", "a"
	if _, body := c.get("/a"); !strings.Contains(body, `"2.0.0":`) {
		t.Errorf("allowed by the policy: %s", body)
	}
	if resp, _ := c.get("/a/-/a-2.0.0.tgz"); resp.StatusCode != 200 {
		t.Errorf("allowed by the policy: %s", resp.Status)
	}
	c.full = true
	for _, path := range []string{"/a", "/a/-/a-1.0.0.tgz"} {
		if resp, body := c.get(path); resp.StatusCode != 503 {
			t.Errorf("%s without its row: %s %s", path, resp.Status, body)
		}
	}
}

// TestUnapprovedNamesStayHere: the registry hears of no name of which nothing is
// approved, however it is asked for; it does of one that is approved, or that the
// policy allows by its name.
func TestUnapprovedNamesStayHere(t *testing.T) {
	u := newUpstream(t)
	known, gone := u.publish(t, "known", "1.0.0", nil), u.publish(t, "gone", "1.0.0", nil)
	c := start(t, u, "")
	c.once = gone
	for _, path := range []string{"/secret-4711", "/@secret%2f4711", "/@secret/4711", "/secret-4711/1.0.0", "/secret-4711/latest", "/secret-4711/-/secret-4711-1.0.0.tgz", "/gone", "/gone/1.0.0", "/gone/-/gone-1.0.0.tgz", "/-/v1/search?text=secret-4711"} {
		for _, agent := range []string{"npm/10.0.0 node/v20", "curl/8"} {
			resp, body := c.get(path, "User-Agent", agent)
			refused := resp.StatusCode == 403 && strings.Contains(body, "is not approved. The operator can run:  proctor ")
			// npm is led to where it is told of the version that the records have.
			if !refused && !strings.HasPrefix(path, "/-/") && (path != "/gone" || !strings.Contains(body, `"deprecated":"not approved"`)) {
				t.Errorf("%s by %s: %s %s", path, agent, resp.Status, body)
			}
		}
	}
	if out, err := c.npm(t.TempDir(), "npm", "install", "gone"); err == nil || !strings.Contains(out, "proctor trust approve-package gone@1.0.0") {
		t.Errorf("npm install gone: %v: %s", err, out)
	}
	if len(u.asked) > 0 {
		t.Errorf("the registry was asked for %q", u.asked)
	}
	c.approve(known)
	c.get("/known")
	if len(u.asked) == 0 {
		t.Error("the registry was not asked for what is approved: the test shows nothing")
	}
	u.asked, c.allowed = nil, "gone"
	if resp, body := c.get("/gone"); resp.StatusCode != 200 || len(u.asked) == 0 {
		t.Errorf("allowed by the policy: %s %s", resp.Status, body)
	}
}

// TestD5NpmBounds (case D5): what is too long or no path of a registry, and a
// thousand at once.
func TestD5NpmBounds(t *testing.T) {
	u := newUpstream(t)
	id := u.publish(t, "a", "1.0.0", nil)
	c := start(t, u, "")
	c.approve(id)
	for path, want := range map[string]int{
		"/": 404, "/a": 200, "/a/-/b-1.0.0.tgz": 404, "/a/-/a-1.0.tgz": 404, "/a/-/a-1.0.0.tgz/x": 404, "/..%2fa": 404, "/@s": 404, "/-/whoami": 404, "/-/v1/search?text=x": 200,
		"/" + strings.Repeat("a", 5000): 414, "/a/-/a-1.0.0.tgz": 200, "/unknown-package": 403,
	} {
		if resp, body := c.get(path); resp.StatusCode != want || want != 200 && !strings.Contains(body, `"error":"proctor: `) {
			t.Errorf("%.100s: %s %.200s", path, resp.Status, body)
		}
	}
	// Where no version is known, the remedy is a command that can work.
	refusals := c.refused()
	last := refusals[len(refusals)-1]
	if want := []string{"proctor", "explain", "unknown-package"}; last.What != "unknown-package" || !slices.Equal(last.Remedy, want) || len(last.Ask) > 0 {
		t.Errorf("%+v", last)
	}
	if _, body := c.get("/a/next"); !strings.Contains(body, "proctor explain a\"") || strings.Contains(body, "approve-package") {
		t.Errorf("a tag: %s", body)
	}
	if _, body := c.get("/a/2.0.0"); !strings.Contains(body, "proctor trust approve-package a@2.0.0\"") {
		t.Errorf("a version: %s", body)
	}
	for range 200 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET /a HTTP/1.1\r\nHost")
	}
	client := &http.Client{Timeout: 30 * time.Second}
	failed := make(chan error, 1000)
	for range 1000 {
		go func() {
			resp, err := client.Get(c.url + "/a/-/a-1.0.0.tgz")
			if err == nil {
				var b []byte
				b, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err == nil && integrity(b) != id.Integrity {
					err = errors.New(resp.Status)
				}
			}
			failed <- err
		}()
	}
	for range 1000 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}

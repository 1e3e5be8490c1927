package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const testRegistry = "https://registry.example"

// recorded answers with the documents under testdata, as the registry did.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "registry", strings.ReplaceAll(name, "/", "%2F")+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// transport answers by a function and keeps what was asked.
type transport struct {
	mu    sync.Mutex
	asked []*http.Request
	do    func(*http.Request) (*http.Response, error)
}

func (f *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.asked = append(f.asked, r)
	f.mu.Unlock()
	return f.do(r)
}

func answer(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(body)}
}

func serving(t *testing.T, do func(*http.Request) (*http.Response, error)) (*Client, *transport) {
	t.Helper()
	f := &transport{do: do}
	c, err := NewClient(Config{Registry: testRegistry + "/", Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

func text(s string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return answer(200, strings.NewReader(s)), nil }
}

func TestResolve(t *testing.T) {
	c, f := serving(t, func(r *http.Request) (*http.Response, error) {
		name := strings.ReplaceAll(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "%2F", "/")
		return answer(200, strings.NewReader(string(recorded(t, name)))), nil
	})
	id, err := c.Resolve(t.Context(), "left-pad@1.3.0")
	want := Identity{testRegistry, "left-pad", "1.3.0", "sha512-XI5MPzVNApjAyhQzphX8BkmKsKUxD4LdyK24iZeQGinBN9yTQT3bFlCBy/aVx2HrNcqQGsdot8ghrjyrvMCoEA=="}
	if err != nil || id != want {
		t.Fatalf("identity %+v, %v", id, err)
	}
	if tag, err := c.Resolve(t.Context(), "left-pad"); err != nil || tag != want {
		t.Errorf("latest: %+v, %v", tag, err)
	}
	scoped, err := c.Resolve(t.Context(), "@modelcontextprotocol/server-filesystem@2025.8.21")
	if err != nil || scoped.Version != "2025.8.21" || scoped.Check() != nil {
		t.Errorf("scoped: %+v, %v", scoped, err)
	}
	last := f.asked[len(f.asked)-1]
	if last.URL.String() != testRegistry+"/@modelcontextprotocol%2Fserver-filesystem" {
		t.Errorf("asked for %s", last.URL)
	}
	if !strings.HasPrefix(last.Header.Get("Accept"), "application/vnd.npm.install-v1+json") || last.Header.Get("Authorization") != "" {
		t.Errorf("header %v", last.Header)
	}
}

func TestP1NothingIsFetched(t *testing.T) {
	c, f := serving(t, text("{}"))
	for spec := range badSpecs() {
		if _, err := c.Resolve(t.Context(), spec); err == nil {
			t.Errorf("%q resolves", spec)
		}
	}
	for _, name := range []string{"", "..", "a/../b", "a@1.0.0", "@scope", "a?x", "a#x"} {
		if _, err := c.Document(t.Context(), name); ReasonOf(err) != BadName {
			t.Errorf("document of %q: %v", name, err)
		}
	}
	if len(f.asked) != 0 {
		t.Errorf("%d requests, the first for %s", len(f.asked), f.asked[0].URL)
	}
	if _, err := c.Resolve(t.Context(), "left-pad"); len(f.asked) != 1 || ReasonOf(err) != Malformed {
		t.Errorf("the control: %d requests, %v", len(f.asked), err)
	}
}

// doc is a document of the package a with one version 1.0.0.
func doc(change ...string) string {
	s := `{"name":"a","dist-tags":{"latest":"1.0.0","old":"^1.0.0","loop":"latest"},"versions":{"1.0.0":` +
		`{"name":"a","version":"1.0.0","dist":{"integrity":"sha512-` + strings.Repeat("A", 86) + `=="}}}}`
	return strings.NewReplacer(change...).Replace(s)
}

func TestP3P5Documents(t *testing.T) {
	tests := []struct {
		name, spec, doc string
		want            Reason
	}{
		{"as it should be", "a@1.0.0", doc(), ""},
		{"the tag latest", "a", doc(), ""},
		{"a tag that is a range", "a@old", doc(), InexactTag},
		{"a tag that is another tag", "a@loop", doc(), InexactTag},
		{"no such tag", "a@next", doc(), NoTag},
		{"no such version", "a@1.0.1", doc(), NoVersion},
		{"the tag's version is missing", "a", doc(`"latest":"1.0.0"`, `"latest":"1.0.9"`), NoVersion},
		{"another name", "a@1.0.0", doc(`{"name":"a","dist-tags"`, `{"name":"b","dist-tags"`), OtherName},
		{"the name in another case", "a@1.0.0", doc(`{"name":"a","dist-tags"`, `{"name":"A","dist-tags"`), OtherName},
		{"no name", "a@1.0.0", doc(`{"name":"a","dist-tags"`, `{"dist-tags"`), Malformed},
		{"entry is a list", "a@1.0.0", `{"name":"a","versions":{"1.0.0":[]}}`, NoVersion},
		{"entry is null", "a@1.0.0", `{"name":"a","versions":{"1.0.0":null}}`, NoVersion},
		{"entry is text", "a@1.0.0", `{"name":"a","versions":{"1.0.0":"{}"}}`, NoVersion},
		{"no versions", "a@1.0.0", `{"name":"a"}`, NoVersion},
		{"entry of another name", "a@1.0.0", doc(`{"name":"a","version"`, `{"name":"b","version"`), OtherEntry},
		{"entry of another version", "a@1.0.0", doc(`"version":"1.0.0"`, `"version":"1.0.1"`), OtherEntry},
		{"no integrity", "a@1.0.0", doc(`"integrity"`, `"shasum"`), NoIntegrity},
		{"empty integrity", "a@1.0.0", doc(strings.Repeat("A", 86)+"==", "", "sha512-", ""), NoIntegrity},
		{"integrity of another kind", "a@1.0.0", `{"name":"a","versions":{"1.0.0":{"name":"a","version":"1.0.0","dist":{"integrity":{}}}}}`, NoIntegrity},
		{"sha1", "a@1.0.0", doc("sha512-"+strings.Repeat("A", 86)+"==", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="), WeakIntegrity},
		{"two integrities", "a@1.0.0", doc("sha512-", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk= sha512-"), WeakIntegrity},
		{"not JSON", "a@1.0.0", "<html>", Malformed},
		{"empty", "a@1.0.0", "", Malformed},
		{"cut", "a@1.0.0", doc()[:60], Malformed},
		{"an array", "a@1.0.0", "[" + doc() + "]", Malformed},
		{"two documents", "a@1.0.0", doc() + doc(), Malformed},
		{"a version twice", "a@1.0.0", doc(`"versions":{`, `"versions":{"1.0.0":{},`), DuplicateKey},
		{"the name twice", "a@1.0.0", doc(`{"name":"a","dist-tags"`, `{"name":"b","name":"a","dist-tags"`), DuplicateKey},
		{"the integrity twice", "a@1.0.0", doc(`"integrity"`, `"integrity":"sha512-x","integrity"`), DuplicateKey},
		{"the integrity twice, once escaped", "a@1.0.0", doc(`"integrity"`, `"\u0069ntegrity":"sha512-x","integrity"`), DuplicateKey},
		{"dist in another case too", "a@1.0.0", doc(`"dist":`, `"Dist":{},"dist":`), Malformed},
		{"too deep", "a@1.0.0", doc(`"dist-tags":{`, `"x":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`,"dist-tags":{`), Malformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := serving(t, text(tt.doc))
			id, err := c.Resolve(t.Context(), tt.spec)
			if tt.want == "" {
				if err != nil || id.Check() != nil || id.Version != "1.0.0" {
					t.Fatalf("identity %+v, %v", id, err)
				}
				return
			}
			if err == nil || ReasonOf(err) != tt.want {
				t.Fatalf("reason %v (%v), want %v", ReasonOf(err), err, tt.want)
			}
		})
	}
}

func TestP5Answers(t *testing.T) {
	fill := func(n int) string {
		return doc(`"dist-tags":{`, `"x":"`+strings.Repeat("y", n-len(doc())-len(`"x":"",`))+`","dist-tags":{`)
	}
	tests := []struct {
		name string
		do   func(*http.Request) (*http.Response, error)
		want Reason
	}{
		{"exactly the bound", text(fill(MaxDocument)), ""},
		{"a byte over the bound", text(fill(MaxDocument + 1)), TooLarge},
		{"far over the bound", text(fill(3 * MaxDocument)), TooLarge},
		{"not found", func(*http.Request) (*http.Response, error) { return answer(404, strings.NewReader(doc())), nil }, Unknown},
		{"an error of the server", func(*http.Request) (*http.Response, error) { return answer(500, strings.NewReader(doc())), nil }, BadStatus},
		{"partial content", func(*http.Request) (*http.Response, error) { return answer(206, strings.NewReader(doc())), nil }, BadStatus},
		{"no connection", func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }, Unreachable},
		{"cut short", func(*http.Request) (*http.Response, error) {
			return answer(200, io.MultiReader(strings.NewReader(doc()[:20]), errorReader{})), nil
		}, Unreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := serving(t, tt.do)
			_, err := c.Resolve(t.Context(), "a@1.0.0")
			if (err == nil) != (tt.want == "") || err != nil && ReasonOf(err) != tt.want {
				t.Fatalf("reason %v (%v), want %q", ReasonOf(err), err, tt.want)
			}
		})
	}
}

// TestTooLargeAsksForTheVersionAlone serves a package's document over the bound.
func TestTooLargeAsksForTheVersionAlone(t *testing.T) {
	entry := func(name, version string) string {
		return `{"name":"` + name + `","version":"` + version + `","dist":{"integrity":"sha512-` + strings.Repeat("A", 86) + `=="}}`
	}
	tests := []struct {
		name, spec, path, answer string
		want                     Reason
	}{
		{"a version", "@s/a@1.0.0", "/@s%2Fa/1.0.0", entry("@s/a", "1.0.0"), ""},
		{"a tag", "@s/a@next", "/@s%2Fa/next", entry("@s/a", "1.0.0"), ""},
		{"no version means latest", "@s/a", "/@s%2Fa/latest", entry("@s/a", "1.0.0"), ""},
		{"another version", "@s/a@1.0.0", "/@s%2Fa/1.0.0", entry("@s/a", "1.0.1"), OtherEntry},
		{"another name", "@s/a@1.0.0", "/@s%2Fa/1.0.0", entry("a", "1.0.0"), OtherEntry},
		{"a tag to a range", "@s/a@next", "/@s%2Fa/next", entry("@s/a", "^1.0.0"), InexactTag},
		{"too large again", "@s/a@1.0.0", "/@s%2Fa/1.0.0", strings.Repeat(" ", MaxDocument) + entry("@s/a", "1.0.0"), TooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, f := serving(t, func(r *http.Request) (*http.Response, error) {
				if r.URL.EscapedPath() == tt.path {
					return answer(200, strings.NewReader(tt.answer)), nil
				}
				return answer(200, strings.NewReader(strings.Repeat(" ", MaxDocument+1))), nil
			})
			id, err := c.Resolve(t.Context(), tt.spec)
			if len(f.asked) != 2 {
				t.Errorf("%d requests", len(f.asked))
			}
			if tt.want == "" {
				if err != nil || id.Spec() != "@s/a@1.0.0" || id.Check() != nil {
					t.Fatalf("identity %+v, %v", id, err)
				}
				return
			}
			if ReasonOf(err) != TooLarge || !strings.Contains(fmt.Sprint(err), tt.want.Words()) {
				t.Fatalf("error %v, want it to name %s", err, tt.want)
			}
		})
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestP5Redirects runs against real sockets.
func TestP5Redirects(t *testing.T) {
	reached := 0
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached++
		_, _ = io.WriteString(w, doc())
	}))
	defer evil.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, evil.URL+r.URL.Path, status)
		}))
		c, err := NewClient(Config{Registry: front.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Resolve(t.Context(), "a@1.0.0"); ReasonOf(err) != Redirected {
			t.Errorf("%d: %v", status, err)
		}
		front.Close()
	}
	if reached != 0 {
		t.Errorf("the other server was asked %d times", reached)
	}
	c, err := NewClient(Config{Registry: evil.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve(t.Context(), "a@1.0.0"); err != nil || reached != 1 {
		t.Errorf("the control: %v, asked %d times", err, reached)
	}
}

// drip gives a byte a second: each read is quick, the whole is not.
type drip struct {
	ctx  context.Context
	rest string
}

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
	}
	if d.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, d.rest[:1])
	d.rest = d.rest[n:]
	return n, nil
}

func TestP5TotalDeadline(t *testing.T) {
	for size, want := range map[int]Reason{10: "", 100: TimedOut} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := serving(t, func(r *http.Request) (*http.Response, error) {
				body := doc()
				return answer(200, io.MultiReader(strings.NewReader(body[:len(body)-size]), &drip{r.Context(), body[len(body)-size:]})), nil
			})
			start := time.Now()
			_, err := c.Resolve(t.Context(), "a@1.0.0")
			if (err == nil) != (want == "") || err != nil && ReasonOf(err) != want {
				t.Errorf("%d seconds of drip: %v", size, err)
			}
			if took := time.Since(start); took > DefaultTimeout {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestP7NothingAmbient sets what npm and Go's own client would follow.
func TestP7NothingAmbient(t *testing.T) {
	hits := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hits <- r.URL.String() }))
	defer proxy.Close()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := r.Header.Get("Authorization"); a != "" {
			t.Errorf("sent credentials %q", a)
		}
		_, _ = io.WriteString(w, doc())
	}))
	defer registry.Close()
	dir := t.TempDir()
	rc := fmt.Sprintf("registry=%s\n//%s/:_authToken=canary\n", proxy.URL, strings.TrimPrefix(registry.URL, "http://"))
	if err := os.WriteFile(filepath.Join(dir, ".npmrc"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("PATH", dir) // whatever is started, is not found
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "npm_config_registry", "NPM_CONFIG_REGISTRY", "npm_config_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	// Loopback is never proxied by Go: the request goes to a name that only
	// our dialer knows.
	c, err := NewClient(Config{Registry: registry.URL})
	if err != nil {
		t.Fatal(err)
	}
	own, ok := c.http.Transport.(*http.Transport)
	if !ok || own.Proxy != nil || own.DialTLSContext != nil {
		t.Fatal("the client's own transport knows of proxies")
	}
	if _, err := c.Resolve(t.Context(), "a@1.0.0"); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-hits:
		t.Errorf("the proxy was asked for %s", got)
	default:
	}
}

func TestNoRegistry(t *testing.T) {
	for _, address := range []string{"", "registry.example", "https://u:p@registry.example"} {
		_, err := NewClient(Config{Registry: address})
		if ReasonOf(err) != NoRegistry {
			t.Errorf("%q: %v", address, err)
		}
		if r := RemedyOf(err); len(r.Command) == 0 || r.Command[0] != "npm" {
			t.Errorf("%q: remedy %+v", address, r)
		}
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(doc()))
	f.Add([]byte(doc(`"integrity"`, `"integrity":"x","integrity"`)))
	f.Add([]byte(`{"name":"a","versions":{"1.0.0":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ParseDocument(testRegistry, "a", data)
		if err != nil {
			return
		}
		for _, spec := range []Spec{{Name: "a", Version: "1.0.0"}, {Name: "a", Tag: "latest"}} {
			if id, err := d.Identity(spec); err == nil && (id.Check() != nil || id.Name != "a") {
				t.Fatalf("%+v gives %+v", spec, id)
			}
		}
	})
}

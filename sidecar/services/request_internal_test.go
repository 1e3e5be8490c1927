package services

import (
	"bufio"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/keys"
)

// FuzzRequest: whatever an agent asks for, a request that is let through goes to
// the service's host, below one of the listed paths however a server decodes it,
// with the secret where it belongs and nowhere else.
func FuzzRequest(f *testing.F) {
	for _, target := range []string{
		"/api/v1/chat?x=1", "/api/v1", "/api/v1/", "/api/v1/../admin", "/api/v1/%2e%2e/admin", "/api/v1/%252e%252e/admin", "/api//v1/x",
		"/api/v1/..%2fadmin", `/api/v1/..\admin`, "/api/v1/x;/../../admin", "http://elsewhere.test/api/v1/x", "//elsewhere.test/api/v1/x",
		"/api/v1/%00", "/api/v1?key=mine&key=other", "/api/v1/?%zz", "*", "/api/v10",
	} {
		f.Add("GET", target, "X-Any: 1")
	}
	f.Add("DELETE", "/api/v1/x", "")
	f.Add("GET", "/api/v1/x", "Host: elsewhere.test\r\nAuthorization: Bearer mine\r\nConnection: X-Token\r\nX_Token: 1")
	const secret = "canary-0123456789"
	s, err := newService(Service{
		Name: "api", Base: "https://service.test/base", Place: Query, Field: "key", Secret: keys.NewSecret([]byte(secret)), Methods: []string{"GET"}, Paths: []string{"/v1/"},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, target, header string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: door\r\n" + header + "\r\n\r\n")))
		if err != nil {
			return
		}
		name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		rest = "/" + rest
		if name != "api" || plainPath(r.URL) != nil || s.allows(r.Method, rest) != nil {
			return
		}
		out, err := s.outgoing(r, rest)
		if err != nil {
			return
		}
		if r.Method != "GET" || out.Method != "GET" || out.URL.Scheme != "https" || out.URL.Host != "service.test" || out.Host != "service.test" {
			t.Errorf("%s %s goes to %s %s", method, target, out.Method, out.URL)
		}
		for p := out.URL.EscapedPath(); ; {
			if seen := path.Clean(strings.ReplaceAll(p, `\`, "/")); seen != "/base/v1" && !strings.HasPrefix(seen, "/base/v1/") {
				t.Errorf("%s may be read as %s", target, seen)
			}
			again, err := url.PathUnescape(p)
			if err != nil || again == p {
				break
			}
			p = again
		}
		if got := out.URL.Query()["key"]; len(got) != 1 || got[0] != secret {
			t.Errorf("%s has the keys %q", target, got)
		}
		for name, values := range out.Header {
			if strings.Contains(strings.Join(values, " "), secret) {
				t.Errorf("%s has the secret in %s", target, name)
			}
		}
	})
}

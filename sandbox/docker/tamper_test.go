package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// tampered is an engine whose daemon does not do what it is told: a proxy on a
// socket of its own changes the request to create, or the inspection, on the way.
func tampered(t testing.TB, host string, how sandboxtest.Tamper) sandbox.Engine {
	t.Helper()
	target := strings.TrimPrefix(host, "unix://")
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "docker"})
			if r.In.Method == http.MethodPost && strings.HasSuffix(r.In.URL.Path, "/containers/create") {
				change(t, r.Out, how)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if how == sandboxtest.TamperUnknown && strings.HasSuffix(r.Request.URL.Path, "/json") && strings.Contains(r.Request.URL.Path, "/containers/") {
				addUnknown(t, r)
			}
			return nil
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", target)
		}},
	}
	dir, err := os.MkdirTemp("", "proctor-tamper-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	e := newEngine(t, "unix://"+socket, "")
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func change(t testing.TB, r *http.Request, how sandboxtest.Tamper) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Error(err)
		return
	}
	host := body["HostConfig"].(map[string]any)
	mounts := host["Mounts"].([]any)
	first := mounts[0].(map[string]any)
	switch how {
	case sandboxtest.TamperCapability:
		host["CapDrop"] = nil
	case sandboxtest.TamperPrivileges:
		host["SecurityOpt"] = host["SecurityOpt"].([]any)[1:]
	case sandboxtest.TamperSeccomp:
		host["SecurityOpt"] = []any{"no-new-privileges", "seccomp=unconfined"}
	case sandboxtest.TamperRoot:
		host["ReadonlyRootfs"] = false
	case sandboxtest.TamperUser:
		body["User"] = "0:0"
	case sandboxtest.TamperEnvironment:
		body["Env"] = append(body["Env"].([]any), "EXTRA=1")
	case sandboxtest.TamperMount:
		host["Mounts"] = append(mounts, map[string]any{"Type": "bind", "Source": first["Source"], "Target": "/extra"})
	case sandboxtest.TamperWritable:
		first["ReadOnly"] = false
	case sandboxtest.TamperNetwork:
		host["NetworkMode"], body["NetworkDisabled"] = "host", false
	case sandboxtest.TamperProcesses:
		host["PidMode"] = "host"
	case sandboxtest.TamperMemory:
		host["Memory"], host["MemorySwap"] = 0, 0
	case sandboxtest.TamperPIDs:
		host["PidsLimit"] = nil
	case sandboxtest.TamperCommand:
		body["Entrypoint"] = []any{"/bin/payload", "exit", "0"}
	case sandboxtest.TamperDevice:
		host["Devices"] = []any{map[string]any{"PathOnHost": "/dev/null", "PathInContainer": "/dev/extra", "CgroupPermissions": "rwm"}}
	}
	raw, err = json.Marshal(body)
	if err != nil {
		t.Error(err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	r.ContentLength = int64(len(raw))
}

// addUnknown is a daemon newer than this program, with an option that it turns on.
func addUnknown(t testing.TB, r *http.Response) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Error(err)
		return
	}
	if host, ok := body["HostConfig"].(map[string]any); ok {
		host["ShareEverything"] = true
	}
	raw, err = json.Marshal(body)
	if err != nil {
		t.Error(err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	r.ContentLength = int64(len(raw))
	r.Header.Set("Content-Length", "")
	r.Header.Del("Content-Length")
}

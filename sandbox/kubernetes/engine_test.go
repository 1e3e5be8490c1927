package kubernetes

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/proctor-project/proctor/sandbox"
)

// TestProbe: what the API server does not say is not claimed.
func TestProbe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"gitVersion":"v1.34.4"}`))
	}))
	t.Cleanup(server.Close)
	c, err := newClient(Config{}, &rest.Config{Host: server.URL}, "agents")
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Probe(t.Context(), "")
	if err != nil || info.EngineVersion != "v1.34.4" || info.Cgroup != "unknown" || info.RuntimeFloor == "ok" || len(info.LimitsMissing) == 0 || info.RecursiveRO {
		t.Errorf("%+v, %v", info, err)
	}
	var unavailable *sandbox.UnavailableError
	if _, err := c.Probe(t.Context(), "runsc"); !errors.As(err, &unavailable) || unavailable.Remedy == "" {
		t.Errorf("a runtime of one container: %v", err)
	}
}

//go:build kubernetes

package pod_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestPodDoors: with shared-network waived a door reaches a service with a secret
// that is in no other container and not in the Pod; without the waiver nothing is
// written. What the waiver says is so: the agent gets out without a door.
func TestPodDoors(t *testing.T) {
	s := newSite(t, nil)
	canary := "canary-" + rand.Text()
	var asked atomic.Int32
	service, roots := s.ServeTLS(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+canary {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		asked.Add(1)
		_, _ = fmt.Fprintf(w, "welcome, you said %s\n", r.Header.Get("Authorization"))
	})
	plain := s.Serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "past the door") })
	pem := filepath.Join(s.dir, "roots.pem")
	s.must(os.WriteFile(pem, roots, 0o600))
	doors := fmt.Sprintf("services:\n  - {name: model, base: %q, auth: {kind: header, name: Authorization, prefix: \"Bearer \"}, secret: {file: /nowhere}}\n", service.URL)
	look := "cat /proc/self/environ /proc/self/mountinfo; ls /keys; "
	script := look + "busybox wget -qO- http://127.0.0.1:4100/model/hello && busybox wget -qO- " + plain.URL + " && echo agent > a.txt"
	const waived = "observer: {chain: allow}\nallow: [runtime-floor, no-limits, shared-network]\n"

	refused := s.refusal(script, consent+doors)
	if !strings.Contains(refused, "share one network") || !strings.Contains(refused, "--allow shared-network") {
		t.Errorf("without the waiver: %s", refused)
	}
	file := s.render(script, []string{look + goodCheck}, waived+doors)
	if !strings.Contains(file, "the agent reaches past them") || !strings.Contains(file, "egress:\n    - {}\n") {
		t.Errorf("what was rendered does not say it: %s", file)
	}
	// The Secret is not there: serve says which one, and how to give it.
	s.start(file)
	s.Await(func(said string) bool {
		return strings.Contains(said, "secret of service model") && strings.Contains(said, "kubectl create secret generic proctor-doors")
	}, "logs", podName, "-c", "serve")
	secret := filepath.Join(s.dir, "model.key")
	s.must(os.WriteFile(secret, []byte(canary+"\n"), 0o600))
	s.Kubectl("", "create", "secret", "generic", "proctor-doors", "--from-file", "service-model="+secret, "--from-file", "roots.pem="+pem)
	_, statement := s.verdict("PASS", file)
	for _, want := range []string{`"shared-network"`, "shared by the Pod's containers"} {
		if !strings.Contains(statement, want) {
			t.Errorf("the seal does not say %s: %s", want, statement)
		}
	}
	agent := s.Kubectl("", "logs", podName, "-c", "agent")
	if asked.Load() != 1 || !strings.Contains(agent, "welcome") || !strings.Contains(agent, "past the door") {
		t.Errorf("asked %d times; the agent: %s", asked.Load(), agent)
	}
	forms := []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte(canary + "\n"))}
	if kept := s.Kubectl("", "get", "secret", "proctor-doors", "-o", "yaml"); !strings.Contains(kept, forms[2]) {
		t.Error("the look does not find the secret where it is")
	}
	all := s.Kubectl("", "get", "pod,events,networkpolicy", "-o", "yaml")
	p := s.status()
	for _, c := range containers(p) {
		all += s.Kubectl("", "logs", podName, "-c", c.Name)
	}
	for _, form := range forms {
		if strings.Contains(all, form) || strings.Contains(statement, form) {
			t.Error("the secret is in the Pod, its events, a log or the seal")
		}
	}
	if seal := s.Kubectl("", "logs", podName, "-c", "seal"); !strings.Contains(seal, "waived: runtime-floor, no-limits, shared-network") {
		t.Errorf("seal's log: %s", seal)
	}
}

// refusal is what render says instead of a Pod.
func (s *site) refusal(script, more string) string {
	s.Helper()
	_, said := s.rendered(2, script, []string{goodCheck}, more)
	return said
}

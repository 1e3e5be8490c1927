//go:build kubernetes

package pod_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const manifests = "../../../deploy/kubernetes"

func documents(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	d := yaml.NewDecoder(strings.NewReader(text))
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if spec, ok := doc["spec"].(map[string]any); ok { // a patch changes the order of volumes, which means nothing
			if volumes, ok := spec["volumes"].([]any); ok {
				slices.SortFunc(volumes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		all[fmt.Sprint(doc["kind"])] = doc
	}
}

// TestOverlays: what kustomize makes of each is what render writes with the flag
// for the same.
func TestOverlays(t *testing.T) {
	s := newSite(t, nil)
	policy, err := filepath.Abs(manifests + "/base/policy.yaml")
	s.must(err)
	for dir, flags := range map[string][]string{
		"base":            nil,
		"overlays/claims": {"--keep-ledger", "proctor-ledger", "--keep-seals", "proctor-seals", "--keep-stage", "proctor-stage"},
		"overlays/gvisor": {"--runtime-class", "gvisor"},
		"overlays/users":  {"--user-namespace"},
	} {
		got := documents(t, s.Kubectl("", "kustomize", filepath.Join(manifests, dir)))
		args := append([]string{"render", "kubernetes", "--policy", policy, "--product", "/srv/site", "--claim", claimed}, flags...)
		for kind, want := range documents(t, s.proctor(0, args...)) {
			if !reflect.DeepEqual(got[kind], want) {
				t.Errorf("%s: %s is another:\n%v\n%v", dir, kind, got[kind], want)
			}
		}
	}
}

// TestOverlaysRun: the repository's own Pod, and what its overlays change.
func TestOverlaysRun(t *testing.T) {
	s := newSite(t, nil)
	s.ImportAs("proctor-agent-image:local", map[string][]byte{"/bin/agent": []byte("#!/bin/sh\ncat /proc/self/uid_map\necho agent > a.txt\n")})
	s.applied("base")
	if ids := s.Kubectl("", "logs", podName, "-c", "agent"); !strings.Contains(ids, "4294967295") {
		t.Errorf("ids of the node: %s", ids)
	}
	s.applied("overlays/users")
	if ids := s.Kubectl("", "logs", podName, "-c", "agent"); strings.Contains(ids, "4294967295") {
		t.Errorf("ids of the Pod's own: %s", ids)
	}
	kept := map[string]string{}
	for _, name := range []string{"ledger", "seals", "stage"} {
		dir := filepath.Join(s.dir, name)
		s.must(os.Mkdir(dir, 0o777))
		s.must(os.Chmod(dir, 0o777))
		kept[name] = dir
		s.volume("proctor-"+name, dir, "ReadWriteOnce", "16Gi")
	}
	first := s.applied("overlays/claims")
	second := s.applied("overlays/claims")
	for _, e := range []end{first, second} {
		if _, err := os.Stat(filepath.Join(kept["seals"], e.Session+".manifest")); err != nil {
			t.Error(err)
		}
		s.proctor(0, "verify", "--public-key", "public.json", "--require", "signature,manifest", filepath.Join(kept["seals"], e.Session+".json"))
	}
	if data, err := os.ReadFile(filepath.Join(kept["stage"], "product", "a.txt")); err != nil || string(data) != "agent\n" {
		t.Errorf("what the agent made: %q, %v", data, err)
	}
}

// applied runs a directory of the manifests to a PASS.
func (s *site) applied(dir string) end {
	s.Helper()
	s.Kubectl("", "delete", "pod", podName, "--ignore-not-found", "--grace-period=0", "--force")
	s.Kubectl("", "apply", "-k", filepath.Join(manifests, dir))
	p := s.ended()
	if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Terminated == nil {
		s.Fatalf("%s: %s", dir, s.told(p))
	}
	e := s.end(p)
	if e.Verdict != "PASS" {
		s.Fatalf("%s: %q %s", dir, e.Reasons, s.told(p))
	}
	return e
}

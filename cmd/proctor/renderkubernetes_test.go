package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRenderedPod: the base of deploy/kubernetes is its policy's, and what a Pod
// cannot give is refused.
func TestRenderedPod(t *testing.T) {
	d := newDesk(t)
	path, err := filepath.Abs("../../deploy/kubernetes/base/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := d.output(exitOK, "render", "kubernetes", "--policy", path, "--product", "/srv/site", "--claim", "proctor-product")
	got, err := os.ReadFile("../../deploy/kubernetes/base/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("deploy/kubernetes/base/pod.yaml is not what its kustomization.yaml says that it is")
	}
	const image = "version: 1\nagent: {command: [x], image: {kind: image, ref: x}%s}\n"
	for why, c := range map[string]struct {
		policy string
		args   []string
	}{
		"doors to the outside":   {strings.Replace(image, "%s", "", 1) + "packages: {registry: \"https://registry.example.test/\"}\n", []string{"--product", "/p", "--claim", "c"}},
		"one runtime for all":    {strings.Replace(image, "%s", ", runtime: runsc", 1), []string{"--product", "/p", "--claim", "c"}},
		"not the absolute path":  {strings.Replace(image, "%s", "", 1), []string{"--product", "p/..", "--claim", "c"}},
		"a claim, or a launcher": {strings.Replace(image, "%s", "", 1), []string{"--product", "/p"}},
	} {
		path := filepath.Join(d.dir, "refused.yaml")
		if err := os.WriteFile(path, []byte(c.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := d.proctor(append([]string{"render", "kubernetes", "--policy", path}, c.args...)...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitRefused || !strings.Contains(string(out), why) {
			t.Errorf("%s: %s", why, out)
		}
	}
}

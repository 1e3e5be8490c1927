package pod_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// answer is where a property of the conformance suite is asserted on a Pod, or
// why it means nothing there.
type answer struct {
	test string
	why  string
}

// here are what TestPodConformance asserts, by the suite's own payload.
const here = "TestPodConformance"

func properties() map[string]answer {
	return map[string]answer{
		"probe":                           {test: "TestProbe"},
		"resolve":                         {why: "nodes know images, by reference; the kubelet says what it ran, and the seal has that"},
		"identity":                        {test: here},
		"namespaces":                      {test: here},
		"kernel surface":                  {test: here},
		"setuid":                          {why: "the runtime's filter lets the bits be set; they are inert (identity: no-new-privileges), and apply writes none"},
		"same user outside":               {test: here},
		"environment":                     {test: here},
		"process":                         {test: here},
		"binds":                           {test: here},
		"submount":                        {test: "TestPodReadOnly"},
		"root and tmpfs":                  {test: here},
		"layer":                           {why: "a check has none: the product is read-only in it (binds)"},
		"layer limit":                     {why: "a check has no layer"},
		"forbidden sources":               {test: "TestMounts"},
		"socket through a read-only bind": {test: here},
		"network":                         {test: here},
		"parts":                           {test: "TestMounts"},
		"limits":                          {test: here},
		"out of memory":                   {test: "TestPodOutOfMemory"},
		"exit codes":                      {test: here},
		"signals":                         {test: "TestKubernetesStopped"},
		"start failure":                   {test: here},
		"output":                          {why: "the node's: kubelet and runtime bound a container's log"},
		"input":                           {why: "agents and checks have none; TestParcelIsExact is about what the launcher's steps are given"},
		"terminal":                        {why: "refused: TestWholeCan"},
		"lifeline":                        {test: "TestKubernetesKilled"},
		"remove":                          {test: "TestKubernetesInterruptedTwice"},
		"users":                           {why: "nothing outside of the Pod mounts its emptyDir; the kubelet keeps the order"},
		"sweep":                           {test: "TestKubernetesKilled"},
		"names":                           {why: "the API server gives a Pod's name once"},
		"invalid spec":                    {test: "TestRefused"},
		"hostile image":                   {why: "the Pod says command, user and directory; an image's own variables are its container's"},
		"tampered":                        {test: "TestDifferences"},
	}
}

// TestProperties: each property of the suite has an answer, and each answer a
// test that there is.
func TestProperties(t *testing.T) {
	all := properties()
	for _, name := range sandboxtest.Properties() {
		a, ok := all[name]
		if !ok || (a.test == "") == (a.why == "") {
			t.Errorf("the suite asserts %q, and nobody says where a Pod does", name)
		}
		delete(all, name)
	}
	for name := range all {
		t.Errorf("the suite has no property %q", name)
	}
	tests := map[string]bool{}
	for _, dir := range []string{".", "..", "../../launch", "../../../cmd/proctor"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
		}
	}
	for name, a := range properties() {
		if a.test != "" && !tests[a.test] {
			t.Errorf("%s is asserted by %s, which is no test", name, a.test)
		}
		for _, named := range regexp.MustCompile(`Test\w+`).FindAllString(a.why, -1) {
			if !tests[named] && named != "TestParcelIsExact" {
				t.Errorf("%s names %s, which is no test", name, named)
			}
		}
	}
}

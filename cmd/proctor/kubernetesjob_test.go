//go:build kubernetes

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox/ociimage"
)

// join makes another home that uses the namespace's keys and ledger.
func (c *cluster) join() *cluster {
	c.desk.Helper()
	other := *c
	other.desk = &desk{c.desk.T, filepath.Join(c.dir, "other")}
	other.dir = other.desk.dir
	if err := os.Mkdir(other.dir, 0o700); err != nil {
		c.desk.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(c.dir, "bin"), filepath.Join(other.dir, "bin")); err != nil {
		c.desk.Fatal(err)
	}
	other.says(exitOK, "init", "--engine", "kubernetes", "--namespace", c.Namespace, "--join")
	if err := os.WriteFile(filepath.Join(other.dir, "home", "policy.yaml"), []byte(c.policy()), 0o600); err != nil {
		c.desk.Fatal(err)
	}
	return &other
}

// TestKubernetesJoin: a launcher with the Role alone, and a home of its own, has
// the namespace's keys and ledger: what the first one approved holds, the first
// one's public key verifies its seals, and no key is in its home.
func TestKubernetesJoin(t *testing.T) {
	c := newCluster(t)
	site := c.product("kube-site", "true\n")
	if err := os.WriteFile(filepath.Join(site, ".envrc"), []byte("x=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.says(exitOK, "trust", "approve", "--engine", "kubernetes", filepath.Join(site, ".envrc"))
	if err := os.Remove(filepath.Join(site, ".envrc")); err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(c.dir, "public.json")
	if err := os.WriteFile(public, []byte(c.output("keys", "export-public", "--engine", "kubernetes")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.asLauncher()
	other := c.join()
	doc := other.verdict(exitOK, site, "printf 'x=1\\n' > .envrc")
	if len(doc.Findings) != 1 || !doc.Findings[0].Approved {
		t.Errorf("findings: %+v", doc.Findings)
	}
	other.says(exitOK, "verify", "--public-key", public, "--require", "signature", doc.SealPath)
	if keys, err := filepath.Glob(filepath.Join(other.dir, "home", "keys", "*", "*")); err != nil || len(keys) > 0 {
		t.Errorf("keys in the home of who joined: %v, %v", keys, err)
	}
}

func (c *cluster) output(args ...string) string {
	c.desk.Helper()
	out, err := c.proctorIn(args...).Output()
	if err != nil {
		c.desk.Fatalf("proctor %v: %v", args, err)
	}
	return string(out)
}

// documentedJob is the Job that docs/kubernetes.md shows.
func documentedJob(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, job, ok := strings.Cut(string(page), "```yaml\napiVersion: batch/v1\n")
	if !ok {
		t.Fatal("docs/kubernetes.md shows no Job")
	}
	job, _, _ = strings.Cut(job, "```\n")
	return "apiVersion: batch/v1\n" + job
}

// TestKubernetesJob: the documented Job, as it is, with the launcher's service
// account and nothing else of the operator's.
func TestKubernetesJob(t *testing.T) {
	c := newCluster(t)
	c.Kubectl("", "apply", "-f", launcherRole)
	launcher := map[string][]byte{"/srv/site/test.sh": []byte("test -e made\n")}
	for _, name := range []string{"proctor", "proctor-sidecar", "proctor-agent"} {
		program, err := os.ReadFile(filepath.Join(c.dir, "bin", name))
		if err != nil {
			t.Fatal(err)
		}
		launcher["/bin/"+name] = program
	}
	c.ImportAs("proctor-launcher:test", launcher,
		ociimage.Dir{Path: "/srv", Mode: 0o755}, ociimage.Dir{Path: "/srv/site", Owner: 64004, Mode: 0o755},
		ociimage.Dir{Path: "/home", Mode: 0o755}, ociimage.Dir{Path: "/home/launcher", Owner: 64004, Mode: 0o700})
	c.Tag("proctor-launcher:test", "registry.example/launcher:1")
	c.ImportAs(c.Busybox, map[string][]byte{"/bin/my-agent": []byte("#!/bin/sh\nmkdir closed && touch made closed/file && chmod 555 closed\n")})
	c.Tag(imageName, "registry.example/proctor:1")
	policy := filepath.Join(c.dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(c.policy()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Kubectl("", "create", "configmap", "site-policy", "--from-file", policy)
	c.Kubectl(documentedJob(t), "apply", "-f", "-")
	ended := c.Await(func(s string) bool { return strings.Contains(s, "True") }, "get", "job", "site-42", "-o", `jsonpath={.status.conditions[?(@.status=="True")]}`)
	said := c.Kubectl("", "logs", "job/site-42")
	if !strings.Contains(ended, "Complete") || !strings.Contains(said, "\nPASS (exit 0): ") || strings.Contains(said, "warning") {
		t.Errorf("%s: %s", ended, said)
	}
}

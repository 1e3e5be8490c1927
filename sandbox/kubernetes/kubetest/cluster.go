package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox/ociimage"
)

// directory names the place of the cluster.
const directory = "PROCTOR_TEST_KUBERNETES"

// patience bounds what a test waits for on a loaded machine.
const patience = 5 * time.Minute

// Cluster is the running one, as one test sees it.
type Cluster struct {
	testing.TB
	Dir        string // of the cluster's files
	Kubeconfig string
	Namespace  string // of the test
	// Busybox is the test's own name, on the node that all share, of an image in
	// which an agent and a check find a shell and below it each applet that tests use.
	Busybox string
}

// Start makes the test's namespace.
func Start(t testing.TB) *Cluster {
	t.Helper()
	dir := os.Getenv(directory)
	if dir == "" {
		t.Fatalf("no cluster: run the test below  scripts/kubernetes run  (%s is not set)", directory)
	}
	c := &Cluster{TB: t, Dir: dir, Kubeconfig: filepath.Join(dir, "admin.kubeconfig"), Namespace: "t-" + strings.ToLower(rand.Text()[:10])}
	c.Busybox = "proctor-busybox:" + c.Namespace
	c.Kubectl("", "create", "namespace", c.Namespace)
	t.Cleanup(func() { c.Kubectl("", "delete", "namespace", c.Namespace, "--wait=false") })
	c.Kubectl("", "label", "namespace", c.Namespace, "pod-security.kubernetes.io/enforce=restricted")
	return c
}

// Kubectl runs kubectl in the test's namespace; one that fails fails the test.
func (c *Cluster) Kubectl(stdin string, args ...string) string {
	c.Helper()
	out, err := c.Try(stdin, args...)
	if err != nil {
		c.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return out
}

// Try is Kubectl where failing is an answer, too; on failure the text is
// standard error's.
func (c *Cluster) Try(stdin string, args ...string) (string, error) {
	// Nothing of the test's own context: its cleanups run when that is over.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig", c.Kubeconfig, "--namespace", c.Namespace}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return problems.String(), err
	}
	return out.String(), nil
}

// Import gives the node an image from an archive, as its containerd takes it.
func (c *Cluster) Import(archive []byte) {
	c.Helper()
	file := filepath.Join(c.TempDir(), "image.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		c.Fatal(err)
	}
	if out, err := exec.Command("ctr", "--address", filepath.Join(c.Dir, "containerd.sock"), "--namespace", "k8s.io", "images", "import", file).CombinedOutput(); err != nil {
		c.Fatalf("import an image: %v: %s", err, out)
	}
}

// Tag gives an image that the node has another name.
func (c *Cluster) Tag(have, name string) {
	c.Helper()
	out, err := exec.Command("ctr", "--address", filepath.Join(c.Dir, "containerd.sock"), "--namespace", "k8s.io",
		"images", "tag", "--force", "docker.io/library/"+have, name).CombinedOutput()
	if err != nil {
		c.Fatalf("tag an image: %v: %s", err, out)
	}
}

// ImportBusybox gives the node the image Busybox, with more files at its root.
func (c *Cluster) ImportBusybox(more map[string][]byte) {
	c.Helper()
	c.ImportAs(c.Busybox, more)
}

// ImportAs is ImportBusybox by another name, with more directories.
func (c *Cluster) ImportAs(name string, more map[string][]byte, dirs ...ociimage.Dir) {
	c.Helper()
	program, err := os.ReadFile("/usr/bin/busybox")
	if err != nil {
		c.Fatal(err)
	}
	var files []ociimage.File
	for _, name := range []string{"busybox", "sh", "cat", "ls", "chmod", "find", "grep", "id", "kill", "mkdir", "sleep", "touch"} {
		files = append(files, ociimage.File{Path: "/bin/" + name, Content: program, Mode: 0o755})
	}
	for path, content := range more {
		files = append(files, ociimage.File{Path: path, Content: content, Mode: 0o755})
	}
	layer, err := ociimage.Layer(append([]ociimage.Dir{{Path: "/bin", Mode: 0o755}}, dirs...), files)
	var archive bytes.Buffer
	if err == nil {
		err = ociimage.Image{Layer: layer, Architecture: "amd64", Labels: map[string]string{}}.WriteTo(&archive, name)
	}
	if err != nil {
		c.Fatal(err)
	}
	c.Import(archive.Bytes())
}

// Await waits until what a kubectl says pleases, and returns that.
func (c *Cluster) Await(pleases func(string) bool, args ...string) string {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := c.Try("", args...)
		if err == nil && pleases(out) {
			return out
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.Fatalf("kubectl %v: %v: %s", args, errors.Join(err, ctx.Err()), out)
		}
	}
}

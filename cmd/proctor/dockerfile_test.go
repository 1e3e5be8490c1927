package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
)

// builtImage is what an image is, its time and history apart.
type builtImage struct {
	Files  map[string]string // owner, mode, and digest of each
	Config map[string]any
	Layers []string
}

// TestDockerfile: what a builder makes of the Dockerfile has the files, owners,
// modes and configuration of the archive, and the same layer each time and from
// each directory.
func TestDockerfile(t *testing.T) {
	d := newDesk(t)
	host := dockertest.Start(t).Host
	archive, files := d.output(exitOK, "render", "image"), d.output(exitOK, "render", "image", "--files")
	runDocker(t, host, archive, "load")
	want := inspectImage(t, host, imageName)
	if len(want.Files) < 15 || want.Files["keys/root/"] != "64003:64003 700" {
		t.Fatalf("the archive's files: %v", want.Files)
	}
	var layers []string
	for _, name := range []string{"one", "two"} {
		dir := filepath.Join(d.dir, name)
		err := errors.Join(os.MkdirAll(filepath.Join(dir, "bin"), 0o755),
			os.WriteFile(filepath.Join(dir, "bin", "proctor-image-files.tar"), []byte(files), 0o644))
		for _, f := range []string{"Dockerfile", ".dockerignore"} {
			b, readErr := os.ReadFile(filepath.Join("../..", f))
			err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, f), b, 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
		runDocker(t, host, "", "build", "--no-cache", "--quiet", "--tag", "built:"+name, dir)
		got := inspectImage(t, host, "built:"+name)
		layers = append(layers, strings.Join(got.Layers, " "))
		if diff := cmp.Diff(want.Files, got.Files); diff != "" {
			t.Errorf("files of the archive (-) and of the Dockerfile (+):\n%s", diff)
		}
		if diff := cmp.Diff(want.Config, got.Config); diff != "" {
			t.Errorf("configuration of the archive (-) and of the Dockerfile (+):\n%s", diff)
		}
	}
	if layers[0] != layers[1] {
		t.Errorf("two builds have the layers %v", layers)
	}
}

func runDocker(t *testing.T, host, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", append([]string{"-H", host}, args...)...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %v: %v: %s", args, err, out)
	}
	return string(out)
}

func inspectImage(t *testing.T, host, name string) builtImage {
	t.Helper()
	b := builtImage{Files: map[string]string{}}
	for format, v := range map[string]any{"{{json .Config}}": &b.Config, "{{json .RootFS.Layers}}": &b.Layers} {
		if err := json.Unmarshal([]byte(runDocker(t, host, "", "inspect", "--format", format, name)), v); err != nil {
			t.Fatal(err)
		}
	}
	for key, v := range b.Config { // engines differ in which empty fields they keep
		if v == nil || v == "" || v == false {
			delete(b.Config, key)
		}
	}
	if len(b.Layers) != 1 {
		t.Fatalf("%s has the layers %v", name, b.Layers)
	}
	saved := tar.NewReader(strings.NewReader(runDocker(t, host, "", "save", name)))
	for {
		h, err := saved.Next()
		if err != nil {
			t.Fatalf("%s: no layer: %v", name, err)
		}
		if strings.HasSuffix(h.Name, "layer.tar") {
			b.take(t, tar.NewReader(saved))
			return b
		}
	}
}

func (b *builtImage) take(t *testing.T, layer *tar.Reader) {
	t.Helper()
	for {
		h, err := layer.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%d:%d %o", h.Uid, h.Gid, h.Mode&0o7777)
		if h.Typeflag == tar.TypeReg {
			sum := sha256.New()
			if _, err := io.Copy(sum, layer); err != nil {
				t.Fatal(err)
			}
			what += fmt.Sprintf(" %x", sum.Sum(nil))
		}
		b.Files[h.Name] = what
	}
}

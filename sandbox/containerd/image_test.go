package containerd_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/ociimage"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// importImage gives the namespace an image made from scratch, for this test
// only, in the archive that docker save writes.
func importImage(t testing.TB, api *client.Client, files []sandboxtest.File, config sandboxtest.ImageConfig) sandbox.Image {
	t.Helper()
	tag := "proctor-test-" + strings.ToLower(rand.Text()) + ":1"
	layer := layerOf(t, files)
	volumes := map[string]struct{}{}
	for _, v := range config.Volumes {
		volumes[v] = struct{}{}
	}
	c := map[string]any{
		"Env": config.Env, "Entrypoint": config.Entrypoint, "Cmd": config.Cmd, "User": config.User,
		"WorkingDir": config.WorkingDir, "Volumes": volumes, "StopSignal": config.StopSignal, "Labels": config.Labels,
	}
	raw := encode(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": c,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{ociimage.Digest(layer)}},
	})
	manifest := encode(t, []map[string]any{{"Config": "config.json", "RepoTags": []string{tag}, "Layers": []string{"layer.tar"}}})
	archive := tarOf(t, []sandboxtest.File{
		{Path: "config.json", Content: raw, Mode: 0o644},
		{Path: "layer.tar", Content: layer, Mode: 0o644},
		{Path: "manifest.json", Content: manifest, Mode: 0o644},
	})
	got, err := api.Import(context.Background(), bytes.NewReader(archive))
	if err != nil || len(got) != 1 {
		t.Fatalf("import image: %v, %v", got, err)
	}
	t.Cleanup(func() { _ = api.ImageService().Delete(context.Background(), got[0].Name) })
	return sandbox.Image{Kind: sandbox.ImageRef, Ref: tag}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// layerOf adds the directories that files lie in.
func layerOf(t testing.TB, files []sandboxtest.File) []byte {
	t.Helper()
	seen := map[string]bool{"/": true}
	var all []sandboxtest.File
	for _, f := range files {
		for dir := path.Dir(f.Path); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			all = append(all, sandboxtest.File{Path: dir, Mode: os.ModeDir | 0o755})
		}
		seen[f.Path] = true
		all = append(all, f)
	}
	return tarOf(t, all)
}

func tarOf(t testing.TB, files []sandboxtest.File) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: int64(f.Mode.Perm()), Size: int64(len(f.Content)), Typeflag: tar.TypeReg}
		switch {
		case f.Mode.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		case f.Link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

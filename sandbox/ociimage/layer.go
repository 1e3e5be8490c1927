package ociimage

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Dir is a directory of the image. A volume that is mounted on it for the first
// time takes its owner and mode.
type Dir struct {
	Path  string // absolute
	Owner uint32 // user and group
	Mode  int64
}

// File is a file of the image; root owns it.
type File struct {
	Path    string // absolute
	Content []byte
	Mode    int64
}

// Layer is the layer's tar file; parents come before what is in them.
func Layer(dirs []Dir, files []File) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, d := range dirs {
		h := header(d.Path+"/", d.Owner, d.Mode)
		h.Typeflag = tar.TypeDir
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		if err := writeFile(w, f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func header(path string, owner uint32, mode int64) *tar.Header {
	return &tar.Header{
		Name: strings.TrimPrefix(path, "/"), Uid: int(owner), Gid: int(owner), Mode: mode,
		ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX,
	}
}

func writeFile(w *tar.Writer, f File) error {
	h := header(f.Path, 0, f.Mode)
	h.Size = int64(len(f.Content))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(f.Content)
	return err
}

// Digest is the content's, as images name it.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

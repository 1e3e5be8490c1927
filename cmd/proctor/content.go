package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// hostContent is a host's file in the form that the supervisor takes one.
type hostContent struct {
	io.Reader
	f *os.File
}

func newHostContent(f *os.File) (*hostContent, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	head, err := contentLine(wire.Content{Size: info.Size()})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &hostContent{io.MultiReader(head, f), f}, nil
}

func contentLine(c wire.Content) (io.Reader, error) {
	c.Schema = "proctor/content/v1"
	line, err := strictjson.Marshal(c)
	return bytes.NewReader(append(line, '\n')), err
}

// noContent stands for a file that cannot be read.
func noContent(why error) (io.Reader, error) {
	return contentLine(wire.Content{Error: why.Error()})
}

func (h *hostContent) Close() error { return h.f.Close() }

// nowOf compares what a path has with a record's digest.
func nowOf(path, sum string) string {
	f, err := openRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	case err != nil:
		return "unreadable"
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "unreadable"
	}
	if hex.EncodeToString(hash.Sum(nil)) == sum {
		return "same"
	}
	return "changed"
}

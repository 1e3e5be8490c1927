package launch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// openStep runs the open container: the request's line, then the baseline.
func (s *session) openStep(ctx context.Context, req wire.OpenRequest) (wire.OpenReply, error) {
	var reply wire.OpenReply
	head, err := line(req)
	if err != nil {
		return reply, err
	}
	stream, err := os.Open(s.baseline())
	if err != nil {
		return reply, err
	}
	defer func() { _ = stream.Close() }()
	c, err := s.opener.take()
	if err != nil {
		return reply, fmt.Errorf("open: %w", err)
	}
	fed := s.openIn.feed(io.MultiReader(bytes.NewReader(head), stream))
	err = runMade(ctx, c, "open", s.openErr)
	s.openIn.close()
	<-fed
	if err != nil {
		return reply, err
	}
	s.reports = append(s.reports, c.Report())
	if err := s.openOut.read(&reply); err != nil {
		return reply, fmt.Errorf("open: read its answer: %w", err)
	}
	return reply, nil
}

// input is a pipe into a container. The launcher holds both ends until the
// container has its own.
type input struct {
	r, w  *os.File
	crash sandbox.Crash
}

func (l *Launcher) newInput() (*input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &input{r, w, l.cfg.Crash}, nil
}

// close is idempotent.
func (i *input) close() {
	_ = i.r.Close()
	_ = i.w.Close()
}

// feed copies from r until its end. The channel is closed when the copy has
// ended; a container that went away is not an error here: its step says why.
func (i *input) feed(from io.Reader) <-chan struct{} {
	done := make(chan struct{})
	go i.crash.Guard(func() {
		defer close(done)
		_, _ = io.Copy(i.w, from)
		_ = i.w.Close()
	})()
	return done
}

// takeFile copies an operator's file, so that what the seal names is what the
// check gets, and returns its digest.
func takeFile(from, to string) (string, error) {
	src, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer func() { _ = src.Close() }()
	info, err := src.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("file %s is not a regular file", from)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Chmod(filepath.Dir(to), 0o755)); err != nil {
		return "", err // whatever the umask: the check's identity has to enter
	}
	// The check's identity must be able to read it, whatever its mode is here;
	// the directory above is private.
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(dst, h), src)
	mode := info.Mode().Perm()&0o111 | 0o644
	if err := errors.Join(err, dst.Chmod(mode), dst.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func wireImage(what string, img sandbox.Image) wire.Image {
	return wire.Image{For: what, Kind: string(img.Kind), Ref: img.Ref, Digest: img.Digest}
}

func wireEngine(i sandbox.Info) wire.Engine {
	missing := i.LimitsMissing
	if missing == nil {
		missing = []string{}
	}
	return wire.Engine{
		Name: i.Engine, Version: i.EngineVersion, Runtime: i.Runtime, RuntimeVersion: i.RuntimeVersion,
		RuntimeFloor: i.RuntimeFloor, UserNamespace: i.UserNamespace, Rootless: i.Rootless,
		RecursiveRO: i.RecursiveRO, Cgroup: i.Cgroup, LimitsMissing: missing,
	}
}

func wireContainer(r sandbox.Report) wire.Container {
	c := wire.Container{
		Name: r.Name, Role: string(r.Role), Image: r.ImageDigest, UID: r.HostUID, GID: r.HostGID,
		Capabilities: append([]string{}, r.Capabilities...), NoNewPrivs: r.NoNewPrivs, Seccomp: r.Seccomp,
		ReadOnlyRoot: r.ReadOnlyRoot, Namespaces: append([]string{}, r.Namespaces...), Network: string(r.Network),
		Runtime: r.Runtime, Memory: r.Limits.Memory, PIDs: r.Limits.PIDs, MilliCPUs: r.Limits.MilliCPUs,
		Mounts: []wire.Mount{},
	}
	for _, m := range r.Mounts {
		c.Mounts = append(c.Mounts, wire.Mount{Kind: string(m.Kind), Target: m.Target, Writable: m.Writable, OpenBelow: m.OpenBelow})
	}
	return c
}

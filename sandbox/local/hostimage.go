package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
)

// hostTop is the host's entries of / that the image has, as they are there: a
// link stays a link.
func hostTop() ([]string, error) {
	lib, err := filepath.Glob("/lib*")
	if err != nil {
		return nil, err
	}
	return append([]string{"/usr", "/bin", "/sbin"}, lib...), nil
}

// hostEtcBound is directories of /etc that programs need and that hold no
// secret. (/etc/ssl/private is not among them.)
func hostEtcBound() []string {
	return []string{
		"/etc/alternatives", "/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki/ca-trust", "/etc/pki/tls/certs",
		"/etc/crypto-policies", "/etc/ld.so.conf.d", "/etc/python3", "/etc/perl", "/etc/java",
	}
}

// hostEtcCopied is files of /etc that are copied, if they are small. There is no
// resolv.conf: a container has no network.
func hostEtcCopied() []string {
	return []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ssl/openssl.cnf", "/etc/localtime", "/etc/timezone",
		"/etc/os-release", "/etc/debian_version", "/etc/mime.types", "/etc/services", "/etc/protocols", "/etc/shells",
		"/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/bash.bashrc", "/etc/profile", "/etc/inputrc",
	}
}

// maxEtcFile is the largest copied file, in bytes.
const maxEtcFile = 1 << 20

func hostDigest(ctx context.Context) (string, error) {
	top, err := hostTop()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if b, err := os.ReadFile("/etc/os-release"); err == nil {
		fmt.Fprintf(h, "%q\n", b)
	}
	for _, dir := range top {
		if err := digestLevels(ctx, h, dir, 2); err != nil {
			return "", err
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// digestLevels writes a path and, if it is a directory, what is in it, down to
// the number of levels.
func digestLevels(ctx context.Context, w io.Writer, path string, levels int) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := digestEntry(w, path, path, fs.FileInfoToDirEntry(st)); err != nil {
		return err
	}
	if !st.IsDir() || levels == 0 {
		return ctx.Err()
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := digestLevels(ctx, w, filepath.Join(path, e.Name()), levels-1); err != nil {
			return err
		}
	}
	return nil
}

// hostRoot is the tree of ImageHost.
func hostRoot(id sandbox.Identity, env []string) (*node, error) {
	root := ownDir()
	top, err := hostTop()
	if err != nil {
		return nil, err
	}
	for _, path := range top {
		c, err := bound(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		root.children[filepath.Base(path)] = c
	}
	for _, path := range hostEtcBound() {
		if err := root.add(path, bound); err != nil {
			return nil, err
		}
	}
	for _, path := range hostEtcCopied() {
		if err := root.add(path, copied); err != nil {
			return nil, err
		}
	}
	root.put("/etc/passwd", passwd(id, env))
	root.put("/etc/group", fmt.Sprintf("root:x:0:\nagent:x:%d:\nnogroup:x:65534:\n", id.Inside))
	root.put("/etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost\n")
	root.put("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
	for _, dir := range []string{"/home", "/root", "/var", "/run", "/opt", "/mnt"} {
		if err := root.require(dir, true); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// passwd gives the identity a name and the home that its environment names.
func passwd(id sandbox.Identity, env []string) string {
	home := "/"
	for _, e := range env {
		if h, ok := strings.CutPrefix(e, "HOME="); ok && filepath.IsAbs(h) && !strings.ContainsAny(h, ":\n") {
			home = h
		}
	}
	shell := "/bin/sh"
	if _, err := os.Stat("/bin/bash"); err == nil {
		shell = "/bin/bash"
	}
	s := "root:x:0:0:root:/root:/bin/sh\n"
	if id.Inside != 0 {
		s += fmt.Sprintf("agent:x:%d:%d:agent:%s:%s\n", id.Inside, id.Inside, home, shell)
	}
	return s + "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
}

// add puts what from makes of the host's path at the same path; an absent one
// is left out.
func (n *node) add(path string, from func(string) (*node, error)) error {
	c, err := from(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := n.require(filepath.Dir(path), true); err != nil {
		return err
	}
	n.at(filepath.Dir(path)).children[filepath.Base(path)] = c
	return nil
}

// put makes a file of our own.
func (n *node) put(path, content string) {
	at := n
	dir, name := filepath.Split(path)
	for _, d := range strings.Split(strings.Trim(dir, "/"), "/") {
		if at.children[d] == nil {
			at.children[d] = ownDir()
		}
		at = at.children[d]
	}
	at.children[name] = &node{content: []byte(content), mode: 0o644}
}

// at walks down directories of our own.
func (n *node) at(path string) *node {
	for _, d := range strings.Split(strings.Trim(path, "/"), "/") {
		if d != "" {
			n = n.children[d]
		}
	}
	return n
}

// copied is a file of our own with the host file's content, or the same link.
func copied(path string) (*node, error) {
	c, err := bound(path)
	if err != nil || c.link != "" {
		return c, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEtcFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxEtcFile {
		return nil, fmt.Errorf("%s: %w (more than %d bytes)", path, fs.ErrNotExist, maxEtcFile)
	}
	return &node{content: b, mode: 0o644}, nil
}

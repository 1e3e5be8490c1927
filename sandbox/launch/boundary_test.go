package launch_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// needles are a secret in every form that a program would print it in.
func needles(secret []byte) [][]byte {
	return [][]byte{
		secret, []byte(hex.EncodeToString(secret)), []byte(strings.ToUpper(hex.EncodeToString(secret))),
		[]byte(base64.StdEncoding.EncodeToString(secret)), []byte(base64.RawURLEncoding.EncodeToString(secret)),
		[]byte(fmt.Sprint(secret)),
	}
}

// find lists the files below the directories that hold a secret in any form.
func find(secret []byte, dirs ...string) []string {
	var found []string
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil //nolint:nilerr // what is gone holds nothing
			}
			b, _ := os.ReadFile(path)
			if slices.ContainsFunc(needles(secret), func(n []byte) bool { return bytes.Contains(b, n) }) {
				found = append(found, path)
			}
			return nil
		})
	}
	return found
}

// rootKey is the one file with the root key's bytes.
func (d *desk) rootKey() (path string, key []byte) {
	d.Helper()
	files, _ := filepath.Glob(d.path("home/keys/root/epoch-*"))
	if len(files) != 1 {
		d.Fatalf("root keys: %q", files)
	}
	key, err := os.ReadFile(files[0])
	d.must(err)
	if len(key) < 32 {
		d.Fatalf("%s has %d bytes", files[0], len(key))
	}
	return files[0], key
}

// seen are the parts of the desk that a process has mounted, and how.
func (d *desk) seen(pid int) map[string]string {
	d.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	d.must(err)
	all := map[string]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // proc_pid_mountinfo(5): root is the 4th, options the 6th
		if _, part, ok := strings.Cut(f[3], filepath.Base(d.dir)+"/"); ok {
			how, _, _ := strings.Cut(f[5], ",")
			all[part] = how
		}
	}
	return all
}

// TestBoundaryOfASession (invariants 1, 2 and 3): while the agent runs, and while
// a check does, nothing of keys, control or the original is in its mounts, only
// the stage can be written, and the root key's bytes are in no file, argument or
// environment but its own.
func TestBoundaryOfASession(t *testing.T) {
	d := newDesk(t)
	d.policy(strings.Replace(goodPolicy, "argv: [sh, test.sh]", `argv: [sh, -c, "echo ready; mkfifo /tmp/f; read x < /tmp/f"]`, 1))
	path, key := d.rootKey()
	if found := find(key, d.path("home")); !slices.Equal(found, []string{path}) { // the search's positive control, too
		t.Fatalf("the root key's bytes are in %q", found)
	}
	r := d.start("sh", "-c", "echo ready; mkfifo /tmp/f; read x < /tmp/f")
	r.await("agent| ready")
	id := r.session()
	d.onlyServeAndAgent(id)
	stage := "home/host/stages/" + id + "/tree"
	d.wantSeen("agent", initOf(id, "agent"), map[string]string{
		stage: "rw", "home/host/engines/tools": "ro", "home/control/sockets/" + id: "ro",
	})
	d.nowhere(key, id, path)
	if !kill(initOf(id, "agent")) {
		t.Fatal("the agent is gone")
	}
	r.await("check| ready")
	d.wantSeen("check", initOf(id, "check-0"), map[string]string{stage: "ro", "home/host/engines/tools": "ro"})
	if have := containers(id); !slices.Equal(have, []string{"check-0"}) {
		t.Errorf("beside the check: %q", have)
	}
	d.nowhere(key, id, path)
	if !kill(initOf(id, "check-0")) {
		t.Fatal("the check is gone")
	}
	r.ends(1)
	d.nowhere(key, id, path)
	if slices.ContainsFunc(needles(key), func(n []byte) bool { return strings.Contains(r.out.String(), string(n)) }) {
		t.Error("the root key's bytes were printed")
	}
}

// wantSeen demands exactly these parts of the desk in a process's mounts. A
// bundle or the overlay's own directories are not of the desk.
func (d *desk) wantSeen(what string, pid int, want map[string]string) {
	d.Helper()
	if pid == 0 {
		d.Fatalf("%s is not there", what)
	}
	have := d.seen(pid)
	for part, how := range have {
		if want[part] != how {
			d.Errorf("%s sees %s %s", what, part, how)
		}
	}
	for part, how := range want {
		if have[part] == "" && what == "agent" {
			d.Errorf("%s does not see %s %s", what, part, how)
		}
	}
}

// nowhere looks for the root key in what the launcher keeps, in the bundles and
// in the arguments and environments of all processes.
func (d *desk) nowhere(key []byte, id, place string) {
	d.Helper()
	for _, f := range find(key, d.path("home"), d.path("site"), "/run/proctor/sessions/"+id) {
		if f != place {
			d.Errorf("the root key's bytes are in %s", f)
		}
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range append(files, environs...) {
		b, _ := os.ReadFile(f)
		if slices.ContainsFunc(needles(key), func(n []byte) bool { return bytes.Contains(b, n) }) {
			d.Errorf("the root key's bytes are in %s", f)
		}
	}
}

// TestStalledSteps: a reader or a serve step that does nothing any more holds up
// the session only so long, and nothing passes.
func TestStalledSteps(t *testing.T) {
	stall := func(r *running, id, name string) {
		r.Helper()
		r.until(patience, "container "+name+" runs", func() bool {
			pid := initOf(id, name)
			return pid != 0 && !waits(id, name) && syscall.Kill(pid, syscall.SIGSTOP) == nil
		})
	}
	for _, name := range []string{"read-before", "serve"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.policy(goodPolicy + "audit: {timeout: 10s}\n")
			r := d.start("sh", "-c", "echo ready; mkfifo /tmp/f; read x < /tmp/f")
			r.await("agent| ready")
			id := r.session()
			if name == "serve" {
				stall(r, id, name)
			}
			if !kill(initOf(id, "agent")) {
				t.Fatal("the agent is gone")
			}
			if name != "serve" {
				stall(r, id, name)
			}
			r.ends(3)
			if strings.Contains(r.out.String(), "PASS") {
				t.Errorf("%s", r.out)
			}
			d.policy(goodPolicy)
			d.whole()
		})
	}
}

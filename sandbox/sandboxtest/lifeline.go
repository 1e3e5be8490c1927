package sandboxtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// launcherVariable holds the spec that a child process of the test is to run.
const launcherVariable = "PROCTOR_SANDBOXTEST_LAUNCHER"

const launcherStarted = "launcher: started"

// testLifeline: the launcher is killed while a container runs whose input it
// holds; the container's process sees the end and goes.
func (s *suite) testLifeline(t *testing.T) {
	token := s.newToken()
	spec := s.spec(sandbox.RoleServe, "drain", token)
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	root, _, _ := strings.Cut(t.Name(), "/")
	launcher := exec.Command(os.Args[0], "-test.run=^"+root+"$", "-test.timeout=2m")
	launcher.Env = append(os.Environ(), s.f.ChildEnv...)
	// What it leaves in its temporary directory goes with this test's own.
	launcher.Env = append(launcher.Env, launcherVariable+"="+string(raw), "TMPDIR="+t.TempDir())
	launcher.Stderr = os.Stderr
	stdin, err := launcher.StdinPipe() // ends the child if this process dies
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	started := false
	for !started && lines.Scan() {
		started = strings.Contains(lines.Text(), launcherStarted)
		if !started {
			t.Log(lines.Text())
		}
	}
	if !started {
		_ = launcher.Process.Kill()
		_ = launcher.Wait()
		t.Fatal("the launcher did not start its container")
	}
	if pids := processesWith(t, token); len(pids) == 0 {
		t.Error("the container's process is not there while its launcher lives")
	}
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = launcher.Wait()
	await(t, "the end of the container whose launcher was killed", func() bool { return len(processesWith(t, token)) == 0 })
	if _, err := s.engine.Sweep(testContext(t), s.session); err != nil {
		t.Errorf("sweep after the launcher: %v", err)
	}
}

// launch is the child's whole life: it runs the container and waits to be killed.
func launch(t *testing.T, f Fixture, raw string) {
	var spec sandbox.Spec
	if err := json.Unmarshal([]byte(raw), &spec); err != nil {
		t.Fatal(err)
	}
	engine := f.Engine(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := newLineWatcher("ready")
	c, err := engine.Create(context.Background(), spec, sandbox.Streams{Stdin: r, Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, "the container says ready", func() bool { return out.seen() })
	fmt.Println(launcherStarted)
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
	_ = w.Close()
}

package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/userns"
)

// host ids of the tests: no distribution's, and none that a session leases.
const (
	testAgent      = 1_900_001
	testAgentRoot  = 1_900_000
	testSuper      = 1_900_017
	testSuperRoot  = 1_900_016
	insideAgentID  = 64001
	insideSuperID  = 64003
	testWaitLimit  = 30 * time.Second
	probeInside    = "/probe/probe"
	probeDirInside = "/probe"
)

// harness is one engine of a test, with a payload.
type harness struct {
	testing.TB
	engine *Engine
	dir    string // searchable by all, removed at the end
	probe  string // host path
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "needs root")
	}
}

// skip fails where the tests are expected to run.
func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "proctor-local-") // t.TempDir's parent may be closed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Home: filepath.Join(dir, "home"), State: filepath.Join(dir, "state"), Runc: os.Getenv("PROCTOR_RUNC")}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if e.cfg.Runc == "" {
		skip(t, "no runc")
	}
	return &harness{TB: t, engine: e, dir: dir, probe: os.Getenv(probeVariable)}
}

// roleVariable makes the test binary one of the tests' own programs.
const roleVariable = "PROCTOR_TEST_LOCAL"

// probeVariable is where TestMain has built the payload.
const probeVariable = "PROCTOR_TEST_PROBE"

func TestMain(m *testing.M) {
	if code, ok := Child(os.Args); ok {
		os.Exit(code)
	}
	if code, ok := userns.Child(os.Args); ok {
		os.Exit(code)
	}
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	if os.Getenv(probeVariable) != "" { // started by a test, which may kill it: its payload is there
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("/tmp", "proctor-probe-")
	if err != nil {
		panic(err)
	}
	probe := filepath.Join(dir, "probe")
	cmd := exec.Command("go", "build", "-o", probe, "./testdata/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		panic(string(b))
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Setenv(probeVariable, probe)); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func sessionName() string { return "t" + strings.ToLower(rand.Text()[:10]) }

// spec is a good spec of an agent that runs the probe's operations.
func (h *harness) spec(ops ...string) sandbox.Spec {
	h.Helper()
	img, err := h.engine.Resolve(h.Context(), sandbox.Image{Kind: sandbox.ImageHost})
	if err != nil {
		h.Fatal(err)
	}
	session := sessionName()
	return sandbox.Spec{
		Session: session, Role: sandbox.RoleAgent, Name: "proctor-" + session + "-agent",
		Image: img, Argv: append([]string{probeInside}, ops...), Env: []string{"HOME=/tmp", "PATH=/usr/bin:/bin"}, Dir: "/",
		Identity: sandbox.Identity{Inside: insideAgentID, Host: testAgent, HostRoot: testAgentRoot},
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountBind, Source: filepath.Dir(h.probe), Target: probeDirInside},
			{Kind: sandbox.MountTmpfs, Target: "/tmp", Writable: true, Size: 16 << 20},
		},
		Limits: sandbox.Limits{Memory: 128 << 20, PIDs: 64, MilliCPUs: 2000, OpenFiles: 256},
		Grace:  time.Second,
	}
}

// owned makes a directory that belongs to the agent.
func (h *harness) owned(name string) string {
	h.Helper()
	dir := filepath.Join(h.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.Chown(dir, testAgent, testAgent); err != nil {
		h.Fatal(err)
	}
	return dir
}

// output is a buffer that can be written from two streams at once, and waited on.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{}
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// await blocks until the text has been written.
func (o *output) await(t testing.TB, text string) {
	t.Helper()
	limit := time.NewTimer(testWaitLimit)
	defer limit.Stop()
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.wrote:
		case <-limit.C:
			t.Fatalf("never wrote %q, but:\n%s", text, o)
		}
	}
}

func (h *harness) create(spec sandbox.Spec, s sandbox.Streams) *container {
	h.Helper()
	c, err := h.engine.Create(h.Context(), spec, s)
	if err != nil {
		h.Fatal(err)
	}
	h.remove(c)
	return c.(*container)
}

func (h *harness) remove(c sandbox.Container) {
	h.Cleanup(func() {
		if err := c.Remove(context.Background()); err != nil {
			h.Error(err)
		}
	})
}

// supervise turns a spec into one of the supervisor's own, with another program.
func (h *harness) supervise(spec sandbox.Spec, role sandbox.Role, ops ...string) sandbox.Spec {
	h.Helper()
	img, err := h.engine.Resolve(h.Context(), sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: h.probe})
	if err != nil {
		h.Fatal(err)
	}
	spec.Role, spec.Image, spec.Mounts = role, img, nil
	spec.Name = "proctor-" + spec.Session + "-" + string(role)
	spec.Argv = append([]string{"/" + supervisorBinary}, ops...)
	spec.Identity = sandbox.Identity{Inside: insideSuperID, Host: testSuper, HostRoot: testSuperRoot}
	return spec
}

func (h *harness) wait(c sandbox.Container) sandbox.Exit {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), testWaitLimit)
	defer cancel()
	exit, err := c.Wait(ctx)
	if err != nil {
		h.Fatal(err)
	}
	return exit
}

// run runs a spec to its end and returns what it wrote.
func (h *harness) run(spec sandbox.Spec) (sandbox.Exit, string) {
	h.Helper()
	out := newOutput()
	c := h.create(spec, sandbox.Streams{Stdout: out, Stderr: out})
	if err := c.Start(h.Context()); err != nil {
		h.Fatal(err)
	}
	exit := h.wait(c)
	if err := c.Remove(h.Context()); err != nil {
		h.Fatal(err)
	}
	return exit, out.String()
}

// want fails unless every line was written.
func want(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains("\n"+out, "\n"+l+"\n") {
			t.Errorf("output has no line %q:\n%s", l, out)
		}
	}
}

func fields(s string) []string { return strings.Fields(s) }

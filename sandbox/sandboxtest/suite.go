package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox"
)

const (
	// containerDeadline bounds one container's whole life.
	containerDeadline = 2 * time.Minute
	// awaitDeadline bounds what must happen by itself.
	awaitDeadline = 2 * time.Minute
	awaitTick     = 10 * time.Millisecond
	// payloadPath is the payload's place in an agent's image.
	payloadPath = "/bin/payload"
	// sidecarPath is the payload's place in the supervisor's image.
	sidecarPath = "/proctor-sidecar"
	// canaryName is in the environment of the test's process.
	canaryName = "PROCTOR_TEST_CANARY"
)

// suite is one run.
type suite struct {
	f          Fixture
	engine     sandbox.Engine
	payload    string // host path
	agent      sandbox.Image
	supervisor sandbox.Image
	session    string
	canary     string
	info       sandbox.Info
	names      int
}

// Run holds the engine to the contract.
func Run(t *testing.T, f Fixture) {
	if spec := os.Getenv(launcherVariable); spec != "" {
		launch(t, f, spec)
		return
	}
	mounts := hostMounts(t)
	s := &suite{f: f, session: "t" + strings.ToLower(rand.Text()[:10]), canary: rand.Text()}
	t.Setenv(canaryName, s.canary)
	s.engine = f.Engine(t)
	t.Cleanup(func() {
		if err := s.engine.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	s.payload = BuildPayload(t)
	before := s.leftovers(t)
	s.prepare(t)
	for _, test := range s.tests() {
		t.Run(test.name, test.run)
	}
	s.nothingLeft(t, mounts, before)
}

type test struct {
	name string
	run  func(t *testing.T)
}

func (s *suite) tests() []test {
	all := []test{
		{"probe", s.testProbe},
		{"resolve", s.testResolve},
		{"identity", s.testIdentity},
		{"namespaces", s.testNamespaces},
		{"kernel surface", s.testKernelSurface},
		{"setuid", s.testSetuid},
		{"same user outside", s.testSameUserOutside},
		{"environment", s.testEnvironment},
		{"process", s.testProcess},
		{"binds", s.testBinds},
		{"submount", s.testSubmount},
		{"root and tmpfs", s.testRootAndTmpfs},
		{"layer", s.testLayer},
		{"layer limit", s.testLayerLimit},
		{"forbidden sources", s.testForbiddenSources},
		{"socket through a read-only bind", s.testSocket},
		{"network", s.testNetwork},
		{"parts", s.testParts},
		{"limits", s.testLimits},
		{"out of memory", s.testOutOfMemory},
		{"exit codes", s.testExitCodes},
		{"signals", s.testSignals},
		{"start failure", s.testStartFailure},
		{"output", s.testOutput},
		{"input", s.testInput},
		{"terminal", s.testTerminal},
		{"lifeline", s.testLifeline},
		{"remove", s.testRemove},
		{"users", s.testUsers},
		{"sweep", s.testSweep},
		{"names", s.testNames},
		{"invalid spec", s.testInvalidSpec},
		{"hostile image", s.testHostileImage},
	}
	if s.f.Runtime == runsc {
		// The kernel that the payload sees is gVisor's, and no process of the host's.
		all = slices.DeleteFunc(all, func(t test) bool {
			return t.name == "identity" || t.name == "namespaces" || t.name == "kernel surface"
		})
		all = append(all, test{"gvisor's limits", s.testGVisor})
	}
	if s.f.Tampered != nil { // an engine whose maker is another program
		all = append(all, test{"tampered", s.testTampered})
	}
	return all
}

// prepare makes the two images.
func (s *suite) prepare(t *testing.T) {
	t.Helper()
	ctx := testContext(t)
	var err error
	if s.info, err = s.engine.Probe(ctx, s.f.Runtime); err != nil {
		t.Fatalf("probe: %v", err)
	}
	if s.supervisor, err = s.engine.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: s.payload}); err != nil {
		t.Fatalf("resolve the supervisor's image: %v", err)
	}
	img := s.f.Image(t, s.rootfs(t), ImageConfig{})
	if s.agent, err = s.engine.Resolve(ctx, img); err != nil {
		t.Fatalf("resolve the agent's image: %v", err)
	}
}

// rootfs is the smallest root file system with the payload.
func (s *suite) rootfs(t testing.TB) []File {
	t.Helper()
	b, err := os.ReadFile(s.payload)
	if err != nil {
		t.Fatal(err)
	}
	return []File{
		{Path: "/bin", Mode: os.ModeDir | 0o755},
		{Path: payloadPath, Content: b, Mode: 0o755},
		{Path: "/etc", Mode: os.ModeDir | 0o755},
		{Path: "/home", Mode: os.ModeDir | 0o755},
		{Path: "/run", Mode: os.ModeDir | 0o755},
		{Path: "/tmp", Mode: os.ModeDir | 0o755},
	}
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), containerDeadline)
	t.Cleanup(cancel)
	return ctx
}

// spec is a good spec for the role; tests change one thing.
func (s *suite) spec(role sandbox.Role, args ...string) sandbox.Spec {
	s.names++
	spec := sandbox.Spec{
		Session: s.session, Role: role, Name: fmt.Sprintf("proctor-%s-%s-%d", s.session, role, s.names),
		Image: s.supervisor, Argv: append([]string{sidecarPath}, args...), Env: []string{"HOME=/", "LANG=C"}, Dir: "/",
		Identity: s.f.Supervisor,
		Limits:   sandbox.Limits{Memory: 512 << 20, PIDs: 512, MilliCPUs: 2000, OpenFiles: 1024},
		Waive:    s.f.Waive, Grace: 500 * time.Millisecond,
	}
	if role.Hostile() {
		spec.Image, spec.Argv[0], spec.Identity, spec.Runtime = s.agent, payloadPath, s.f.Hostile, s.f.Runtime
	}
	if role == sandbox.RoleRead {
		spec.Identity = s.f.Hostile
	}
	return spec
}

// dir makes a host directory for the owner's containers.
func (s *suite) dir(t testing.TB, owner sandbox.Identity) string {
	t.Helper()
	if s.f.Dir != nil {
		return s.f.Dir(t, owner)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, int(owner.Host), int(owner.Host)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ended is a container's whole life.
type ended struct {
	exit   sandbox.Exit
	stdout string
	stderr string
	report sandbox.Report
}

// create makes a container that is removed with the test.
func (s *suite) create(t testing.TB, spec sandbox.Spec, streams sandbox.Streams) sandbox.Container {
	t.Helper()
	c, err := s.engine.Create(testContext(t), spec, streams)
	if err != nil {
		t.Fatalf("create %s: %v", spec.Name, err)
	}
	t.Cleanup(func() { remove(t, c) })
	return c
}

func remove(t testing.TB, c sandbox.Container) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), containerDeadline)
	defer cancel()
	if err := c.Remove(ctx); err != nil {
		t.Errorf("remove %s: %v", c.Name(), err)
	}
}

// start makes and starts a container.
func (s *suite) start(t testing.TB, spec sandbox.Spec, streams sandbox.Streams) sandbox.Container {
	t.Helper()
	c := s.create(t, spec, streams)
	if err := c.Start(testContext(t)); err != nil {
		t.Fatalf("start %s: %v", spec.Name, err)
	}
	return c
}

// run takes a container from its making to its removal.
func (s *suite) run(t testing.TB, spec sandbox.Spec) ended {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := s.start(t, spec, sandbox.Streams{Stdout: &stdout, Stderr: &stderr})
	exit, err := c.Wait(testContext(t))
	if err != nil {
		t.Fatalf("wait for %s: %v", spec.Name, err)
	}
	report := c.Report()
	remove(t, c)
	return ended{exit: exit, stdout: stdout.String(), stderr: stderr.String(), report: report}
}

// runsc is gVisor's runtime.
const runsc = "runsc"

// unseen says that the payload is no process of the host's: what the suite
// judges from the host's process table it cannot judge there.
func unseen(spec sandbox.Spec) bool { return spec.Runtime == runsc }

// ready starts a container of the payload's waiting kind and returns when it
// runs, with its process as the host sees it, or 0 where it is unseen.
func (s *suite) ready(t testing.TB, spec sandbox.Spec, streams sandbox.Streams) (sandbox.Container, int) {
	t.Helper()
	token := s.newToken()
	spec.Argv = append(spec.Argv, token)
	out := newLineWatcher("ready")
	streams.Stdout = out
	c := s.start(t, spec, streams)
	await(t, spec.Name+" says ready", func() bool { return out.seen() })
	var pid int
	if unseen(spec) {
		return c, 0
	}
	await(t, spec.Name+"'s process", func() bool {
		pids := processesWith(t, token)
		if len(pids) > 0 {
			pid = pids[0]
		}
		return pid != 0
	})
	return c, pid
}

// attempt is one result of the payload's try.
type attempt struct {
	Op    string          `json:"op"`
	Err   string          `json:"err"`
	Value json.RawMessage `json:"value"`
}

func (a attempt) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Value, v); err != nil {
		t.Fatalf("%s gave %q (%s): %v", a.Op, a.Value, a.Err, err)
	}
}

// op is one operation of the payload's try.
type op []string

// try runs the operations in one container, which must exit with 0.
func (s *suite) try(t testing.TB, spec sandbox.Spec, ops ...op) []attempt {
	t.Helper()
	spec.Argv = append(spec.Argv[:1:1], "try")
	for i, o := range ops {
		if i > 0 {
			spec.Argv = append(spec.Argv, "--")
		}
		spec.Argv = append(spec.Argv, o...)
	}
	got := s.run(t, spec)
	if got.exit.Code != 0 || got.exit.OOM {
		t.Fatalf("%s ended with %+v: %s", spec.Name, got.exit, got.stderr)
	}
	var results []attempt
	if err := json.Unmarshal([]byte(got.stdout), &results); err != nil {
		t.Fatalf("%s printed %q: %v", spec.Name, got.stdout, err)
	}
	if len(results) != len(ops) {
		t.Fatalf("%s did %d operations of %d", spec.Name, len(results), len(ops))
	}
	return results
}

// want checks the results' errors against a list, "" being success.
func want(t testing.TB, results []attempt, errs ...string) {
	t.Helper()
	for i, e := range errs {
		if results[i].Err != e {
			t.Errorf("operation %d (%s) gave %q, want %q", i, results[i].Op, results[i].Err, e)
		}
	}
}

func (s *suite) leftovers(t testing.TB) map[string]bool {
	t.Helper()
	if s.f.Leftovers == nil {
		return nil
	}
	all := map[string]bool{}
	for _, name := range s.f.Leftovers(t) {
		all[name] = true
	}
	return all
}

// nothingLeft compares the host and the engine with what was there before.
func (s *suite) nothingLeft(t *testing.T, mounts, before map[string]bool) {
	t.Helper()
	for name := range s.leftovers(t) {
		if !before[name] {
			t.Errorf("the engine still has %s", name)
		}
	}
	for m := range hostMounts(t) {
		// Other tests may run on the same machine: ours have the session's name.
		if !mounts[m] && strings.Contains(m, s.session) {
			t.Errorf("the host still has the mount %s", m)
		}
	}
	if pids := processesWith(t, s.tokens()); len(pids) > 0 {
		t.Errorf("processes %v are still there", pids)
	}
}

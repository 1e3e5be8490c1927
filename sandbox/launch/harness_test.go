package launch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

// patience is how long a test waits for what has to happen; soon is how long
// something may take that has to happen by itself.
const (
	patience = time.Minute
	soon     = 15 * time.Second
)

func TestMain(m *testing.M) { os.Exit(programs.Main(m, build)) }

// build has what ships in bin, and the payload.
func build(dir string) error {
	bin, payload := filepath.Join(dir, "bin"), filepath.Join(dir, "payload")
	err := errors.Join(os.Mkdir(bin, 0o755), os.Mkdir(payload, 0o755))
	if err == nil {
		err = programs.Build(bin)
	}
	if err == nil {
		err = programs.Go(payload+"/agent", "./testdata/agent")
	}
	return err
}

// desk is an initialised home with a product, and what ran on it.
type desk struct {
	*testing.T
	dir      string
	programs string
	env      []string
	engine   string
	network  func(start func() error) error // where `proctor run` starts; nil is the test's own network
}

// goodPolicy has one check that a product passes which nobody touched.
const goodPolicy = `version: 1
agent:
  timeout: 2m
  grace: 1s
  limits: {memory: 96MiB, pids: 64}
  mounts:
    - {source: PAYLOAD, target: /opt/test}
checks:
  - name: unit
    argv: [sh, test.sh]
`

func newDesk(t *testing.T) *desk {
	t.Helper()
	t.Parallel()
	return newDeskOn(t, "local")
}

func newDeskOn(t *testing.T, engine string, env ...string) *desk {
	t.Helper()
	built := programs.Need(t)
	dir, err := os.MkdirTemp("/tmp", "proctor-desk-")
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{T: t, dir: dir, programs: built, engine: engine, env: env}
	t.Cleanup(func() {
		for _, problem := range d.left() {
			t.Error("left behind: " + problem)
		}
		_ = os.RemoveAll(dir)
	})
	d.must(os.MkdirAll(filepath.Join(dir, "site", "src"), 0o755))
	d.write("site/test.sh", "exit 0\n")
	d.write("site/a.txt", "one\n")
	for i := range 500 { // so that walking it takes a moment
		d.write(fmt.Sprintf("site/src/%03d.txt", i), fmt.Sprint(i))
	}
	if out, err := d.proctor("init", "--engine", engine).CombinedOutput(); err != nil {
		t.Fatalf("init: %v: %s", err, out)
	}
	d.policy(goodPolicy)
	return d
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *desk) path(name string) string { return filepath.Join(d.dir, name) }

func (d *desk) write(name, text string) {
	d.Helper()
	d.must(os.WriteFile(d.path(name), []byte(text), 0o644))
}

func (d *desk) policy(text string) {
	d.Helper()
	d.write("home/policy.yaml", strings.ReplaceAll(strings.ReplaceAll(text, "PAYLOAD", filepath.Join(d.programs, "payload")), "DIR", d.dir))
}

func (d *desk) proctor(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.programs, "bin", "proctor"), append([]string{"--home", d.path("home")}, args...)...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), d.env...)
	return cmd
}

// running is a `proctor run` that has begun.
type running struct {
	*desk
	cmd   *exec.Cmd
	out   *programs.Console
	ended chan struct{}
}

// start runs an agent on the product. What it prints is on the console.
func (d *desk) start(argv ...string) *running {
	d.Helper()
	cmd := d.proctor(append([]string{"run", "--engine", d.engine, "--progress", "plain", "--product", "site", "--"}, argv...)...)
	r := &running{desk: d, cmd: cmd, out: programs.NewConsole(), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = r.out, r.out
	if d.network == nil {
		d.network = func(start func() error) error { return start() }
	}
	d.must(d.network(cmd.Start))
	go func() { defer close(r.ended); _ = cmd.Wait() }()
	d.Cleanup(func() { _ = cmd.Process.Kill(); <-r.ended })
	return r
}

// wait returns the exit status; -1 is a signal's.
func (r *running) wait() int {
	r.Helper()
	select {
	case <-r.ended:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		r.Fatalf("did not end:\n%s", r.out)
		return 0
	}
}

// ends demands an exit status.
func (r *running) ends(want int) {
	r.Helper()
	if got := r.wait(); got != want {
		r.Fatalf("ended with %d, want %d:\n%s", got, want, r.out)
	}
}

// session waits for the id of the session that this run has begun.
func (r *running) session() string {
	r.Helper()
	id := ""
	r.until(patience, "a session of this launcher", func() bool {
		for _, s := range r.sessions() {
			if s.pid == r.cmd.Process.Pid {
				id = s.ID
			}
		}
		select {
		case <-r.ended:
			r.Fatalf("ended before it had a session:\n%s", r.out)
		default:
		}
		return id != ""
	})
	return id
}

// until looks again and again for what must become true.
func (d *desk) until(limit time.Duration, what string, true func() bool) {
	d.Helper()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for !true() {
		select {
		case <-tick.C:
		case <-deadline.C:
			d.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// known is what `proctor sessions list` says of one session, and its launcher.
type known struct {
	ID      string `json:"session"`
	State   string `json:"state"`
	Verdict string `json:"verdict"`
	pid     int
}

// sessions reads the launcher's own files: the list is another process.
func (d *desk) sessions() []known {
	dirs, _ := filepath.Glob(d.path("home/host/sessions/*"))
	var all []known
	for _, dir := range dirs {
		var st struct {
			Phase    string `json:"phase"`
			Verdict  string `json:"verdict"`
			Launcher int    `json:"launcher_pid"`
		}
		if b, err := os.ReadFile(filepath.Join(dir, "state.json")); err == nil && json.Unmarshal(b, &st) == nil {
			all = append(all, known{filepath.Base(dir), st.Phase, st.Verdict, st.Launcher})
		}
	}
	return all
}

// listed is `proctor sessions list`.
func (d *desk) listed() map[string]known {
	d.Helper()
	out, err := d.proctor("sessions", "list", "--json").Output()
	d.must(err)
	var doc struct {
		Sessions []known `json:"sessions"`
	}
	d.must(json.Unmarshal(out, &doc))
	all := map[string]known{}
	for _, s := range doc.Sessions {
		all[s.ID] = s
	}
	return all
}

func (d *desk) seals() []string {
	found, _ := filepath.Glob(d.path("home/host/seals/*.json*"))
	return found
}

// initOf is the first process of a session's container, 0 where there is none.
func initOf(session, name string) int {
	for _, pattern := range []string{"/sys/fs/cgroup/proctor/", "/sys/fs/cgroup/*/proctor/"} {
		files, _ := filepath.Glob(pattern + session + "/proctor-" + session + "-" + name + "/cgroup.procs")
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for pid := range strings.FieldsSeq(string(b)) {
				status, _ := os.ReadFile("/proc/" + pid + "/status")
				for line := range strings.Lines(string(status)) {
					if n := strings.Fields(line); len(n) > 2 && n[0] == "NSpid:" && n[len(n)-1] == "1" {
						p, _ := strconv.Atoi(pid)
						return p
					}
				}
			}
		}
	}
	return 0
}

// containers are the names of a session's live containers.
func containers(session string) []string {
	seen := map[string]bool{}
	var all []string
	for _, pattern := range []string{"/sys/fs/cgroup/proctor/", "/sys/fs/cgroup/pids/proctor/"} {
		dirs, _ := filepath.Glob(pattern + session + "/proctor-" + session + "-*")
		for _, dir := range dirs {
			name := strings.TrimPrefix(filepath.Base(dir), "proctor-"+session+"-")
			if !seen[name] && initOf(session, name) != 0 {
				seen[name] = true
				all = append(all, name)
			}
		}
	}
	return all
}

// withText lists the processes of this desk's sessions that have a text in their
// arguments: the stage that they see lies below the desk.
func (d *desk) withText(text string) []string {
	var all []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		line, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(text)) {
			continue
		}
		if mounts, _ := os.ReadFile(filepath.Join(p, "mountinfo")); bytes.Contains(mounts, []byte(filepath.Base(d.dir)+"/home/host/stages/")) {
			all = append(all, filepath.Base(p)+": "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return all
}

// left reports what the host still has of this desk.
func (d *desk) left() []string {
	var ids []string
	for _, s := range d.sessions() {
		ids = append(ids, s.ID)
	}
	return programs.Left(d.dir, ids)
}

// await blocks until the text was written, and says whether it was before the
// process ended.
func (r *running) await(text string) bool {
	r.Helper()
	return r.out.Await(r, patience, r.ended, text)
}

// kill ends a process that cannot be another by now.
func kill(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0) == nil
}

// verdict is the document of `proctor run --json` or `audit --json`, in the
// fields that the tests look at.
type verdict struct {
	Session string   `json:"session"`
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons"`
	Checks  []struct {
		Name    string `json:"name"`
		Outcome string `json:"outcome"`
		Exit    int    `json:"exit"`
		Output  string `json:"output_tail"`
		Passed  bool   `json:"passed"`
	} `json:"checks"`
}

// run runs an agent to the verdict.
func (d *desk) run(want int, argv ...string) verdict {
	d.Helper()
	cmd := d.proctor(append([]string{"run", "--json", "--quiet", "--engine", d.engine, "--product", "site", "--"}, argv...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != want {
		d.Fatalf("run ended with %d, want %d: %v\n%s%s", got, want, err, out, stderr.String())
	}
	var v verdict
	if err := json.Unmarshal(out, &v); err != nil {
		d.Fatalf("%v: %s", err, out)
	}
	return v
}

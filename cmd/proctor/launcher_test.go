package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

// patience is how long a test waits for what has to happen.
const patience = 2 * time.Minute

// desk is an initialised home with a product, and what ran on it.
type desk struct {
	*testing.T
	dir string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	built := programs.Need(t)
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "proctor-desk-")
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t, dir}
	t.Cleanup(func() {
		for _, problem := range programs.Left(dir, sessionsOf(filepath.Join(dir, "home"))) {
			t.Error("left behind: " + problem)
		}
		_ = os.RemoveAll(dir)
	})
	if err := os.Symlink(built, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	if err := makeProduct(filepath.Join(dir, "site")); err != nil {
		t.Fatal(err)
	}
	if out, err := d.proctor("init").CombinedOutput(); err != nil {
		t.Fatalf("init: %v: %s", err, out)
	}
	return d
}

func (d *desk) proctor(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.dir, "bin", "proctor"), append([]string{"--home", filepath.Join(d.dir, "home")}, args...)...)
	cmd.Dir = d.dir
	return cmd
}

// run starts an agent that is a shell script.
func (d *desk) run(script string, flags ...string) *exec.Cmd {
	return d.proctor(append(append([]string{"run", "--product", "site"}, flags...), "--", "sh", "-c", script)...)
}

func (d *desk) start(cmd *exec.Cmd) {
	d.Helper()
	if err := cmd.Start(); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = cmd.Process.Kill() })
}

// ends waits for a process and fails unless it ends with the status in time.
func (d *desk) ends(cmd *exec.Cmd, want int) {
	d.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			d.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			d.Errorf("ended with %d (%v), want %d", got, cmd.ProcessState, want)
		}
	case <-time.After(patience):
		d.Fatal("did not end")
	}
}

func (d *desk) signal(cmd *exec.Cmd, s syscall.Signal) {
	d.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		d.Fatal(err)
	}
}

// session is the only session's state.
func (d *desk) session() home.State {
	d.Helper()
	h, err := home.Open(filepath.Join(d.dir, "home"))
	if err != nil {
		d.Fatal(err)
	}
	ids, err := h.Sessions()
	if err != nil || len(ids) != 1 {
		d.Fatalf("sessions %q, %v: want one", ids, err)
	}
	st, err := h.State(ids[0])
	if err != nil {
		d.Fatal(err)
	}
	return st
}

// Case B10: the first Ctrl-C ends the agent, and what it made is audited.
func TestInterruptOnce(t *testing.T) {
	d := newDesk(t)
	cmd, out, errs := d.run("echo half > a.txt; echo ready; sleep 600"), programs.NewConsole(), programs.NewConsole()
	cmd.Stdout, cmd.Stderr = out, errs
	d.start(cmd)
	errs.Await(t, patience, nil, "agent| ready")
	d.signal(cmd, syscall.SIGINT)
	d.ends(cmd, exitOK)
	if text := out.String(); !strings.Contains(text, "agent      stopped") || !strings.Contains(text, "PASS (exit 0)") {
		t.Errorf("printed:\n%s%s", text, errs)
	}
}

// Case U6: the second ends everything at once, with 3 and its reason, although
// the agent had time left.
func TestInterruptTwice(t *testing.T) {
	d := newDesk(t)
	cmd, out, errs := d.run(`trap "echo asked" TERM; echo ready; while :; do sleep 1; done`, "--json"), programs.NewConsole(), programs.NewConsole()
	cmd.Stdout, cmd.Stderr = out, errs
	d.start(cmd)
	errs.Await(t, patience, nil, "agent| ready")
	d.signal(cmd, syscall.SIGINT)
	errs.Await(t, patience, nil, "agent| asked")
	d.signal(cmd, syscall.SIGINT)
	d.ends(cmd, exitIndeterminate)
	if !strings.Contains(out.String(), `"exit": 3`) || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("printed:\n%s%s", out, errs)
	}
	if st := d.session(); st.Phase != "ended" || st.Verdict != "INDETERMINATE" || st.Seals != 0 {
		t.Errorf("session is %+v", st)
	}
}

// Case U2: whoever reads our output goes away; the session goes on to its seal.
func TestOutputReaderGoesAway(t *testing.T) {
	d := newDesk(t)
	cmd := d.run("echo ready; read x < a.txt; sleep 1; yes | head -c 300000; echo new > new.txt")
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	d.start(cmd)
	_ = outW.Close()
	_ = errW.Close()
	var seen []byte
	for chunk := make([]byte, 4096); !bytes.Contains(seen, []byte("agent| ready")); {
		n, err := errR.Read(chunk)
		if err != nil {
			t.Fatalf("%v after %s", err, seen)
		}
		seen = append(seen, chunk[:n]...)
	}
	_ = outR.Close()
	_ = errR.Close()
	d.ends(cmd, exitOK)
	if st := d.session(); st.Verdict != "PASS" || st.Seals != 1 {
		t.Errorf("session is %+v", st)
	}
}

// Case U7: an agent with the terminal paints a verdict; it cannot paint the
// word that was shown before it started.
func TestTerminalWord(t *testing.T) {
	d := newDesk(t)
	master, slave := openTerminal(t)
	cmd, out, seen := d.run(`printf "PASS (exit 0): painted\n"; printf "\033[?1049h"; env; test -t 0 && echo has-terminal; exit 0`, "-t"), programs.NewConsole(), programs.NewConsole()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, out, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	copied := make(chan struct{})
	d.start(cmd)
	_ = slave.Close()
	go func() { defer close(copied); _, _ = io.Copy(seen, master) }() // ends with EIO
	d.ends(cmd, exitOK)
	<-copied
	m := regexp.MustCompile(`this run's word: (\S+)\r?\n`).FindStringSubmatchIndex(seen.String())
	if m == nil {
		t.Fatalf("no word in %q", seen)
	}
	word, after := seen.String()[m[2]:m[3]], seen.String()[m[1]:]
	if !strings.Contains(after, "painted") || !strings.Contains(after, "has-terminal") {
		t.Errorf("the agent did not have the terminal: %q", after)
	}
	if strings.Contains(after, word) {
		t.Errorf("the agent learned the word: %q", after)
	}
	if at := strings.LastIndex(after, "\x1b[?1049l"); at < strings.Index(after, "has-terminal") {
		t.Errorf("the terminal was not restored: %q", after)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "PASS (exit 0): ") || !strings.HasSuffix(last, "      "+word) {
		t.Errorf("last line %q, word %q", last, word)
	}
}

// openTerminal makes a pseudo terminal; see pts(4).
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// Case U1: a panic is an internal error, 3, and not Go's 2.
func TestPanicIsInternal(t *testing.T) {
	for _, args := range [][]string{{"explode"}, {"explode", "--json"}} {
		var out, errs strings.Builder
		a := &app{streams: streams{os.Stdin, &out, &errs}, env: func(string) string { return "" }}
		root := newRootCommand(a)
		root.AddCommand(&cobra.Command{Use: "explode", Run: func(*cobra.Command, []string) { panic("\x1b[31mboom") }})
		if code := a.execute(t.Context(), root, args); code != exitIndeterminate {
			t.Errorf("%q ended with %d", args, code)
		}
		if want := `proctor: error: internal: \x1b[31mboom`; !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "nothing was started") {
			t.Errorf("%q printed %q", args, errs.String())
		}
		if len(args) == 2 && !strings.Contains(out.String(), `"exit": 3`) {
			t.Errorf("no document: %q", out.String())
		}
	}
}

// A product's own path is untrusted text too: whoever made the directory named
// it. A session over it works, and nothing of it reaches the terminal raw.
func TestHostileProductPath(t *testing.T) {
	d := newDesk(t)
	for i, name := range []string{"two words", "new\n::error::line", "\x1b[2Jred $(touch x) 'q' \"q\" \\n"} {
		product := filepath.Join(d.dir, "products", name)
		if err := os.MkdirAll(filepath.Dir(product), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := makeProduct(product); err != nil {
			t.Fatal(err)
		}
		cmd, out, errs := d.proctor("run", "--product", product, "--apply", "--", "sh", "-c", "echo home > a.txt; exit "+strconv.Itoa(i)), programs.NewConsole(), programs.NewConsole()
		cmd.Stdout, cmd.Stderr = out, errs
		d.start(cmd)
		d.ends(cmd, exitOK)
		list, err := d.proctor("sessions", "list").Output()
		if err != nil || bytes.Count(list, []byte("\n")) != i+1 {
			t.Errorf("%q: list %q, %v", name, list, err)
		}
		all := out.String() + errs.String() + string(list)
		if strings.Contains(all, "\x1b") || strings.Contains(all, "\n::") {
			t.Errorf("%q reached the terminal: %q", name, all)
		}
		if b, err := os.ReadFile(filepath.Join(product, "a.txt")); string(b) != "home\n" || !strings.Contains(out.String(), "applied session") {
			t.Errorf("%q: a.txt is %q, %v; printed %s%s", name, b, err, out, errs)
		}
	}
	// No configuration of a container can say it: refused before anything starts.
	product := filepath.Join(d.dir, "products", "no\xffutf8")
	if err := makeProduct(product); err != nil {
		t.Fatal(err)
	}
	cmd, errs := d.proctor("run", "--product", product, "--", "true"), programs.NewConsole()
	cmd.Stderr = errs
	d.start(cmd)
	d.ends(cmd, exitRefused)
	if text := errs.String(); strings.Contains(text, "\xff") || strings.Contains(text, "started:") || !strings.HasSuffix(text, "nothing was started\n") {
		t.Errorf("printed %q", text)
	}
}

// A product that changed while the agent worked: PASS, not applied, and the
// last line says so with the process's own status.
func TestApplyAfterRunIsRefused(t *testing.T) {
	d := newDesk(t)
	cmd, out, errs := d.run(`echo agent > a.txt; trap "exit 0" TERM; echo ready; sleep 600 & wait`, "--apply"), programs.NewConsole(), programs.NewConsole()
	cmd.Stdout, cmd.Stderr = out, errs
	d.start(cmd)
	errs.Await(t, patience, nil, "agent| ready")
	if err := os.WriteFile(filepath.Join(d.dir, "site", "a.txt"), []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.signal(cmd, syscall.SIGINT)
	d.ends(cmd, exitRefused)
	if text := out.String(); !strings.Contains(text, "\nPASS (exit 2): ") || !strings.HasSuffix(text, "; not applied\n") {
		t.Errorf("printed:\n%s", text)
	}
	if text := errs.String(); !strings.Contains(text, "conflict: a.txt: ") || strings.Contains(text, "nothing was started") {
		t.Errorf("printed:\n%s", text)
	}
	if b, err := os.ReadFile(filepath.Join(d.dir, "site", "a.txt")); string(b) != "mine\n" {
		t.Errorf("a.txt is %q, %v", b, err)
	}
}

// A terminal's Ctrl-C goes to every process of the launcher's group. Whatever
// is being made just then is made, and the session ends in order.
func TestInterruptReachesTheLauncherAlone(t *testing.T) {
	d := newDesk(t)
	for _, moment := range []string{"stage: started", "stage: done", "open: done", "serve: started"} {
		cmd, out, errs := d.run("sleep 600"), programs.NewConsole(), programs.NewConsole()
		cmd.Stdout, cmd.Stderr = out, errs
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		d.start(cmd)
		errs.Await(t, patience, nil, moment)
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		d.ends(cmd, exitOK)
		if !strings.Contains(out.String(), "agent      stopped") {
			t.Errorf("at %q, printed:\n%s%s", moment, out, errs)
		}
	}
}

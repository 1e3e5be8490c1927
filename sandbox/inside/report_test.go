package inside

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

const (
	reportSocket = "PROCTOR_TEST_REPORT_SOCKET"
	reportLeaves = "PROCTOR_TEST_REPORT_LEAVES"
)

// TestFirstProcess is the child of TestNobodyIsThereAtTheReport, and of nothing else.
func TestFirstProcess(t *testing.T) {
	if socket := os.Getenv(reportSocket); socket != "" {
		os.Exit(Run(t.Context(), Config{
			Argv: []string{"/bin/sh", "-c", `setsid "$` + reportLeaves + `" 600 & echo ready; read x; exit 3`}, Dir: "/",
			Report: socket, Grace: time.Second, Stdin: os.Stdin, Stderr: os.Stderr,
		}))
	}
}

// TestNobodyIsThereAtTheReport: who comes next is let in by a first process's
// report, so nothing that its payload left behind is alive then, as it is before.
func TestNobodyIsThereAtTheReport(t *testing.T) {
	need.Root(t)
	sleep, err := exec.LookPath("sleep")
	need.That(t, err == nil, "needs sleep")
	daemon := filepath.Join(t.TempDir(), "daemon")
	if err := os.Symlink(sleep, daemon); err != nil {
		t.Fatal(err)
	}
	alive := make(chan bool, 1)
	socket := supervised(t, func() { alive <- runs(t, daemon) })
	cmd := exec.Command(os.Args[0], "-test.run=^TestFirstProcess$")
	cmd.Env = append(os.Environ(), reportSocket+"="+socket, reportLeaves+"="+daemon)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); !runs(t, daemon); <-tick.C {
		if deadline.Err() != nil {
			t.Fatal("the control: nothing was left behind")
		}
	}
	_ = stdin.Close()
	select {
	case is := <-alive:
		if is {
			t.Error("what the payload left behind is alive at the report")
		}
	case <-deadline.Done():
		t.Error("nothing was reported")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("a reported end is no failure of the first process: %v", err)
	}
}

// supervised is a socket that gives a line out, and does something between the
// report on it and the answer to that.
func supervised(t *testing.T, at func()) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusOK)
		_ = rc.Flush()
		if _, err := bufio.NewReader(r.Body).ReadString('\n'); err != nil {
			t.Error(err)
		}
		at()
		_, _ = io.WriteString(w, "recorded\n")
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return socket
}

// runs reports whether the host has a process of this program, by its first
// argument.
func runs(t *testing.T, program string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if b, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(b), program+"\x00") {
			return true
		}
	}
	return false
}

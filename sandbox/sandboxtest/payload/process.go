package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wait says "ready", and ends with 7 on SIGTERM.
func wait(stdout io.Writer) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	_, _ = fmt.Fprintln(stdout, "ready")
	<-term
	return 7
}

// ignore says "ready", and nothing but SIGKILL ends it.
func ignore(stdout io.Writer) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	_, _ = fmt.Fprintln(stdout, "ready")
	for { // select {} would be a deadlock to the Go runtime, which ends the program
		<-signals
	}
}

func cat(stdin io.Reader, stdout io.Writer) int {
	if _, err := io.Copy(stdout, stdin); err != nil {
		return 1
	}
	return 0
}

// drain says "ready", and ends with 9 at the end of its input.
func drain(stdin io.Reader, stdout io.Writer) int {
	_, _ = fmt.Fprintln(stdout, "ready")
	_, _ = io.Copy(io.Discard, stdin)
	return 9
}

func exit(args []string) int {
	n, err := strconv.Atoi(strings.Join(args, ""))
	if err != nil {
		return 64
	}
	return n
}

// flood writes N bytes of "o" to the output and N of "e" to the errors, a line
// of 64 bytes at a time.
func flood(args []string, stdout, stderr io.Writer) int {
	n, err := strconv.Atoi(strings.Join(args, ""))
	if err != nil {
		return 64
	}
	out, errs := bufio.NewWriterSize(stdout, 32<<10), bufio.NewWriterSize(stderr, 32<<10)
	for left := n; left > 0; left -= 64 {
		_, _ = out.WriteString(strings.Repeat("o", min(left, 64)))
		_, _ = errs.WriteString(strings.Repeat("e", min(left, 64)))
	}
	if out.Flush() != nil || errs.Flush() != nil {
		return 1
	}
	return 0
}

// daemon DIR TOKEN starts a grandchild in a session of its own that ignores
// SIGTERM and appends to DIR/beat; then it waits, ignoring SIGTERM as well.
func daemon(args []string, stdout io.Writer) int {
	if len(args) != 2 {
		return 64
	}
	if err := respawn([]string{"beat", "twice", args[0], args[1]}); err != nil {
		_, _ = fmt.Fprintln(stdout, err)
		return 1
	}
	return ignore(stdout)
}

// beat is the daemon's two steps.
func beat(args []string) int {
	if len(args) == 3 && args[0] == "twice" {
		if respawn([]string{"beat", args[1], args[2]}) != nil {
			return 1
		}
		return 0
	}
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	f, err := os.OpenFile(args[0]+"/beat", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 1
	}
	for range time.Tick(5 * time.Millisecond) {
		if _, err := f.WriteString("."); err != nil {
			return 1
		}
	}
	return 0
}

func respawn(args []string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// fork N starts up to N processes that stay, and prints how many it could.
func fork(args []string, stdout io.Writer) int {
	n, err := strconv.Atoi(strings.Join(args, ""))
	if err != nil {
		return 64
	}
	started := 0
	for range n {
		if respawn([]string{"ignore"}) != nil {
			break
		}
		started++
	}
	_, _ = fmt.Fprintf(stdout, "started %d\n", started)
	return 0
}

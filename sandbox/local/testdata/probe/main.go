// Command probe is the payload of this package's tests: it runs the operations
// that its arguments name, separated by "--", and prints one line for each. An
// operation that fails prints the error's name (EROFS) and the next one runs.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	var op []string
	for _, a := range append(os.Args[1:], "--") {
		if a != "--" {
			op = append(op, a)
			continue
		}
		if len(op) > 0 {
			report(op, run(op[0], op[1:]))
		}
		op = nil
	}
}

func report(op []string, err error) {
	name := strings.Join(op, " ")
	var errno syscall.Errno
	switch {
	case err == nil:
		fmt.Println(name + ": ok")
	case errors.As(err, &errno):
		fmt.Println(name + ": " + unix.ErrnoName(errno))
	default:
		fmt.Println(name + ": " + err.Error())
	}
}

func run(op string, a []string) error {
	switch op {
	case "exit":
		os.Exit(number(a[0]))
	case "cat":
		b, err := os.ReadFile(a[0])
		if err == nil {
			_, err = os.Stdout.Write(b)
		}
		return err
	case "stderr":
		_, err := fmt.Fprintln(os.Stderr, a[0])
		return err
	case "env":
		for _, e := range os.Environ() {
			fmt.Println("env " + e)
		}
		return nil
	case "ls":
		entries, err := os.ReadDir(a[0])
		for _, e := range entries {
			fmt.Println("entry " + e.Name())
		}
		return err
	case "write":
		return os.WriteFile(a[0], []byte(a[1]), 0o644)
	case "append-device":
		return unix.Mknod(a[0], unix.S_IFCHR|0o666, 1<<8|3)
	case "stdin":
		b, err := io.ReadAll(os.Stdin)
		fmt.Printf("read %q\n", b)
		return err
	case "wait":
		fmt.Println("waiting")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "ignore":
		signal.Ignore(unix.SIGTERM)
		return nil
	case "term":
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGTERM)
		fmt.Println("waiting")
		<-c
		os.Exit(number(a[0]))
	case "signal":
		return unix.Kill(number(a[1]), unix.Signal(number(a[0])))
	case "daemon":
		return daemon(a)
	case "keep-writing":
		return keepWriting(a[0])
	case "fork":
		return fork(number(a[0]))
	case "alloc":
		return alloc(number(a[0]))
	case "alloc-file":
		return os.WriteFile(a[0], make([]byte, number(a[1])<<20), 0o600)
	case "flood":
		_, err := os.Stdout.Write(bytes.Repeat([]byte("x"), number(a[0])))
		return err
	case "truncate":
		return unix.Ftruncate(number(a[0]), 0)
	case "write-fd":
		_, err := unix.Write(number(a[0]), []byte("x"))
		return err
	case "await":
		for {
			if st, err := os.Stat(a[0]); err == nil && st.Size() > 0 {
				return nil
			}
			if _, err := unix.Poll(nil, 1); err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	case "wait-for-ever":
		// Not an empty select: with nothing left to run, Go ends the program.
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGUSR1)
		<-c
		return nil
	case "loopback":
		return loopback()
	case "interfaces":
		all, err := net.Interfaces()
		for _, i := range all {
			fmt.Printf("interface %s %s\n", i.Name, i.Flags)
		}
		return err
	case "connect":
		c, err := net.Dial("unix", a[0])
		if err != nil {
			return err
		}
		return c.Close()
	case "size":
		ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err == nil {
			fmt.Printf("size %dx%d\n", ws.Col, ws.Row)
		}
		return err
	case "winch":
		return winch()
	case "line":
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Printf("line %q\n", line)
		return err
	default:
		return calls(op, a)
	}
	return nil
}

func winch() error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGWINCH)
	fmt.Println("waiting")
	<-c
	return run("size", nil)
}

// daemon leaves a process behind that is in a session of its own and ignores
// SIGTERM.
func daemon(a []string) error {
	cmd := exec.Command("/proc/self/exe", "ignore", "--", "keep-writing", a[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

func keepWriting(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	for {
		if _, err := f.WriteString("x"); err != nil {
			return err
		}
		if _, err := unix.Poll(nil, 1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// fork starts processes that wait, and says how many it could.
func fork(n int) error {
	var err error
	i := 0
	for ; i < n && err == nil; i++ {
		r, _, _ := os.Pipe()
		cmd := exec.Command("/proc/self/exe", "wait")
		cmd.Stdin = r
		err = cmd.Start()
	}
	fmt.Printf("started fewer than %d: %v\n", n, i < n)
	return err
}

func alloc(mib int) error {
	debug.SetGCPercent(-1)
	b, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return nil
}

func loopback() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	return errors.Join(c.Close(), l.Close())
}

func number(s string) int {
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		fmt.Println(err)
		os.Exit(99)
	}
	return int(n)
}

// Command testcount runs `go test -json`, shows what failed, and refuses a run
// that tested less than it should have.
//
// usage: testcount [-strict] [-expect FILE] -- go test -json ARG...
//
// With -strict a skipped test is a failure, and so is a test of the list that
// did not pass. The list has one test a line: the package's path below the
// module, a space, the test's name; `#` starts a comment. Without -strict both
// are told and forgiven: a developer's machine need not have every engine.
//
// It ends with go test's own closing lines, and exits 0 or 1.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("testcount", flag.ContinueOnError)
	flags.SetOutput(stderr)
	strict := flags.Bool("strict", false, "a skipped or missing test is a failure")
	expect := flags.String("expect", "", "file with the tests that must pass")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		fmt.Fprintln(stderr, "usage: testcount [-strict] [-expect FILE] -- go test -json ARG...")
		return 2
	}
	expected, err := readExpected(*expect)
	if err != nil {
		fmt.Fprintln(stderr, "testcount:", err)
		return 2
	}
	c := newCounter(stderr)
	failed, err := count(c, flags.Args(), stderr)
	if err != nil {
		fmt.Fprintln(stderr, "testcount:", err)
		failed = true
	}
	if !c.report(stdout, expected, *strict) || failed {
		fmt.Fprintln(stdout, "FAIL")
		return 1
	}
	return 0
}

// count runs the command and feeds its events to c. It reports whether the
// command failed.
func count(c *counter, command []string, stderr io.Writer) (bool, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return true, fmt.Errorf("pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return true, fmt.Errorf("start: %w", err)
	}
	readErr := c.read(out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, out) // let it end; the error is reported
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return true, errors.Join(readErr, fmt.Errorf("wait: %w", err))
	}
	return err != nil, readErr
}

func readExpected(file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	var all []string
	for i, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		switch fields := strings.Fields(line); len(fields) {
		case 0:
		case 2:
			all = append(all, fields[0]+" "+fields[1])
		default:
			return nil, fmt.Errorf("%s:%d: want a package and a test", file, i+1)
		}
	}
	return all, nil
}

// read takes the events of one `go test -json`.
func (c *counter) read(r io.Reader) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		var e event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			// The go command itself speaks plainly, about a build for example.
			fmt.Fprintln(c.progress, s.Text())
			continue
		}
		c.add(e)
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return nil
}

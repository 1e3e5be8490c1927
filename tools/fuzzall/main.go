// Command fuzzall runs every Fuzz target of a module for a while.
//
// usage: fuzzall [-time 30s] [-jobs 2] [-run REGEXP] PACKAGE...
//
// It finds the targets with `go test -list`, and refuses a module without any.
// Each target gets one worker; -jobs of them run at once. What a target found is
// printed and kept where go test keeps it, in the package's testdata/fuzz.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// target is one Fuzz function.
type target struct{ pkg, name string }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("fuzzall", flag.ContinueOnError)
	flags.SetOutput(stderr)
	per := flags.Duration("time", 30*time.Second, "how long each target runs")
	jobs := flags.Int("jobs", 2, "how many run at once")
	only := flags.String("run", "", "regular expression over PACKAGE.TARGET")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 || *jobs < 1 {
		fmt.Fprintln(stderr, "usage: fuzzall [-time 30s] [-jobs 2] [-run REGEXP] PACKAGE...")
		return 2
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(stderr, "fuzzall:", err)
		return 2
	}
	targets, err := list(ctx, flags.Args(), match)
	if err != nil {
		fmt.Fprintln(stderr, "fuzzall:", err)
		return 1
	}
	bad := fuzzAll(ctx, targets, *per, *jobs, stdout)
	fmt.Fprintf(stdout, "fuzz: %d targets, %d failed, %s each\n", len(targets), bad, *per)
	if bad > 0 {
		return 1
	}
	return 0
}

func fuzzAll(ctx context.Context, targets []target, per time.Duration, jobs int, stdout io.Writer) (bad int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	queue := make(chan target)
	for range jobs {
		wg.Go(func() {
			for t := range queue {
				out, err := fuzz(ctx, t, per)
				mu.Lock()
				if err != nil {
					bad++
					fmt.Fprintf(stdout, "FAIL %s %s: %v\n%s", t.pkg, t.name, err, out)
				} else {
					fmt.Fprintf(stdout, "ok   %s %s\n", t.pkg, t.name)
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range targets {
		queue <- t
	}
	close(queue)
	wg.Wait()
	return bad
}

// list returns the targets of the packages, in go test's order.
func list(ctx context.Context, packages []string, match *regexp.Regexp) ([]target, error) {
	out, err := goTest(ctx, append([]string{"-list", "^Fuzz"}, packages...)...)
	if err != nil {
		return nil, fmt.Errorf("list targets: %w\n%s", err, out)
	}
	var targets []target
	var names []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "Fuzz") && len(fields) == 1:
			names = append(names, fields[0])
		case len(fields) >= 2 && fields[0] == "ok":
			for _, n := range names {
				if t := (target{fields[1], n}); match.MatchString(t.pkg + "." + t.name) {
					targets = append(targets, t)
				}
			}
			names = nil
		}
	}
	if len(targets) == 0 {
		return nil, errors.New("list targets: no Fuzz target found")
	}
	return targets, nil
}

func fuzz(ctx context.Context, t target, per time.Duration) ([]byte, error) {
	args := []string{
		"-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", per.String(),
		// Else shrinking a merely interesting input may outlast the time.
		"-fuzzminimizetime", "2s", "-parallel", "1", "-timeout", (per + 10*time.Minute).String(), t.pkg,
	}
	return goTest(ctx, args...)
}

func goTest(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.CombinedOutput()
}

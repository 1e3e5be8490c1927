package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// crashVariable makes the test binary a program that panics in a goroutine.
const crashVariable = "PROCTOR_TEST_CRASH"

// crashed is that program.
func crashed(how string) {
	a := &app{streams: streams{os.Stdin, os.Stdout, os.Stderr}, asJSON: true}
	boom := func() { panic("\x1b[31mboom") }
	if how == "guarded" {
		boom = a.crash().Guard(boom)
	}
	never := make(chan struct{})
	go boom()
	<-never
}

// Case U1: a panic in a goroutine is what one in main is.
func TestPanicInAGoroutineIsInternal(t *testing.T) {
	for how, want := range map[string]int{"guarded": exitIndeterminate, "left alone": 2} { // the second is the control
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashVariable+"="+how)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != want {
			t.Errorf("%s: %v, want %d", how, err, want)
		}
		if how != "guarded" {
			continue
		}
		if got := errs.String(); got != "proctor: error: internal: \\x1b[31mboom\n" {
			t.Errorf("printed %q", got)
		}
		if !strings.Contains(string(out), `"exit": 3`) {
			t.Errorf("no document: %q", out)
		}
	}
}

// Every goroutine of the launcher's process is guarded.
func TestEveryGoroutineIsGuarded(t *testing.T) {
	found := 0
	for _, dir := range []string{".", "../../sandbox/launch", "../../sandbox/local", "../../sandbox/docker"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if body, ok := goroutine(n); ok {
					found++
					if !guarded(body) {
						t.Errorf("%s: a goroutine that is not guarded", set.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
	if found < 20 {
		t.Errorf("%d goroutines: the search does not find them any more", found)
	}
}

// goroutine is the function that a go statement calls, or that is handed to a
// WaitGroup's Go.
func goroutine(n ast.Node) (body ast.Expr, ok bool) {
	switch n := n.(type) {
	case *ast.GoStmt:
		return n.Call.Fun, true
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
			return n.Args[0], true
		}
	}
	return nil, false
}

func guarded(body ast.Expr) bool {
	call, ok := body.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Guard"
}

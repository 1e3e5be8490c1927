// Command shellfree refuses Go code that runs a shell with a command line.
//
// usage: shellfree DIRECTORY
//
// Every word of a command goes to the program as it is; a shell would take a
// path apart. Test files and packages for tests are exempt: some of them test
// what a shell makes of a line. It looks at calls of exec.Command, exec.CommandContext and
// syscall.Exec-like functions whose arguments name a shell, wherever it stands.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: shellfree DIRECTORY")
		os.Exit(2)
	}
	found, err := search(os.Args[1])
	for _, f := range found {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shellfree:", err)
		os.Exit(1)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// search returns one line a call that runs a shell, below the directory, other
// modules aside.
func search(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && (passedOver(d.Name()) || hasModule(name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		lines, err := shellCalls(name, nil)
		found = append(found, lines...)
		return err
	})
	return found, err
}

// passedOver reports whether a directory holds no code that ships. Packages for
// tests end with "test", as the standard library's do.
func passedOver(base string) bool {
	return strings.HasPrefix(base, ".") || base == "testdata" || strings.HasSuffix(base, "test")
}

func hasModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// shellCalls reads one file, from src if it is not nil.
func shellCalls(name string, src any) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !strings.HasPrefix(f.Sel.Name, "Command") && f.Sel.Name != "Exec" && f.Sel.Name != "ForkExec" && f.Sel.Name != "StartProcess" {
			return true
		}
		for _, arg := range call.Args {
			if isShell(arg) {
				found = append(found, fmt.Sprintf("%s: runs a shell; give the program its words", files.Position(call.Pos())))
			}
		}
		return true
	})
	return found, nil
}

func isShell(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return false
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return false
	}
	switch path.Base(s) {
	case "sh", "bash", "dash", "ash", "zsh", "ksh":
		return true
	}
	return false
}

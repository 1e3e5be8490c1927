package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"

	"github.com/proctor-project/proctor/sandbox/home"
)

// TestScripts runs testdata/*.txtar with the programs that ship, on engine
// local. After each, the host must be as it was, and every command that any of
// them was told to run must be one that proctor takes.
func TestScripts(t *testing.T) {
	dir := programs.Need(t)
	var all scribe
	t.Cleanup(func() { // when the last of the parallel scripts has ended
		for _, problem := range all.left {
			t.Error("left behind: " + problem)
		}
		checkHints(t, all.text.String())
	})
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: func(env *testscript.Env) error { return setUp(env, dir, &all) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":      all.exit,
			"session":   cmdSession,
			"remember":  cmdRemember,
			"untouched": cmdUntouched,
			"document":  cmdDocument,
			"flip":      cmdFlip,
		},
		RequireUniqueNames: true,
	})
}

// scribe keeps what the scripts printed.
type scribe struct {
	mu   sync.Mutex
	text strings.Builder
	left []string
}

func (s *scribe) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.WriteString(text)
}

func setUp(env *testscript.Env, built string, all *scribe) error {
	state := filepath.Join(env.WorkDir, "state")
	env.Setenv("HOME", filepath.Join(env.WorkDir, "user"))
	env.Setenv("XDG_STATE_HOME", state)
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
	env.Setenv("POLICY", filepath.Join(env.WorkDir, "config", "proctor", "policy.yaml"))
	env.Setenv("SEALS", filepath.Join(state, "proctor", "host", "seals"))
	bin, err := fakeNPM(env.WorkDir)
	if err != nil {
		return err
	}
	env.Setenv("PATH", built+":"+bin+":"+os.Getenv("PATH"))
	registry := httptest.NewServer(recordedRegistry())
	env.Defer(registry.Close)
	env.Setenv("REGISTRY", registry.URL)
	env.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env.Setenv("GIT_"+who+"_NAME", "test")
		env.Setenv("GIT_"+who+"_EMAIL", "test@localhost")
	}
	env.Defer(func() {
		left := programs.Left(env.WorkDir, sessionsOf(filepath.Join(state, "proctor")))
		all.mu.Lock()
		defer all.mu.Unlock()
		all.left = append(all.left, left...)
	})
	if err := os.Mkdir(filepath.Join(env.WorkDir, "user"), 0o700); err != nil {
		return err
	}
	return makeProduct(filepath.Join(env.WorkDir, "site"))
}

// fakeNPM makes an npm that says which registry a script wants, and is none
// where it wants none.
func fakeNPM(work string) (string, error) {
	bin := filepath.Join(work, "bin")
	const npm = "#!/bin/sh\n[ \"$*\" = 'config get registry' ] && [ \"$PWD\" = / ] && [ -n \"$TEST_REGISTRY\" ] && echo \"$TEST_REGISTRY\"\n"
	return bin, errors.Join(os.Mkdir(bin, 0o755), os.WriteFile(filepath.Join(bin, "npm"), []byte(npm), 0o755))
}

// recordedRegistry answers with documents that were recorded of a real one.
func recordedRegistry() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.EscapedPath(), "/")
		for _, dir := range []string{"packages", "packages/closure"} {
			if b, err := os.ReadFile(filepath.Join("../../sidecar", dir, "testdata/registry", name+".json")); err == nil && filepath.Base(name) == name {
				_, _ = w.Write(b)
				return
			}
		}
		http.NotFound(w, r)
	})
}

// makeProduct makes a small git repository.
func makeProduct(dir string) error {
	for name, text := range map[string]string{
		"a.txt": "one\n", "sub/b.txt": "two\n", "run.sh": "#!/bin/sh\n", "gone.txt": "three\n",
	} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// exit STATUS COMMAND [ARG...] runs a command that must end with the status.
func (s *scribe) exit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit STATUS COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	s.note(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("ended with %d, want %d", got, want)
	}
}

// session VAR puts the id of the session that started last into a variable.
func cmdSession(ts *testscript.TestScript, _ bool, args []string) {
	h, err := home.Open(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "proctor"))
	ts.Check(err)
	ids, err := h.Sessions()
	ts.Check(err)
	var last home.State
	for _, id := range ids {
		st, err := h.State(id)
		ts.Check(err)
		if st.Started.After(last.Started) {
			last = st
		}
	}
	if last.Session == "" {
		ts.Fatalf("no session")
	}
	ts.Setenv(args[0], last.Session)
}

// remember DIR, untouched DIR: whether the directory is as it was.
func cmdRemember(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("REMEMBERED", digestOf(ts, args[0]))
}

func cmdUntouched(ts *testscript.TestScript, neg bool, args []string) {
	if same := digestOf(ts, args[0]) == ts.Getenv("REMEMBERED"); same == neg {
		ts.Fatalf("as it was: %v", same)
	}
}

func digestOf(ts *testscript.TestScript, dir string) string {
	h := sha256.New()
	root := ts.MkAbs(dir)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(h, "%q %s\n", path, info.Mode())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			_, _ = fmt.Fprintf(h, "%x\n", sha256.Sum256(b))
			return err
		}
		return nil
	})
	ts.Check(err)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// document SCHEMA [FIELD=VALUE...]: standard output is one JSON document of
// that schema. A field may be a.b; a value is as fmt prints it.
func cmdDocument(ts *testscript.TestScript, _ bool, args []string) {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	var doc map[string]any
	ts.Check(dec.Decode(&doc))
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		ts.Fatalf("a second document")
	}
	for name, v := range doc {
		if v == nil && name != "signed" && name != "was" { // what there is none of; a list is never null
			ts.Fatalf("%s is null", name)
		}
	}
	if doc["schema"] != args[0] {
		ts.Fatalf("schema %v, want %s", doc["schema"], args[0])
	}
	for _, arg := range args[1:] {
		field, want, _ := strings.Cut(arg, "=")
		var v any = doc
		for name := range strings.SplitSeq(field, ".") {
			m, _ := v.(map[string]any)
			v = m[name]
		}
		if got := fmt.Sprint(v); got != want {
			ts.Fatalf("%s is %s, want %s", field, got, want)
		}
	}
}

// flip FILE TEXT changes one bit of the text, which the file holds once.
func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	if bytes.Count(b, []byte(args[1])) != 1 {
		ts.Fatalf("%s holds %q %d times", args[0], args[1], bytes.Count(b, []byte(args[1])))
	}
	b[bytes.Index(b, []byte(args[1]))] ^= 1
	ts.Check(os.WriteFile(path, b, 0o644))
}

package sandboxtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// testRemove: a daemon that left its parent and session, ignores SIGTERM and
// keeps writing is gone when Remove returns. The host's file is the judge.
func (s *suite) testRemove(t *testing.T) {
	before := s.leftovers(t)
	spec := s.spec(sandbox.RoleAgent)
	dir := s.dir(t, spec.Identity)
	token := s.newToken()
	spec.Argv = append(spec.Argv, "daemon", "/job", token)
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job", Writable: true}}
	c := s.start(t, spec, sandbox.Streams{})
	beat := filepath.Join(dir, "beat")
	size := func() int64 {
		st, err := os.Stat(beat)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	await(t, "the daemon's first beats", func() bool { return size() > 3 })
	alive := size()
	await(t, "the daemon's next beats", func() bool { return size() > alive+3 })
	if pids := processesWith(t, token); len(pids) < 2 && !unseen(spec) {
		t.Errorf("the host sees the processes %v, want the first and the daemon", pids)
	}
	if err := c.Remove(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if pids := processesWith(t, token); len(pids) > 0 {
		t.Errorf("the processes %v are there after Remove", pids)
	}
	for name := range s.leftovers(t) {
		if !before[name] {
			t.Errorf("the engine still has %s after Remove", name)
		}
	}
	dead := size()
	if users, err := s.engine.Users(testContext(t), dir); err != nil || len(users) > 0 {
		t.Errorf("after Remove the directory has the users %q, %v", users, err)
	}
	// Looking for users took longer than many beats.
	if got := size(); got != dead {
		t.Errorf("the daemon wrote after Remove: %d bytes, then %d", dead, got)
	}
	for range 2 {
		if err := c.Remove(testContext(t)); err != nil {
			t.Errorf("remove again: %v", err)
		}
	}
}

// testUsers: every container that holds the stage, a part of it or a parent of
// it is named, whoever's it is.
func (s *suite) testUsers(t *testing.T) {
	ctx := testContext(t)
	parent := s.dir(t, s.f.Hostile)
	stage := filepath.Join(parent, "stage")
	part := filepath.Join(stage, "part")
	mkdirOwned(t, part, s.f.Hostile)
	elsewhere := s.dir(t, s.f.Hostile)
	users := func() []string {
		t.Helper()
		got, err := s.engine.Users(ctx, stage)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, tc := range []struct {
		name, source string
		role         sandbox.Role
		kind         sandbox.MountKind
		uses         bool
	}{
		{"itself", stage, sandbox.RoleAgent, sandbox.MountBind, true},
		{"a part", part, sandbox.RoleAgent, sandbox.MountBind, true},
		{"a parent", parent, sandbox.RoleAgent, sandbox.MountBind, true},
		{"a layer over it", stage, sandbox.RoleCheck, sandbox.MountLayer, true},
		{"elsewhere", elsewhere, sandbox.RoleAgent, sandbox.MountBind, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := users(); len(got) > 0 {
				t.Fatalf("before: %q", got)
			}
			spec := s.spec(tc.role, "wait")
			spec.Session = s.session + "-other"
			spec.Name = strings.Replace(spec.Name, s.session, spec.Session, 1)
			m := sandbox.Mount{Kind: tc.kind, Source: tc.source, Target: "/job"}
			if tc.kind == sandbox.MountLayer {
				m.Writable, m.Size = true, 1<<20
			}
			spec.Mounts = []sandbox.Mount{m}
			c, _ := s.ready(t, spec, sandbox.Streams{})
			if got := users(); (len(got) > 0) != tc.uses {
				t.Errorf("while it runs: %q", got)
			}
			if err := c.Remove(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if got := users(); len(got) > 0 {
				t.Errorf("after: %q", got)
			}
		})
	}
}

// testSweep: everything of the session, nothing of another, and again without
// harm.
func (s *suite) testSweep(t *testing.T) {
	ctx := testContext(t)
	mine, other := s.session+"-swept", s.session+"-swept-not"
	in := func(spec sandbox.Spec, session string) sandbox.Spec {
		spec.Name = strings.Replace(spec.Name, spec.Session, session, 1)
		spec.Session = session
		return spec
	}
	stage := s.dir(t, s.f.Hostile)
	running := in(s.spec(sandbox.RoleCheck, "ignore"), mine)
	running.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Source: stage, Target: "/job", Writable: true, Size: 1 << 20}}
	_, pid := s.ready(t, running, sandbox.Streams{})
	created := in(s.spec(sandbox.RoleServe, "wait"), mine)
	s.create(t, created, sandbox.Streams{})
	ended := in(s.spec(sandbox.RoleAgent, "exit", "0"), mine)
	c := s.start(t, ended, sandbox.Streams{})
	if _, err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	survivor, _ := s.ready(t, in(s.spec(sandbox.RoleAgent, "wait"), other), sandbox.Streams{})

	got, err := s.engine.Sweep(ctx, mine)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	names := []string{running.Name, created.Name, ended.Name}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("sweep removed %q, want %q", got, names)
	}
	if _, err := os.Stat(filepath.Join("/proc", itoa(pid))); err == nil && !unseen(running) {
		t.Error("the running one's process is there after the sweep")
	}
	if users, err := s.engine.Users(ctx, stage); err != nil || len(users) > 0 {
		t.Errorf("after the sweep the stage has the users %q, %v", users, err)
	}
	if got, err := s.engine.Sweep(ctx, mine); err != nil || len(got) > 0 {
		t.Errorf("the second sweep gave %q, %v", got, err)
	}
	if err := survivor.Stop(ctx); err != nil {
		t.Error(err)
	}
	if exit, err := survivor.Wait(ctx); err != nil || exit.Code != 7 {
		t.Errorf("the other session's container ended with %+v, %v", exit, err)
	}
	if got, err := s.engine.Sweep(ctx, other); err != nil || len(got) != 1 {
		t.Errorf("the other session's sweep gave %q, %v", got, err)
	}
}

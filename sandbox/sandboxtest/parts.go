package sandboxtest

import (
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// testParts: each part is a place of its own that belongs to the supervisor
// alone, and that who makes it decides about.
func (s *suite) testParts(t *testing.T) {
	ctx := testContext(t)
	parts := []sandbox.Part{sandbox.PartRootKeys, sandbox.PartLedgerKeys, sandbox.PartLedger, sandbox.PartCache, sandbox.PartSession, sandbox.PartSockets}
	for _, part := range parts {
		s.makePart(t, part, s.of(part))
	}
	// Written by one, read by another, and seen under its own name only.
	spec := s.spec(sandbox.RoleSeal)
	var ops []op
	for _, part := range parts {
		m := s.engine.Part(part, s.of(part))
		m.Writable = true
		spec.Mounts = append(spec.Mounts, m)
		ops = append(ops, op{"list", part.Target()}, op{"stat", part.Target()}, op{"write", part.Target() + "/file", string(part)})
	}
	got := s.try(t, spec, ops...)
	for i := range parts {
		want(t, got[3*i:], "", "", "")
		wantNames(t, got[3*i])
		var st struct{ UID, GID, Mode uint32 }
		if got[3*i+1].into(t, &st); st.UID != spec.Identity.Inside || st.GID != spec.Identity.Inside || st.Mode != parts[i].Mode() {
			t.Errorf("part %s is %+v, want the supervisor's and %04o", parts[i], st, parts[i].Mode())
		}
	}
	spec = s.spec(sandbox.RoleSeal)
	ops = nil
	for _, part := range parts {
		spec.Mounts = append(spec.Mounts, s.engine.Part(part, s.of(part)))
		ops = append(ops, op{"read", part.Target() + "/file"}, op{"write", part.Target() + "/file", "x"}, op{"list", part.Target()})
	}
	got = s.try(t, spec, ops...)
	for i, part := range parts {
		want(t, got[3*i:], "", "EROFS", "")
		var text string
		if got[3*i].into(t, &text); text != string(part) {
			t.Errorf("part %s holds %q", part, text)
		}
		wantNames(t, got[3*i+2], "file")
	}
	s.otherSession(t)
	// A container that holds a part keeps it from being removed under it, or is
	// gone; removing what is gone is fine.
	for _, part := range parts {
		for range 2 {
			if err := s.engine.RemovePart(ctx, part, s.of(part)); err != nil {
				t.Errorf("remove part %s: %v", part, err)
			}
		}
		if has, err := s.engine.HasPart(ctx, part, s.of(part)); err != nil || has {
			t.Errorf("part %s is there after its removal: %v, %v", part, has, err)
		}
	}
}

// of is the session that a part belongs to, if any.
func (s *suite) of(part sandbox.Part) string {
	if part.PerSession() {
		return s.session
	}
	return ""
}

func (s *suite) makePart(t *testing.T, part sandbox.Part, session string) {
	t.Helper()
	ctx := testContext(t)
	if has, err := s.engine.HasPart(ctx, part, session); err != nil || has {
		t.Fatalf("part %s is there before it was made: %v, %v", part, has, err)
	}
	if err := s.engine.MakePart(ctx, part, session, s.f.Supervisor); err != nil {
		t.Fatalf("make part %s: %v", part, err)
	}
	t.Cleanup(func() { _ = s.engine.RemovePart(testContext(t), part, session) })
	if has, err := s.engine.HasPart(ctx, part, session); err != nil || !has {
		t.Errorf("part %s is not there after it was made: %v", part, err)
	}
	if err := s.engine.MakePart(ctx, part, session, s.f.Supervisor); err == nil {
		t.Errorf("part %s was made twice", part)
	}
	if m := s.engine.Part(part, session); m.Target != part.Target() || m.Source == "" || m.Writable {
		t.Errorf("part %s is the mount %+v", part, m)
	}
}

// otherSession: a session's part is not another's.
func (s *suite) otherSession(t *testing.T) {
	other := s.session + "-b"
	s.makePart(t, sandbox.PartSession, other)
	spec := s.spec(sandbox.RoleServe)
	spec.Mounts = []sandbox.Mount{s.engine.Part(sandbox.PartSession, other)}
	got := s.try(t, spec, op{"list", sandbox.PartSession.Target()})
	want(t, got, "")
	wantNames(t, got[0])
	if err := s.engine.RemovePart(testContext(t), sandbox.PartSession, other); err != nil {
		t.Error(err)
	}
}

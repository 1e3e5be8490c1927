package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// withSubmount makes a directory of the agent's with a tmpfs of its own in it.
func (h *harness) withSubmount(name string) string {
	h.Helper()
	dir := h.owned(name)
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		h.Fatal(err)
	}
	if err := unix.Mount("tmpfs", sub, "tmpfs", 0, "mode=0777"); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if err := unix.Unmount(sub, unix.MNT_DETACH); err != nil {
			h.Error(err)
		}
	})
	return dir
}

func TestReadOnlyReachesSubmounts(t *testing.T) {
	h := newHarness(t)
	dir := h.withSubmount("p")
	spec := h.spec("write", "/p/x", "1", "--", "write", "/p/sub/x", "1", "--", "cat", "/proc/self/mountinfo")
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: dir, Target: "/p", NoExec: true})
	_, out := h.run(spec)
	want(t, out, "write /p/x 1: EROFS", "write /p/sub/x 1: EROFS")
	for _, point := range []string{"/p", "/p/sub"} {
		if !strings.Contains(out, " "+point+" ro,nosuid,nodev,noexec,relatime ") {
			t.Errorf("%s is not ro,nosuid,nodev,noexec:\n%s", point, out)
		}
	}
	for _, f := range []string{"x", "sub/x"} {
		if _, err := os.Stat(filepath.Join(dir, f)); !os.IsNotExist(err) {
			t.Errorf("%s is on the host: %v", f, err)
		}
	}
	// The control: the same file systems take writes from the same identity.
	if err := unix.Unmount(filepath.Join(dir, "sub"), 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", filepath.Join(dir, "sub"), "tmpfs", 0, "mode=0777"); err != nil {
		t.Fatal(err)
	}
	spec = h.spec("write", "/p/x", "1")
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: dir, Target: "/p", Writable: true})
	if _, err := h.engine.Create(t.Context(), spec, sandbox.Streams{}); err == nil || !strings.Contains(err.Error(), "a submount in the writable mount /p") {
		t.Errorf("a writable mount with a submount: %v", err)
	}
	plain := h.owned("plain")
	spec.Mounts[2].Source = plain
	spec.Name += "-2"
	_, out = h.run(spec)
	want(t, out, "write /p/x 1: ok")
	if _, err := os.Stat(filepath.Join(plain, "x")); err != nil {
		t.Error(err)
	}
}

func TestLayerIsThrownAway(t *testing.T) {
	h := newHarness(t)
	stage := h.owned("stage")
	for name, content := range map[string]string{"kept": "lower", "changed": "lower", "removed": "lower"} {
		path := filepath.Join(stage, name)
		if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, testAgent, testAgent); err != nil {
			t.Fatal(err)
		}
	}
	private := filepath.Join(h.dir, "private") // as a stage is: below a closed directory
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(stage, filepath.Join(private, "stage")); err != nil {
		t.Fatal(err)
	}
	stage = filepath.Join(private, "stage")
	spec := h.spec("ls", "/home/me/p", "--", "cat", "/home/me/p/kept", "--", "write", "/home/me/p/changed", "upper", "--", "cat", "/home/me/p/changed",
		"--", "write", "/home/me/p/new", "upper", "--", "mode", "/home/me/p", "--", "ls", "/"+layersDir,
		"--", "write", "/home/me/p/big", strings.Repeat("x", 1<<16))
	spec.Role, spec.Name = sandbox.RoleCheck, "proctor-"+spec.Session+"-check-1"
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountLayer, Source: stage, Target: "/home/me/p", Writable: true, Size: 64 << 10})
	c := h.create(spec, sandbox.Streams{})
	got := c.Report().Mounts[len(c.Report().Mounts)-1]
	if got != (sandbox.MountReport{Kind: sandbox.MountLayer, Source: stage, Target: "/home/me/p", Writable: true, NoSuid: true, NoDev: true}) {
		t.Errorf("report of the layer is %+v", got)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, out := h.run(spec)
	want(t, out, "entry kept", "entry changed", "entry removed", "lowercat /home/me/p/kept: ok", "uppercat /home/me/p/changed: ok",
		"write /home/me/p/new upper: ok", "mode 0755", "ls /"+layersDir+": EACCES", "write /home/me/p/big "+strings.Repeat("x", 1<<16)+": ENOSPC")
	b, err := os.ReadFile(filepath.Join(stage, "changed"))
	if err != nil || string(b) != "lower" {
		t.Errorf("the host's file is %q, %v", b, err)
	}
	entries, err := os.ReadDir(stage)
	if err != nil || len(entries) != 3 {
		t.Errorf("the host's directory has %v, %v", entries, err)
	}
}

func TestMountTargets(t *testing.T) {
	h := newHarness(t)
	src := h.owned("src")
	file := filepath.Join(src, "file")
	if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := func(kind sandbox.MountKind, source, target string) sandbox.Mount {
		return sandbox.Mount{Kind: kind, Source: source, Target: target}
	}
	t.Run("made", func(t *testing.T) {
		spec := h.spec("cat", "/deep/in/a/place/file", "--", "cat", "/usr/share/proctor-test/file", "--", "cat", "/etc/one", "--", "ls", "/usr/share/proctor-test")
		spec.Mounts = append(spec.Mounts, at(sandbox.MountBind, src, "/deep/in/a/place"), at(sandbox.MountBind, src, "/usr/share/proctor-test"), at(sandbox.MountBind, file, "/etc/one"))
		_, out := h.run(spec)
		want(t, out, "contentcat /deep/in/a/place/file: ok", "contentcat /usr/share/proctor-test/file: ok", "contentcat /etc/one: ok")
		if _, err := os.Stat("/usr/share/proctor-test"); !os.IsNotExist(err) {
			t.Errorf("the host has the target too: %v", err)
		}
	})
	t.Run("below another mount", func(t *testing.T) {
		spec := h.spec("ls", "/m/there", "--", "ls", "/tmp/made")
		there := filepath.Join(src, "there")
		if err := os.Mkdir(there, 0o755); err != nil {
			t.Fatal(err)
		}
		spec.Mounts = append(spec.Mounts, at(sandbox.MountBind, src, "/m/there"), at(sandbox.MountBind, src, "/m"), at(sandbox.MountBind, src, "/tmp/made"))
		_, out := h.run(spec)
		want(t, out, "entry file", "ls /m/there: ok", "ls /tmp/made: ok")
	})
	for name, target := range map[string]string{
		"through a link": "/bin/x", "at a link": "/lib", "below a file": "/etc/passwd/x", "not in the mount that covers it": "/probe/nowhere",
	} {
		t.Run(name, func(t *testing.T) {
			spec := h.spec("exit", "0")
			spec.Mounts = append(spec.Mounts, at(sandbox.MountBind, src, target))
			c, err := h.engine.Create(t.Context(), spec, sandbox.Streams{})
			if err == nil {
				h.remove(c)
				t.Fatalf("a mount at %s was made", target)
			}
			h.nothingLeft(spec)
		})
	}
}

func TestImageDirectory(t *testing.T) {
	h := newHarness(t)
	image := filepath.Join(h.dir, "image")
	for _, d := range []string{"bin", "etc", "home", "dev"} {
		if err := os.MkdirAll(filepath.Join(image, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	probe, err := os.ReadFile(h.probe)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{"bin/probe": probe, "etc/hello": []byte("hello"), "dev/evil": nil} {
		if err := os.WriteFile(filepath.Join(image, path), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	img, err := h.engine.Resolve(t.Context(), sandbox.Image{Kind: sandbox.ImageDir, Ref: image})
	if err != nil {
		t.Fatal(err)
	}
	spec := h.spec()
	spec.Image = img
	spec.Argv = []string{"/bin/probe", "cat", "/etc/hello", "--", "write", "/etc/hello", "x", "--", "ls", "/dev", "--", "write", "/home/me/x", "x"}
	home := h.owned("home-me")
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: home, Target: "/home/me", Writable: true}}
	_, out := h.run(spec)
	want(t, out, "hellocat /etc/hello: ok", "write /etc/hello x: EROFS", "entry null", "write /home/me/x x: ok")
	if strings.Contains(out, "evil") {
		t.Errorf("the image's own /dev is there:\n%s", out)
	}
	if err := os.WriteFile(filepath.Join(image, "etc/hello"), []byte("changed"), 0o755); err != nil {
		t.Fatal(err)
	}
	again, err := h.engine.Resolve(t.Context(), sandbox.Image{Kind: sandbox.ImageDir, Ref: image})
	if err != nil || again.Digest == img.Digest {
		t.Errorf("digest after a change is %s, %v", again.Digest, err)
	}
}

func TestSupervisorImage(t *testing.T) {
	h := newHarness(t)
	spec := h.supervise(h.spec(), sandbox.RoleSeal, "ls", "/", "--", "write", "/proctor-sidecar", "x", "--", "write", "/keys/root/x", "x", "--", "write", "/control/session/x", "x")
	for _, p := range []sandbox.Part{sandbox.PartRootKeys, sandbox.PartSession} {
		session := ""
		if p == sandbox.PartSession {
			session = spec.Session
		}
		if err := h.engine.MakePart(t.Context(), p, session, spec.Identity); err != nil {
			t.Fatal(err)
		}
		m := h.engine.Part(p, session)
		m.Writable = p == sandbox.PartSession
		spec.Mounts = append(spec.Mounts, m)
	}
	_, out := h.run(spec)
	want(t, out, "entry control", "entry keys", "entry proctor-sidecar", "write /proctor-sidecar x: EROFS", "write /keys/root/x x: EROFS", "write /control/session/x x: ok")
	if strings.Count(out, "entry ") != 8 { // and dev, etc, proc, sys, tmp
		t.Errorf("the image has more than it needs:\n%s", out)
	}
	// One that was not resolved, or whose copy is gone, does not run.
	spec.Image.Digest = "sha256:" + strings.Repeat("0", 64)
	if c, err := h.engine.Create(t.Context(), spec, sandbox.Streams{}); err == nil {
		h.remove(c)
		t.Error("an image of an unknown digest was run")
	}
}

func TestParts(t *testing.T) {
	h := newHarness(t)
	ctx := t.Context()
	owner := sandbox.Identity{Inside: insideSuperID, Host: testSuper, HostRoot: testSuperRoot}
	for _, p := range []sandbox.Part{sandbox.PartRootKeys, sandbox.PartLedgerKeys, sandbox.PartLedger, sandbox.PartCache, sandbox.PartSession, sandbox.PartSockets} {
		session := ""
		if p.PerSession() {
			session = "abc"
		}
		if has, err := h.engine.HasPart(ctx, p, session); has || err != nil {
			t.Errorf("%s before: %v, %v", p, has, err)
		}
		if err := h.engine.MakePart(ctx, p, session, owner); err != nil {
			t.Fatal(err)
		}
		if has, err := h.engine.HasPart(ctx, p, session); !has || err != nil {
			t.Errorf("%s made: %v, %v", p, has, err)
		}
		m := h.engine.Part(p, session)
		var st unix.Stat_t
		if err := unix.Lstat(m.Source, &st); err != nil {
			t.Fatal(err)
		}
		if st.Uid != testSuper || st.Gid != testSuper || st.Mode&0o7777 != p.Mode() || m.Target != p.Target() || m.Writable {
			t.Errorf("%s: %d:%d %o, %+v", p, st.Uid, st.Gid, st.Mode, m)
		}
		if err := os.WriteFile(filepath.Join(m.Source, "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.engine.MakePart(ctx, p, session, owner); err == nil {
			t.Errorf("%s was made twice", p)
		}
		if _, err := os.Stat(filepath.Join(m.Source, "x")); err != nil {
			t.Errorf("%s: a second MakePart emptied it: %v", p, err)
		}
		for range 2 {
			if err := h.engine.RemovePart(ctx, p, session); err != nil {
				t.Error(err)
			}
		}
		if has, err := h.engine.HasPart(ctx, p, session); has || err != nil {
			t.Errorf("%s removed: %v, %v", p, has, err)
		}
	}
	for _, bad := range []struct {
		part    sandbox.Part
		session string
	}{{sandbox.PartSession, ""}, {sandbox.PartSession, "../x"}, {sandbox.PartLedger, "abc"}, {"other", ""}} {
		if err := h.engine.MakePart(ctx, bad.part, bad.session, owner); err == nil {
			t.Errorf("part %q of session %q was made", bad.part, bad.session)
		}
		if err := h.engine.RemovePart(ctx, bad.part, bad.session); err == nil {
			t.Errorf("part %q of session %q was removed", bad.part, bad.session)
		}
	}
}

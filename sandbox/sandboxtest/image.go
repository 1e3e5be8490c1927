package sandboxtest

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

func decode(t testing.TB, text string) []attempt {
	t.Helper()
	var results []attempt
	if err := json.Unmarshal([]byte(text), &results); err != nil {
		t.Fatalf("the payload printed %q: %v", text, err)
	}
	return results
}

func (s *suite) resolved(t *testing.T, files []File, config ImageConfig) sandbox.Image {
	t.Helper()
	img, err := s.engine.Resolve(testContext(t), s.f.Image(t, files, config))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// testHostileImage: what an image says of itself has no effect, or refuses it.
func (s *suite) testHostileImage(t *testing.T) {
	if s.f.HasImageConfig {
		t.Run("configuration", s.testImageConfig)
		t.Run("volumes", s.testImageVolumes)
	}
	t.Run("users", s.testImageUsers)
	t.Run("links", s.testImageLinks)
}

func (s *suite) testImageConfig(t *testing.T) {
	img := s.resolved(t, s.rootfs(t), ImageConfig{
		Env: []string{"PATH=/evil", "LD_PRELOAD=/evil.so", "SECRET=1", "HOME=/evil"}, Entrypoint: []string{"/bin/payload", "exit", "99"},
		Cmd: []string{"evil"}, User: "0:0", WorkingDir: "/evil", Healthy: []string{"CMD", "/bin/payload", "exit", "0"},
		StopSignal: "SIGUSR1", Labels: map[string]string{"harmless": "yes"},
	})
	spec := s.spec(sandbox.RoleAgent)
	spec.Image = img
	got := s.try(t, spec, op{"environ"}, op{"status"})
	want(t, got, "", "")
	var env []string
	if got[0].into(t, &env); strings.Join(env, " ") != strings.Join(spec.Env, " ") {
		t.Errorf("the environment is %q, want %q", env, spec.Env)
	}
	var status struct {
		Uid string //nolint:revive // the kernel's name
		Dir string `json:"dir"`
	}
	if got[1].into(t, &status); strings.Fields(status.Uid)[0] == "0" || status.Dir != "/" {
		t.Errorf("the process is %+v", status)
	}
	spec = s.spec(sandbox.RoleAgent, "wait")
	spec.Image = img
	c, _ := s.ready(t, spec, sandbox.Streams{})
	if err := c.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
	if exit, err := c.Wait(testContext(t)); err != nil || exit.Code != 7 {
		t.Errorf("with an image's own stop signal it ended with %+v, %v", exit, err)
	}
	bad := s.resolved(t, s.rootfs(t), ImageConfig{Labels: map[string]string{"proctor.session": "other"}})
	spec = s.spec(sandbox.RoleAgent, "exit", "0")
	spec.Image = bad
	if c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{}); err == nil {
		t.Error("an image with proctor's labels was run")
		remove(t, c)
	}
}

func (s *suite) testImageVolumes(t *testing.T) {
	img := s.resolved(t, s.rootfs(t), ImageConfig{Volumes: []string{"/job"}})
	before := s.leftovers(t)
	spec := s.spec(sandbox.RoleAgent, "exit", "0")
	spec.Image = img
	c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{})
	var refused *sandbox.RefusedError
	if !errors.As(err, &refused) {
		t.Errorf("an image with a volume of its own: %v, want a refusal", err)
	}
	if err == nil {
		remove(t, c)
	}
	// Where a mount stands at that place, the volume has no effect.
	spec = s.spec(sandbox.RoleAgent)
	spec.Image = img
	dir := s.dir(t, spec.Identity)
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job", Writable: true}}
	want(t, s.try(t, spec, op{"write", "/job/file", "x"}), "")
	if _, err := os.Stat(dir + "/file"); err != nil {
		t.Error(err)
	}
	for name := range s.leftovers(t) {
		if !before[name] {
			t.Errorf("the image's volume is left: %s", name)
		}
	}
}

// testImageUsers: names in the image's own user files that look like our ids.
func (s *suite) testImageUsers(t *testing.T) {
	id := itoa(int(s.f.Hostile.Inside))
	files := append(s.rootfs(t),
		File{Path: "/etc/passwd", Content: []byte(id + ":x:0:0::/evil:/bin/payload\nroot:x:" + id + ":0::/root:/bin/payload\n"), Mode: 0o644},
		File{Path: "/etc/group", Content: []byte(id + ":x:0:root," + id + "\nwheel:x:10:root," + id + "\n"), Mode: 0o644},
	)
	spec := s.spec(sandbox.RoleAgent, "wait")
	spec.Image = s.resolved(t, files, ImageConfig{})
	if c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{}); err == nil {
		remove(t, c) // not refused, so it must have no effect
		s.wantHostileUser(t, spec)
	}
	// The control: an honest image that has a name for our id.
	files = append(s.rootfs(t),
		File{Path: "/etc/passwd", Content: []byte("root:x:0:0::/root:/bin/payload\nnode:x:" + id + ":" + id + "::/home/node:/bin/payload\n"), Mode: 0o644},
		File{Path: "/etc/group", Content: []byte("root:x:0:root\nnode:x:" + id + ":node\n"), Mode: 0o644},
	)
	spec = s.spec(sandbox.RoleAgent, "wait")
	spec.Image = s.resolved(t, files, ImageConfig{})
	s.wantHostileUser(t, spec)
}

func (s *suite) wantHostileUser(t *testing.T, spec sandbox.Spec) {
	t.Helper()
	var status map[string]string
	host := itoa(int(s.f.Hostile.Host))
	if unseen(spec) { // gVisor's word on it
		var all map[string]any
		s.try(t, spec, op{"status"})[0].into(t, &all)
		host, status = itoa(int(s.f.Hostile.Inside)), map[string]string{}
		for _, name := range []string{"Uid", "Gid", "Groups"} {
			status[name], _ = all[name].(string)
		}
	} else {
		_, pid := s.ready(t, spec, sandbox.Streams{})
		status = processStatus(t, pid)
	}
	four := strings.Join([]string{host, host, host, host}, " ")
	if status["Uid"] != four || status["Gid"] != four || (status["Groups"] != "" && status["Groups"] != host) {
		t.Errorf("the process has uid %q, gid %q, groups %q", status["Uid"], status["Gid"], status["Groups"])
	}
}

// testImageLinks: an image whose directories are links cannot move a mount.
func (s *suite) testImageLinks(t *testing.T) {
	for _, tc := range []struct {
		name string
		link File
		spec func(*sandbox.Spec, string)
	}{
		{"mount target", File{Path: "/job", Link: "/etc"}, func(p *sandbox.Spec, dir string) {
			p.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job/product", Writable: true}}
		}},
		{"target itself", File{Path: "/job", Link: "/proc"}, func(p *sandbox.Spec, dir string) {
			p.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job", Writable: true}}
		}},
		{"working directory", File{Path: "/job", Link: "/proc/self"}, func(p *sandbox.Spec, _ string) { p.Dir = "/job" }},
		{"devices", File{Path: "/dev", Link: "/tmp"}, func(*sandbox.Spec, string) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := s.spec(sandbox.RoleAgent)
			dir := s.dir(t, spec.Identity)
			spec.Image = s.resolved(t, append(s.rootfs(t), tc.link), ImageConfig{})
			tc.spec(&spec, dir)
			c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{})
			if err != nil {
				return
			}
			remove(t, c)
			// Not refused, so the link must have no effect: there is a
			// directory at its place (docker makes one of /dev).
			got := s.try(t, spec, op{"stat", tc.link.Path}, op{"list", tc.link.Link})
			want(t, got, "")
			var st struct{ Type uint32 }
			if got[0].into(t, &st); st.Type != unix.S_IFDIR {
				t.Errorf("was started although the image makes %s a link to %s", tc.link.Path, tc.link.Link)
			}
		})
	}
	// The control: the same image without links, and a directory at the place.
	spec := s.spec(sandbox.RoleAgent)
	dir := s.dir(t, spec.Identity)
	spec.Image = s.resolved(t, append(s.rootfs(t), File{Path: "/job", Mode: os.ModeDir | 0o755}), ImageConfig{})
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job/product", Writable: true}}
	want(t, s.try(t, spec, op{"write", "/job/product/file", "x"}), "")
}

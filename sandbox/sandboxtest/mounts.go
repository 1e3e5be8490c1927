package sandboxtest

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

// testBinds: the host's files are the judge.
func (s *suite) testBinds(t *testing.T) {
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleServe} {
		t.Run(string(role), func(t *testing.T) {
			spec := s.spec(role)
			base := s.dir(t, spec.Identity)
			// A name that an engine's option parser could stumble over.
			dir := filepath.Join(base, "a b,ro:c")
			mkdirOwned(t, dir, spec.Identity)
			writeOwned(t, filepath.Join(dir, "canary"), "canary", spec.Identity)
			spec.Mounts = []sandbox.Mount{
				{Kind: sandbox.MountBind, Source: dir, Target: "/job/ro"},
				{Kind: sandbox.MountBind, Source: dir, Target: "/job/rw", Writable: true},
			}
			got := s.try(t, spec,
				op{"read", "/job/ro/canary"},
				op{"write", "/job/ro/new", "x"},
				op{"write", "/job/ro/canary", "changed"},
				op{"remove", "/job/ro/canary"},
				op{"chmod", "chmod", "/job/ro/canary", "600"},
				op{"mkdir", "/job/ro/dir"},
				op{"write", "/job/rw/new", "by the container"},
			)
			want(t, got, "", "EROFS", "EROFS", "EROFS", "EROFS", "EROFS", "")
			if b, err := os.ReadFile(filepath.Join(dir, "canary")); err != nil || string(b) != "canary" {
				t.Errorf("the canary is %q, %v", b, err)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || string(b) != "by the container" {
				t.Errorf("the writable bind wrote %q, %v", b, err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
				t.Errorf("the directory has %v, %v", entries, err)
			}
		})
	}
}

// testSubmount: what is mounted inside a read-only source is not writable, or
// the container is not made.
func (s *suite) testSubmount(t *testing.T) {
	need.Root(t)
	spec := s.spec(sandbox.RoleAgent)
	dir := s.dir(t, spec.Identity)
	below := filepath.Join(dir, "below")
	mkdirOwned(t, below, spec.Identity)
	if err := unix.Mount("proctor-sandboxtest", below, "tmpfs", 0, "mode=0777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(below, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job"}}
	c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{})
	if err == nil {
		remove(t, c)
		got := s.try(t, spec, op{"write", "/job/below/new", "x"})
		want(t, got, "EROFS")
	}
	if entries, err := os.ReadDir(below); err != nil || len(entries) != 0 {
		t.Errorf("the submount has %v, %v", entries, err)
	}
	// The control: the same directory without its submount.
	spec = s.spec(sandbox.RoleAgent)
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: s.dir(t, spec.Identity), Target: "/job"}}
	want(t, s.try(t, spec, op{"list", "/job"}), "")
}

func mkdirOwned(t testing.TB, dir string, owner sandbox.Identity) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, int(owner.Host), int(owner.Host)); err != nil {
		t.Fatal(err)
	}
}

func writeOwned(t testing.TB, path, content string, owner sandbox.Identity) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, int(owner.Host), int(owner.Host)); err != nil {
		t.Fatal(err)
	}
}

func (s *suite) testRootAndTmpfs(t *testing.T) {
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleServe} {
		spec := s.spec(role)
		spec.Mounts = []sandbox.Mount{
			{Kind: sandbox.MountTmpfs, Target: "/tmp", Size: 8 << 20, Writable: true},
			{Kind: sandbox.MountTmpfs, Target: "/data", Size: 1 << 20, Writable: true, NoExec: true},
		}
		got := s.try(t, spec,
			op{"write", "/new", "x"},
			op{"mkdir", "/etc/new"},
			op{"exec", "/tmp/copy"},
			op{"remove", "/tmp/copy"},
			op{"fill", "/tmp/big", "16000000"},
			op{"write", "/data/file", "x"},
			op{"remove", "/data/file"},
			op{"fill", "/data/big", "2000000"},
		)
		refused := "EROFS"
		if unseen(spec) {
			refused = "EACCES" // gVisor looks at the owner first
		}
		want(t, got, refused, "EROFS", "", "", "ENOSPC", "", "", "ENOSPC")
		var filled int
		got[7].into(t, &filled)
		if filled > 1<<20 {
			t.Errorf("%s: a tmpfs of 1 MiB took %d bytes", role, filled)
		}
		spec = s.spec(role)
		spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountTmpfs, Target: "/data", Size: 8 << 20, Writable: true, NoExec: true}}
		if got := s.try(t, spec, op{"exec", "/data/copy"}); got[0].Err != "EACCES" {
			t.Errorf("%s: a noexec tmpfs gave %q", role, got[0].Err)
		}
	}
}

// testForbiddenSources: nothing is made of a source that holds the host or an
// engine, also through a link.
func (s *suite) testForbiddenSources(t *testing.T) {
	before := s.leftovers(t)
	dir := s.dir(t, s.f.Hostile)
	socket := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	sources := append([]string{"/", "/proc", "/proc/self", "/sys", "/dev", "/run", "/var/run", "/etc", socket, fifo, filepath.Join(dir, "missing")}, s.f.Forbidden...)
	for i, source := range sources {
		link := filepath.Join(dir, "link"+string(rune('a'+i)))
		if err := os.Symlink(source, link); err != nil {
			t.Fatal(err)
		}
		for _, m := range []sandbox.Mount{
			{Kind: sandbox.MountBind, Source: source, Target: "/job"},
			{Kind: sandbox.MountBind, Source: link, Target: "/job"},
			{Kind: sandbox.MountLayer, Source: source, Target: "/job", Writable: true, Size: 1 << 20},
		} {
			spec := s.spec(sandbox.RoleCheck, "exit", "0")
			spec.Mounts = []sandbox.Mount{m}
			if c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{}); err == nil {
				t.Errorf("a container with %+v was made", m)
				remove(t, c)
			}
		}
	}
	for name := range s.leftovers(t) {
		if !before[name] {
			t.Errorf("a refused mount left %s", name)
		}
	}
	ok := filepath.Join(dir, "ok")
	mkdirOwned(t, ok, s.f.Hostile)
	spec := s.spec(sandbox.RoleCheck, "exit", "0")
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: ok, Target: "/job"}}
	if got := s.run(t, spec); got.exit.Code != 0 {
		t.Errorf("the control ended with %+v", got.exit)
	}
}

// testSocket: a socket in a read-only bind can be connected to, and not removed.
func (s *suite) testSocket(t *testing.T) {
	spec := s.spec(sandbox.RoleAgent)
	dir := s.dir(t, spec.Identity)
	path := filepath.Join(dir, "supervisor.sock")
	answerOn(t, "unix", path)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/run/proctor"}}
	got := s.try(t, spec,
		op{"dial", "unix", "/run/proctor/supervisor.sock"},
		op{"remove", "/run/proctor/supervisor.sock"},
		op{"dial", "unix", "/run/proctor/supervisor.sock"},
	)
	want(t, got, "", "EROFS", "")
	var answer string
	if got[0].into(t, &answer); answer != "outside\n" {
		t.Errorf("the socket answered %q", answer)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// answerOn listens until the test ends and answers every connection.
func answerOn(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			// Closing with something unread would reset the connection.
			_, _ = conn.Read(make([]byte, 64))
			_, _ = conn.Write([]byte("outside\n"))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l
}

// testNetwork: nothing of the host's network is there, unless it was asked for.
func (s *suite) testNetwork(t *testing.T) {
	tcp := answerOn(t, "tcp", "127.0.0.1:0").Addr().String()
	abstract := "@" + s.newToken()
	answerOn(t, "unix", abstract)
	ops := []op{{"dial", "tcp", tcp}, {"dial", "unix", abstract}, {"interfaces"}, {"dial", "udp", "192.0.2.1:53"}}
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleCheck, sandbox.RoleServe} {
		got := s.try(t, s.spec(role), ops...)
		want(t, got, "ECONNREFUSED", "ECONNREFUSED", "", "ENETUNREACH")
		var names []string
		if got[2].into(t, &names); len(names) != 1 || names[0] != "lo" {
			t.Errorf("%s: the interfaces are %q", role, names)
		}
	}
	spec := s.spec(sandbox.RoleServe)
	spec.Network = sandbox.NetworkHost
	want(t, s.try(t, spec, ops[:3]...), "", "", "")
}

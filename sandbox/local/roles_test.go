package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
)

// playRole is what the test binary does as one of the tests' own programs.
func playRole(role string) int {
	var err error
	switch role {
	case "lying-runc":
		err = lyingRunc(os.Getenv("PROCTOR_TEST_LIE"), os.Getenv("PROCTOR_TEST_RUNC"))
	case "user":
		err = asUser()
	case "launcher":
		err = launcher()
	default:
		err = errors.New("unknown role " + role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	return 0
}

// lies are what a runtime may do other than it was told.
func lies() map[string]func(*specs.Spec) {
	without := func(t specs.LinuxNamespaceType) func(*specs.Spec) {
		return func(c *specs.Spec) {
			c.Linux.Namespaces = slices.DeleteFunc(c.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == t })
		}
	}
	// mount changes the mount at /p, which the spec wants read-only.
	mount := func(change func(*specs.Mount)) func(*specs.Spec) {
		return func(c *specs.Spec) {
			for i := range c.Mounts {
				if c.Mounts[i].Destination == "/p" {
					change(&c.Mounts[i])
				}
			}
		}
	}
	drop := func(options ...string) func(*specs.Mount) {
		return func(m *specs.Mount) {
			m.Options = slices.DeleteFunc(m.Options, func(o string) bool { return slices.Contains(options, o) })
		}
	}
	return map[string]func(*specs.Spec){
		"nothing":           func(*specs.Spec) {},
		"read-only root":    func(c *specs.Spec) { c.Root.Readonly = false },
		"capabilities":      func(c *specs.Spec) { c.Process.Capabilities.Bounding = []string{"CAP_CHOWN"} },
		"no-new-privileges": func(c *specs.Spec) { c.Process.NoNewPrivileges = false },
		"seccomp":           func(c *specs.Spec) { c.Linux.Seccomp = nil },
		"pid namespace": func(c *specs.Spec) {
			without(specs.PIDNamespace)(c)
			c.Mounts[slices.IndexFunc(c.Mounts, func(m specs.Mount) bool { return m.Type == "proc" })] = specs.Mount{Destination: "/proc", Type: "bind", Source: "/proc", Options: []string{"rbind"}}
		},
		"ipc namespace":    without(specs.IPCNamespace),
		"net namespace":    without(specs.NetworkNamespace),
		"uts namespace":    func(c *specs.Spec) { without(specs.UTSNamespace)(c); c.Hostname = "" },
		"cgroup namespace": without(specs.CgroupNamespace),
		"user namespace": func(c *specs.Spec) {
			without(specs.UserNamespace)(c)
			c.Linux.UIDMappings, c.Linux.GIDMappings = nil, nil
		},
		"user id":                  func(c *specs.Spec) { c.Process.User.UID = 0 },
		"group id":                 func(c *specs.Spec) { c.Process.User.GID = 0 },
		"supplementary groups":     func(c *specs.Spec) { c.Process.User.AdditionalGids = []uint32{0} },
		"id map":                   func(c *specs.Spec) { c.Linux.UIDMappings[1].Size = 2 },
		"mount is writable":        mount(drop("ro", "rro")),
		"mount has another source": mount(func(m *specs.Mount) { m.Source = "/etc" }),
		"mount is missing": func(c *specs.Spec) {
			c.Mounts = slices.DeleteFunc(c.Mounts, func(m specs.Mount) bool { return m.Destination == "/p" })
		},
		"mount allows setuid":   mount(drop("rnosuid")),
		"mount allows devices":  mount(drop("rnodev")),
		"mount allows programs": mount(drop("rnoexec")),
		"a mount too many": func(c *specs.Spec) {
			c.Mounts = append(c.Mounts, specs.Mount{Destination: "/mnt", Type: "bind", Source: "/var", Options: []string{"rbind", "ro", "rnosuid", "rnodev"}})
		},
		"a device": func(c *specs.Spec) {
			c.Mounts = append(c.Mounts, specs.Mount{Destination: "/dev/kmsg", Type: "bind", Source: "/dev/kmsg", Options: []string{"bind"}})
		},
		"memory limit":     func(c *specs.Spec) { c.Linux.Resources.Memory = nil },
		"processes limit":  func(c *specs.Spec) { c.Linux.Resources.Pids = nil; c.Process.Rlimits = c.Process.Rlimits[:2] },
		"cpu limit":        func(c *specs.Spec) { c.Linux.Resources.CPU = nil },
		"files limit":      func(c *specs.Spec) { c.Process.Rlimits = slices.Delete(c.Process.Rlimits, 1, 2) },
		"shown /proc/sys":  func(c *specs.Spec) { c.Linux.ReadonlyPaths = nil },
		"shown /proc/keys": func(c *specs.Spec) { c.Linux.MaskedPaths = nil },
	}
}

// lyingRunc runs the real runc on another bundle than the one it was given.
func lyingRunc(lie, real string) error {
	args := slices.Clone(os.Args)
	args[0] = real
	if at := slices.Index(args, "--bundle"); at > 0 {
		body, err := os.ReadFile(filepath.Join(args[at+1], "config.json"))
		if err != nil {
			return err
		}
		var c specs.Spec
		if err := json.Unmarshal(body, &c); err != nil {
			return err
		}
		lies()[lie](&c)
		c.Root.Path = filepath.Join(args[at+1], "rootfs")
		other := filepath.Join(args[at+1], "other")
		if body, err = json.Marshal(c); err != nil {
			return err
		}
		if err := errors.Join(os.Mkdir(other, 0o700), os.WriteFile(filepath.Join(other, "config.json"), body, 0o600)); err != nil {
			return err
		}
		args[at+1] = other
	}
	return syscall.Exec(real, args, os.Environ())
}

// launcher makes and starts the container that its environment describes, and
// waits to be killed.
func launcher() error {
	var spec sandbox.Spec
	if err := json.Unmarshal([]byte(os.Getenv("PROCTOR_TEST_SPEC")), &spec); err != nil {
		return err
	}
	e, err := New(Config{Home: os.Getenv("PROCTOR_TEST_HOME"), State: os.Getenv("PROCTOR_TEST_STATE"), Runc: os.Getenv("PROCTOR_TEST_RUNC"), Self: os.Getenv("PROCTOR_TEST_SELF")})
	if err != nil {
		return err
	}
	ctx := context.Background()
	in, hold, err := os.Pipe() // hold is closed by the kernel when this process is killed
	if err != nil {
		return err
	}
	c, err := e.Create(ctx, spec, sandbox.Streams{Stdin: in, Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	_ = in.Close()
	fmt.Println("created")
	if os.Getenv("PROCTOR_TEST_START") != "" {
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	_, err = c.Wait(ctx)
	_ = hold.Close()
	return err
}

package containerd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/containerd"
	"github.com/proctor-project/proctor/sandbox/containerd/containerdtest"
	"github.com/proctor-project/proctor/sandbox/runtimes"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// lying is the directory's name of a runtime that does not do what it is told:
// this test's own program, which its shim starts by that name.
const lying = "lying-runtime-"

func TestMain(m *testing.M) {
	if dir := filepath.Dir(os.Args[0]); strings.HasPrefix(filepath.Base(dir), lying) {
		os.Exit(lie(dir, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// tampered is an engine whose runtime changes its configuration before it makes
// the container. What the kernel shows must be seen there, so the configuration
// is put back; what a process takes on only at its start is in no other place.
func tampered(t testing.TB, d *containerdtest.Daemon, home, runtime string, how sandboxtest.Tamper) sandbox.Engine {
	t.Helper()
	if runtime == "runsc" && how == sandboxtest.TamperProcesses {
		return nil // its sandbox has a pid namespace of its own whatever the configuration says
	}
	dir, err := os.MkdirTemp("", lying)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"how": string(how), "real": runtimes.Find(runtime)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, filepath.Join(dir, runtime)); err != nil {
		t.Fatal(err)
	}
	cfg := containerd.Config{Address: d.Address, Home: home, Place: "conformance", Supervisor: supervisorID}
	if runtime == "runsc" {
		cfg.Runsc = filepath.Join(dir, runtime)
	} else {
		cfg.Runc = filepath.Join(dir, runtime)
	}
	e, err := containerd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// lie is the runtime's whole life.
func lie(dir string, args []string) int {
	how, errHow := os.ReadFile(filepath.Join(dir, "how"))
	real, errReal := os.ReadFile(filepath.Join(dir, "real"))
	if errHow != nil || errReal != nil {
		return 1
	}
	bundle := ""
	for i, a := range args {
		if a == "--bundle" && i+1 < len(args) {
			bundle = args[i+1]
		}
	}
	if bundle == "" { // not the making of a container
		return report(syscall.Exec(string(real), append([]string{string(real)}, args...), os.Environ()))
	}
	path := filepath.Join(bundle, "config.json")
	whole, err := os.ReadFile(path)
	if err != nil {
		return report(err)
	}
	var config map[string]any
	if err := json.Unmarshal(whole, &config); err != nil {
		return report(err)
	}
	changed := sandboxtest.Tamper(how)
	distort(config, args, changed)
	b, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return report(err)
	}
	cmd := exec.Command(string(real), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return report(err)
	}
	switch changed {
	case sandboxtest.TamperEnvironment, sandboxtest.TamperCommand, sandboxtest.TamperUnknown:
		return 0
	}
	return report(os.WriteFile(path, whole, 0o600))
}

func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func distort(config map[string]any, args []string, how sandboxtest.Tamper) {
	object := func(m map[string]any, name string) map[string]any { return m[name].(map[string]any) }
	process, linux := object(config, "process"), object(config, "linux")
	mounts := config["mounts"].([]any)
	last := mounts[len(mounts)-1].(map[string]any)
	without := func(kind string) {
		var left []any
		for _, n := range linux["namespaces"].([]any) {
			if n.(map[string]any)["type"] != kind {
				left = append(left, n)
			}
		}
		linux["namespaces"] = left
	}
	switch how {
	case sandboxtest.TamperCapability:
		process["capabilities"] = map[string]any{"bounding": []string{"CAP_CHOWN"}, "permitted": []string{"CAP_CHOWN"}}
	case sandboxtest.TamperPrivileges:
		process["noNewPrivileges"] = false
	case sandboxtest.TamperSeccomp:
		if i := slices.Index(args, "--oci-seccomp=true"); i >= 0 { // what gVisor goes by
			args[i] = "--oci-seccomp=false"
		} else {
			delete(linux, "seccomp")
		}
	case sandboxtest.TamperRoot:
		object(config, "root")["readonly"] = false
	case sandboxtest.TamperUser:
		process["user"] = map[string]any{"uid": 0, "gid": 0}
	case sandboxtest.TamperEnvironment:
		process["env"] = append(process["env"].([]any), "EXTRA=1")
	case sandboxtest.TamperMount:
		config["mounts"] = append(mounts, map[string]any{"destination": "/home", "type": "bind", "source": last["source"], "options": []string{"rbind", "ro", "nosuid", "nodev"}})
	case sandboxtest.TamperWritable:
		last["options"] = []string{"rbind", "rw", "nosuid", "nodev"}
	case sandboxtest.TamperNetwork:
		without("network")
		if i := slices.Index(args, "--network=none"); i >= 0 {
			args[i] = "--network=host"
		}
	case sandboxtest.TamperProcesses:
		without("pid")
	case sandboxtest.TamperMemory:
		delete(object(linux, "resources"), "memory")
	case sandboxtest.TamperPIDs:
		delete(object(linux, "resources"), "pids")
	case sandboxtest.TamperCommand:
		process["args"] = []string{"/bin/payload", "exit", "0"}
	case sandboxtest.TamperDevice:
		linux["devices"] = []any{map[string]any{"path": "/dev/extra", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}}
	case sandboxtest.TamperUnknown:
		linux["shareEverything"] = true
	}
}

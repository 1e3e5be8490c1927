package sandboxtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// Fixture is what the suite needs to know of an engine.
type Fixture struct {
	// Engine makes the engine under test, ready to run containers.
	Engine func(t testing.TB) sandbox.Engine
	// Hostile and Supervisor are the identities of agents and of supervisors.
	Hostile, Supervisor sandbox.Identity
	// Image makes an image of these files that the engine can run, unresolved,
	// and removes it after the test. An engine whose images have no
	// configuration ignores the last argument.
	Image func(t testing.TB, files []File, config ImageConfig) sandbox.Image
	// HasImageConfig says that the engine's images carry an ImageConfig.
	HasImageConfig bool
	// Dir makes a host directory that the owner's containers can reach and
	// write. nil makes a temporary one and gives it to Owner.Host, as root.
	Dir func(t testing.TB, owner sandbox.Identity) string
	// Forbidden are the engine's own sockets and directories: no mount may have
	// one of them as its source.
	Forbidden []string
	// Tampered makes an engine whose container maker silently does something
	// else than it was told. It returns nil where that cannot be arranged.
	Tampered func(t testing.TB, how Tamper) sandbox.Engine
	// Leftovers lists every container and volume that the engine holds now. nil
	// means that the engine keeps no list beside the host's processes and mounts.
	Leftovers func(t testing.TB) []string
	// ChildEnv is added to the environment of the launcher that is killed.
	ChildEnv []string
	// Waive is given to every spec (a development machine's old runtime).
	Waive []sandbox.Waiver
	// Runtime is that of agents and checks.
	Runtime string
}

// Tamper is one thing that a container maker does differently.
type Tamper string

// The ways to tamper. TamperNothing is the positive control.
const (
	TamperNothing     Tamper = "nothing"
	TamperCapability  Tamper = "capabilities are kept"
	TamperPrivileges  Tamper = "no-new-privileges is off"
	TamperSeccomp     Tamper = "seccomp is off"
	TamperRoot        Tamper = "the root is writable"
	TamperUser        Tamper = "the user is root"
	TamperEnvironment Tamper = "one environment entry more"
	TamperMount       Tamper = "one mount more"
	TamperWritable    Tamper = "a read-only mount is writable"
	TamperNetwork     Tamper = "the network is the host's"
	TamperProcesses   Tamper = "the pid namespace is the host's"
	TamperMemory      Tamper = "there is no memory limit"
	TamperPIDs        Tamper = "there is no pids limit"
	TamperCommand     Tamper = "the command is another"
	TamperDevice      Tamper = "one device more"
	TamperUnknown     Tamper = "the report has a field that nobody knows"
)

func tampers() []Tamper {
	return []Tamper{
		TamperNothing, TamperCapability, TamperPrivileges, TamperSeccomp, TamperRoot, TamperUser, TamperEnvironment, TamperMount,
		TamperWritable, TamperNetwork, TamperProcesses, TamperMemory, TamperPIDs, TamperCommand, TamperDevice, TamperUnknown,
	}
}

// File is one entry of a root file system. Parents come before children; a
// missing parent is a directory of root's, 0755.
type File struct {
	Path    string // absolute
	Content []byte
	Link    string // a symbolic link's target, instead of Content
	Mode    os.FileMode
}

// ImageConfig is what an image would like its containers to have.
type ImageConfig struct {
	Env        []string
	Entrypoint []string
	Cmd        []string
	User       string
	WorkingDir string
	Volumes    []string
	Healthy    []string // a health check's command
	StopSignal string
	Labels     map[string]string
}

// WriteFiles lays the files below a directory, for engines whose image is one.
func WriteFiles(t testing.TB, dir string, files []File) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(dir, f.Path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case f.Mode.IsDir():
			err = os.MkdirAll(path, f.Mode.Perm())
		case f.Link != "":
			err = os.Symlink(f.Link, path)
		default:
			err = os.WriteFile(path, f.Content, f.Mode.Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/ocispec"
)

// readBack reports what was made: from /proc of the created process, from its
// cgroup, and, for what the process only takes on when it starts the payload
// (arguments, environment, system call filter), from the config.json that the
// runtime was given. Problems are what can only be judged here.
func (e *Engine) readBack(b *bundle, pid int) (sandbox.Report, []string, error) {
	r := sandbox.Report{Name: b.spec.Name, Role: b.spec.Role, Runtime: b.spec.Runtime}
	st, err := kernel.ReadStatus(pid)
	if err != nil {
		return r, nil, err
	}
	r.HostUID, r.HostGID, r.Groups = st.UID, st.GID, st.Groups
	r.Capabilities = st.Capabilities
	r.NoNewPrivs = st.NoNewPrivs
	r.Limits = cgroup.Limits(cgroup.Of(b.spec))
	if err := kernel.ReadRlimits(pid, &r.Limits); err != nil {
		return r, nil, err
	}
	if err := readConfig(b, &r); err != nil {
		return r, nil, err
	}
	problems := e.checkMaps(b.spec.Identity, pid)
	more, err := e.readNamespaces(b, pid, &r)
	return r, append(problems, more...), err
}

// readNamespaces reports the namespaces, the network, the mounts and the filter.
func (e *Engine) readNamespaces(b *bundle, pid int, r *sandbox.Report) (problems []string, err error) {
	state, err := e.readState(b)
	if err != nil {
		return nil, err
	}
	r.Seccomp = state.filtered(b)
	if r.Namespaces, err = kernel.Namespaces(pid); err != nil {
		return nil, err
	}
	if problems, err = readMounts(b, pid, r); err != nil {
		return nil, err
	}
	r.Network = sandbox.NetworkHost
	if slices.Contains(r.Namespaces, "net") {
		r.Network = sandbox.NetworkNone
	}
	return problems, nil
}

// readConfig takes from the runtime's own input what /proc cannot show yet.
func readConfig(b *bundle, r *sandbox.Report) error {
	body, err := os.ReadFile(filepath.Join(b.dir, "config.json"))
	if err != nil {
		return err
	}
	var c specs.Spec
	if err := json.Unmarshal(body, &c); err != nil {
		return fmt.Errorf("read config.json: %w", err)
	}
	if c.Process == nil || c.Linux == nil {
		return errors.New("read config.json: process or linux is missing")
	}
	r.Env, r.Argv, r.Dir = c.Process.Env, c.Process.Args, c.Process.Cwd
	r.ImageDigest = c.Annotations["proctor.image"]
	return nil
}

// checkMaps compares the user namespace's ids.
func (e *Engine) checkMaps(id sandbox.Identity, pid int) []string {
	return ocispec.IDMapProblems(pid, e.hostMappings(id, e.euid), e.hostMappings(id, os.Getegid()))
}

package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/image-spec/identity"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/asked"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/ocispec"
)

// maxDocument bounds what is read of the runtime's files, in bytes.
const maxDocument = 4 << 20

// readBack makes the report from what containerd has recorded, what the runtime
// was given, and what the kernel says of the created process; or the list of
// everything that is not as it was asked.
func (e *Engine) readBack(ctx context.Context, c *Container) (sandbox.Report, error) {
	r := sandbox.Report{Runtime: runtimeName(c.spec.Runtime)}
	problems, err := e.readRecord(ctx, c, &r)
	if err != nil {
		return r, fmt.Errorf("read back: %w", err)
	}
	reads := []func(*Container, *sandbox.Report) ([]string, error){e.readGiven, e.readProcess}
	if onRunsc(c.spec) {
		reads = []func(*Container, *sandbox.Report) ([]string, error){e.readRunsc}
	}
	for _, read := range reads {
		more, err := read(c, &r)
		if err != nil {
			return r, fmt.Errorf("read back: %w", err)
		}
		problems = append(problems, more...)
	}
	problems = append(problems, sandbox.Compare(c.spec, r)...)
	errs := make([]error, 0, len(problems))
	for _, p := range append(problems, strict(r)...) {
		errs = append(errs, errors.New(p))
	}
	return r, errors.Join(errs...)
}

// strict is what this engine can give and not every one, so that Compare does
// not ask for it.
func strict(r sandbox.Report) []string {
	var problems []string
	if !slices.Contains(r.Namespaces, "cgroup") {
		problems = append(problems, "the cgroup namespace is shared")
	}
	for _, m := range r.Mounts {
		if !m.NoSuid || !m.NoDev {
			problems = append(problems, fmt.Sprintf("the mount at %q is not nosuid and nodev", m.Target))
		}
	}
	return problems
}

// readRecord takes the container's record: its labels, its configuration, and
// that its root file system is made over the image's layers and nothing else.
func (e *Engine) readRecord(ctx context.Context, c *Container, r *sandbox.Report) ([]string, error) {
	record, err := c.container.Info(ctx)
	if err != nil {
		return nil, err
	}
	r.Name, r.Role = record.ID, sandbox.Role(record.Labels[labelRole])
	layers, err := c.image.RootFS(ctx)
	if err != nil {
		return nil, err
	}
	snapshot, err := e.api.SnapshotService(record.Snapshotter).Stat(ctx, record.SnapshotKey)
	if err != nil {
		return nil, err
	}
	if snapshot.Parent == identity.ChainID(layers).String() {
		r.ImageDigest = c.image.Target().Digest.String()
	}
	var config map[string]any
	if err := json.Unmarshal(record.Spec.GetValue(), &config); err != nil {
		return nil, err
	}
	return c.differences("the record", config)
}

func (c *Container) differences(at string, got map[string]any) ([]string, error) {
	want, err := asked.Shape(c.config)
	if err != nil {
		return nil, err
	}
	return asked.Differences(at, want, got, nil), nil
}

// given is what runc has written down of a container: its own reading of the
// configuration, in its own form (libcontainer's), and where that lies.
type given struct {
	InitPid int `json:"init_process_pid"`
	Config  struct {
		Labels  []string `json:"labels"`
		Seccomp *struct {
			Syscalls []struct{} `json:"syscalls"`
		} `json:"seccomp"`
	} `json:"config"`
}

// readGiven takes what the runtime was really given, which a process takes on
// only when it starts the payload: arguments, environment, system call filter.
func (e *Engine) readGiven(c *Container, r *sandbox.Report) ([]string, error) {
	var state given
	if err := readJSON(filepath.Join(e.runcState(c.spec.Name), "state.json"), &state); err != nil {
		return nil, fmt.Errorf("runc's state: %w", err)
	}
	bundle := ""
	for _, l := range state.Config.Labels {
		if dir, ok := strings.CutPrefix(l, "bundle="); ok {
			bundle = dir
		}
	}
	if state.InitPid != c.pid() || !filepath.IsAbs(bundle) {
		return nil, errors.New("runc's state is not this container's")
	}
	filter := state.Config.Seccomp
	r.Seccomp = filter != nil && len(filter.Syscalls) >= len(c.config.Linux.Seccomp.Syscalls)
	return c.readBundle(bundle, r)
}

// readBundle takes the configuration that the runtime was given.
func (c *Container) readBundle(bundle string, r *sandbox.Report) ([]string, error) {
	path := filepath.Join(bundle, "config.json")
	var config map[string]any
	if err := readJSON(path, &config); err != nil {
		return nil, fmt.Errorf("the runtime's configuration: %w", err)
	}
	var spec specs.Spec
	if err := readJSON(path, &spec); err != nil || spec.Process == nil {
		return nil, fmt.Errorf("the runtime's configuration is incomplete: %w", err)
	}
	r.Env, r.Argv, r.Dir = spec.Process.Env, spec.Process.Args, spec.Process.Cwd
	return c.differences("the runtime's configuration", config)
}

func readJSON(path string, v any) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() || st.Size() > maxDocument {
		return fmt.Errorf("%s is not a regular file of at most %d bytes", path, maxDocument)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// readProcess asks the kernel about the created process.
func (e *Engine) readProcess(c *Container, r *sandbox.Report) ([]string, error) {
	pid := c.pid()
	st, err := kernel.ReadStatus(pid)
	if err != nil {
		return nil, err
	}
	r.HostUID, r.HostGID, r.Groups = st.UID, st.GID, st.Groups
	r.Capabilities, r.NoNewPrivs = st.Capabilities, st.NoNewPrivs
	r.Limits = cgroup.Limits(cgroup.Of(c.spec))
	if err := kernel.ReadRlimits(pid, &r.Limits); err != nil {
		return nil, err
	}
	if r.Namespaces, err = kernel.Namespaces(pid); err != nil {
		return nil, err
	}
	r.Network = sandbox.NetworkHost
	if slices.Contains(r.Namespaces, "net") {
		r.Network = sandbox.NetworkNone
	}
	inside, err := kernel.Mounts(pid)
	if err != nil {
		return nil, err
	}
	host, err := kernel.Mounts(os.Getpid())
	if err != nil {
		return nil, err
	}
	problems := ocispec.Table{Spec: c.spec, Host: host, Own: ocispec.Kernel, Lower: c.place.lower}.Read(inside, r)
	more, err := readRoot(pid, c.spec.Dir, r)
	return append(problems, more...), err
}

// readRoot looks into the container's root for what no mount shows: device
// files, and a link that leads to the working directory. A link to
// /proc/self/fd/N is how CVE-2024-21626 left the container.
func readRoot(pid int, dir string, r *sandbox.Report) ([]string, error) {
	root, err := os.OpenRoot(filepath.Join("/proc", strconv.Itoa(pid), "root"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	devices, err := fs.ReadDir(root.FS(), "dev")
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		path := "/dev/" + d.Name()
		if d.Type()&fs.ModeDevice != 0 && !ocispec.PlainDevice(path) {
			r.Devices = append(r.Devices, path)
		}
	}
	at := "."
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		at = filepath.Join(at, name)
		if st, err := root.Lstat(at); err != nil || !st.IsDir() {
			return []string{fmt.Sprintf("on the way to the working directory %s, /%s is not a directory", dir, at)}, nil
		}
	}
	return nil, nil
}

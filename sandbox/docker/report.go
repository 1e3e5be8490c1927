package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/asked"
)

// readBack inspects the created container and makes the report from what the
// daemon says, or the list of everything that is not as it was asked.
func (e *Engine) readBack(ctx context.Context, d *daemon, created client.ContainerCreateResult, req *request, image client.ImageInspectResult) (sandbox.Report, error) {
	got, err := e.api.ContainerInspect(ctx, created.ID, client.ContainerInspectOptions{})
	if err != nil {
		return sandbox.Report{}, fmt.Errorf("read back: %w", err)
	}
	var raw struct {
		Config     map[string]any
		HostConfig map[string]any
	}
	if err := json.Unmarshal(got.Raw, &raw); err != nil {
		return sandbox.Report{}, fmt.Errorf("read back: %w", err)
	}
	config, host, err := req.expected(image)
	if err != nil {
		return sandbox.Report{}, err
	}
	if labels, ok := raw.Config["Labels"].(map[string]any); ok {
		raw.Config["Labels"] = ownLabels(labels)
	}
	var problems []string
	problems = append(problems, asked.Differences("Config", config, raw.Config, addedToConfig(image))...)
	problems = append(problems, asked.Differences("HostConfig", host, raw.HostConfig, addedToHost(d))...)
	problems = append(problems, req.outside(got.Container)...)
	for _, w := range created.Warnings {
		problems = append(problems, "docker warns: "+w)
	}
	inside, err := e.insideImage(ctx, created.ID, req.spec, image)
	if err != nil {
		return sandbox.Report{}, err
	}
	problems = append(problems, inside...)
	made := report(req.spec, req.mounted, got.Container)
	if len(problems) == 0 {
		problems = sandbox.Compare(req.spec, made)
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = errors.New(p)
	}
	return made, errors.Join(errs...)
}

// expected is the request in the shape of an inspection.
func (req *request) expected(image client.ImageInspectResult) (config, host map[string]any, err error) {
	if config, err = asked.Shape(req.config); err != nil {
		return nil, nil, err
	}
	if host, err = asked.Shape(req.host); err != nil {
		return nil, nil, err
	}
	return config, host, nil
}

// addedToConfig is what a daemon takes over from the image and what is harmless
// there: nothing is published, built or executed from these.
func addedToConfig(image client.ImageInspectResult) map[string]func(any) bool {
	added := map[string]func(any) bool{
		"OnBuild": func(any) bool { return true },
	}
	if image.Config == nil {
		return added
	}
	// The image's interval and retries stay beside the word that turns it off.
	added["Healthcheck"] = func(v any) bool {
		check, ok := v.(map[string]any)
		return ok && reflect.DeepEqual(check["Test"], []any{"NONE"})
	}
	if len(image.Config.ExposedPorts) > 0 {
		added["ExposedPorts"] = func(any) bool { return true }
	}
	if len(image.Config.Shell) > 0 {
		added["Shell"] = func(any) bool { return true }
	}
	// imageAllows has made sure that each of them lies under a mount.
	added["Volumes"] = func(v any) bool {
		volumes, ok := v.(map[string]any)
		for path := range volumes {
			_, declared := image.Config.Volumes[path]
			ok = ok && declared
		}
		return ok
	}
	return added
}

// addedToHost is what a daemon fills in by itself.
func addedToHost(d *daemon) map[string]func(any) bool {
	return map[string]func(any) bool{
		// Without swap accounting the daemon says "unlimited"; memory itself is limited.
		"MemorySwap": func(v any) bool { return !d.info.SwapLimit && reflect.DeepEqual(v, float64(-1)) },
	}
}

// outside checks what the inspection says outside of the two configurations.
func (req *request) outside(got container.InspectResponse) []string {
	var problems []string
	differ := func(what string, is, must any) {
		if !reflect.DeepEqual(is, must) {
			problems = append(problems, fmt.Sprintf("%s is %q, and must be %q", what, is, must))
		}
	}
	differ("name", strings.TrimPrefix(got.Name, "/"), req.spec.Name)
	differ("image", got.Image, req.spec.Image.Digest)
	differ("command", append([]string{got.Path}, got.Args...), req.spec.Argv)
	differ("exec sessions", len(got.ExecIDs), 0)
	if got.State == nil || got.State.Status != container.StateCreated {
		problems = append(problems, "the container is not in the state created")
	}
	if got.NetworkSettings != nil {
		for name := range got.NetworkSettings.Networks {
			differ("network", name, string(req.host.NetworkMode))
		}
	}
	return append(problems, pointDifferences(req.mounted.points, got.Mounts)...)
}

func pointDifferences(want, got []container.MountPoint) []string {
	var problems []string
	left := map[string]container.MountPoint{}
	for _, p := range got {
		left[p.Destination] = p
	}
	if len(left) != len(got) {
		problems = append(problems, "two mounts have the same target")
	}
	for _, w := range want {
		g, ok := left[path.Clean(w.Destination)]
		if !ok {
			problems = append(problems, fmt.Sprintf("the mount at %q is missing", w.Destination))
			continue
		}
		delete(left, g.Destination)
		if w.Name != "" {
			g.Source = "" // where the daemon keeps its volume
		}
		g.Mode = "" // the options once more, as text
		if w.Destination = g.Destination; g != w {
			problems = append(problems, fmt.Sprintf("the mount at %q is %+v, and must be %+v", w.Destination, g, w))
		}
	}
	for _, target := range slices.Sorted(maps.Keys(left)) {
		problems = append(problems, fmt.Sprintf("there is a mount at %q that was not asked for (%s)", target, left[target].Source))
	}
	return problems
}

// report says what the daemon's inspection says. It is called only after
// readBack found no difference, so a field here is what the daemon will enforce.
func report(spec sandbox.Spec, m *mounted, got container.InspectResponse) sandbox.Report {
	h := got.HostConfig
	r := sandbox.Report{
		Name: strings.TrimPrefix(got.Name, "/"), Role: sandbox.Role(got.Config.Labels[labelRole]), ImageDigest: got.Image,
		NoNewPrivs:   slices.Contains(h.SecurityOpt, "no-new-privileges"),
		ReadOnlyRoot: h.ReadonlyRootfs, Namespaces: namespaces(h),
		Mounts: m.report, Argv: append([]string{got.Path}, got.Args...), Dir: got.Config.WorkingDir,
		Runtime: kindOfRuntime(spec.Runtime), Capabilities: capabilities(h),
	}
	user, group, _ := strings.Cut(got.Config.User, ":")
	r.HostUID, r.HostGID = parseID(user), parseID(group)
	for _, opt := range h.SecurityOpt {
		profile, ok := strings.CutPrefix(opt, "seccomp=")
		r.Seccomp = r.Seccomp || (ok && profile != "unconfined")
	}
	if h.NetworkMode.IsHost() {
		r.Network = sandbox.NetworkHost
	}
	for _, kv := range got.Config.Env {
		if strings.Contains(kv, "=") {
			r.Env = append(r.Env, kv)
		}
	}
	for _, dev := range h.Devices {
		r.Devices = append(r.Devices, dev.PathOnHost)
	}
	r.Limits = limits(h)
	return r
}

// parseID is never 0 for what it cannot read.
func parseID(s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return ^uint32(0)
	}
	return uint32(n)
}

func capabilities(h *container.HostConfig) []string {
	if h.Privileged || !slices.Contains(h.CapDrop, "ALL") {
		return append([]string{"the engine's default"}, h.CapAdd...)
	}
	return h.CapAdd
}

func namespaces(h *container.HostConfig) []string {
	own := []string{"mnt"}
	if h.PidMode == "" {
		own = append(own, "pid")
	}
	if h.IpcMode.IsPrivate() {
		own = append(own, "ipc")
	}
	if h.NetworkMode.IsNone() {
		own = append(own, "net")
	}
	if h.UTSMode == "" {
		own = append(own, "uts")
	}
	if h.CgroupnsMode.IsPrivate() {
		own = append(own, "cgroup")
	}
	return own
}

func limits(h *container.HostConfig) sandbox.Limits {
	l := sandbox.Limits{Memory: h.Memory, MilliCPUs: h.NanoCPUs / 1e6}
	if h.PidsLimit != nil && *h.PidsLimit > 0 {
		l.PIDs = *h.PidsLimit
	}
	for _, u := range h.Ulimits {
		if u.Name == "nofile" && u.Soft == u.Hard && u.Hard > 0 {
			l.OpenFiles = uint64(u.Hard)
		}
	}
	return l
}

package sandbox

import (
	"fmt"
	"slices"
)

// Compare names every difference between what was asked and what was made.
// Empty means that they are the same in everything that security rests on.
//
// It does not demand of every engine what only some can give: that a bind is
// nosuid and nodev, and a cgroup namespace. An engine that can, demands it
// itself.
func Compare(s Spec, r Report) []string {
	var problems []string
	for _, check := range reportChecks() {
		problems = append(problems, check(s, r)...)
	}
	return problems
}

func reportChecks() []func(Spec, Report) []string {
	return []func(Spec, Report) []string{
		compareWho, compareIDs, compareGroups, comparePrivileges, compareNamespaces, compareMounts, compareProcess,
		compareLimits, compareDevices,
	}
}

func differ[T comparable](what string, made, asked T) []string {
	if made == asked {
		return nil
	}
	return []string{fmt.Sprintf("%s is %v, and must be %v", what, made, asked)}
}

func compareWho(s Spec, r Report) []string {
	runtime := func(name string) string {
		if name == "" {
			return "runc"
		}
		return name
	}
	p := differ("name", r.Name, s.Name)
	p = append(p, differ("role", r.Role, s.Role)...)
	p = append(p, differ("image digest", r.ImageDigest, s.Image.Digest)...)
	return append(p, differ("runtime", runtime(r.Runtime), runtime(s.Runtime))...)
}

func compareIDs(s Spec, r Report) []string {
	return append(differ("user id", r.HostUID, s.Identity.Host), differ("group id", r.HostGID, s.Identity.Host)...)
}

// compareGroups accepts the identity's own group: docker names it again among
// the supplementary ones (its fix for CVE-2022-36109). With one identity for
// all, everybody is the operator, whose groups an ordinary user's namespace
// cannot drop (user_namespaces(7), "setgroups").
func compareGroups(s Spec, r Report) []string {
	if s.Identity.Inside == 0 && s.Waived(WaiveOneIdentity) {
		return nil
	}
	for _, g := range r.Groups {
		if g != s.Identity.Host {
			return []string{fmt.Sprintf("supplementary groups are %v, and must be none", r.Groups)}
		}
	}
	return nil
}

func comparePrivileges(_ Spec, r Report) []string {
	var p []string
	if len(r.Capabilities) > 0 {
		p = append(p, fmt.Sprintf("capabilities are %v, and must be none", r.Capabilities))
	}
	p = append(p, differ("no-new-privileges", r.NoNewPrivs, true)...)
	p = append(p, differ("seccomp filter", r.Seccomp, true)...)
	return append(p, differ("read-only root", r.ReadOnlyRoot, true)...)
}

func compareNamespaces(s Spec, r Report) []string {
	want := []string{"pid", "ipc", "uts", "mnt"}
	if s.Identity.Inside != s.Identity.Host {
		want = append(want, "user")
	}
	shared := s.Network == NetworkHost || s.Waived(WaiveSharedNetwork)
	if !shared {
		want = append(want, "net")
	}
	var p []string
	for _, n := range want {
		if !slices.Contains(r.Namespaces, n) {
			p = append(p, fmt.Sprintf("the %s namespace is shared", n))
		}
	}
	// A waiver permits a shared network that is still not the host's.
	return append(p, differ("network", r.Network, s.Network)...)
}

func compareMounts(s Spec, r Report) []string {
	var p []string
	made := map[string]MountReport{}
	for _, m := range r.Mounts {
		if _, twice := made[m.Target]; twice {
			p = append(p, fmt.Sprintf("two mounts at %q", m.Target))
		}
		made[m.Target] = m
	}
	for _, asked := range s.Mounts {
		m, ok := made[asked.Target]
		if !ok {
			p = append(p, fmt.Sprintf("the mount at %q is missing", asked.Target))
			continue
		}
		delete(made, asked.Target)
		what := fmt.Sprintf("the mount at %q: ", asked.Target)
		p = append(p, differ(what+"kind", m.Kind, asked.Kind)...)
		p = append(p, differ(what+"source", m.Source, asked.Source)...)
		p = append(p, differ(what+"writable", m.Writable, asked.Writable || asked.Kind == MountLayer)...)
		p = append(p, differ(what+"open below", m.OpenBelow, false)...)
		if asked.Kind == MountTmpfs {
			p = append(p, differ(what+"nosuid", m.NoSuid, true)...)
			p = append(p, differ(what+"nodev", m.NoDev, true)...)
		}
	}
	for target := range made {
		p = append(p, fmt.Sprintf("the mount at %q was not asked for", target))
	}
	slices.Sort(p)
	return p
}

// compareProcess: the environment's order says nothing.
func compareProcess(s Spec, r Report) []string {
	var p []string
	if !slices.Equal(r.Argv, s.Argv) {
		p = append(p, fmt.Sprintf("argv is %q, and must be %q", r.Argv, s.Argv))
	}
	made, asked := slices.Sorted(slices.Values(r.Env)), slices.Sorted(slices.Values(s.Env))
	if !slices.Equal(made, asked) {
		// The values are not shown: an environment may hold what no log should.
		p = append(p, "the environment is not the one that was asked for")
	}
	return append(p, differ("working directory", r.Dir, s.Dir)...)
}

// compareLimits: with the waiver a limit may be missing, but not another one.
func compareLimits(s Spec, r Report) []string {
	var p []string
	limit := func(what string, made, asked int64) {
		if made == 0 && s.Waived(WaiveNoLimits) {
			return
		}
		p = append(p, differ("limit of "+what, made, asked)...)
	}
	limit("memory", r.Limits.Memory, s.Limits.Memory)
	limit("processes", r.Limits.PIDs, s.Limits.PIDs)
	limit("cpu", r.Limits.MilliCPUs, s.Limits.MilliCPUs)
	limit("open files", int64(r.Limits.OpenFiles), int64(s.Limits.OpenFiles))
	return p
}

func compareDevices(_ Spec, r Report) []string {
	if len(r.Devices) > 0 {
		return []string{fmt.Sprintf("devices are %v, and must be none", r.Devices)}
	}
	return nil
}

package sandbox

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// maxGrace bounds how long a stopped container may hold up its session.
const maxGrace = 10 * time.Minute

// ValidSession reports whether a string can be a session id: 1 to 63 lower
// case letters, digits and dashes, not starting with a dash. It becomes a
// directory, a container, a volume and a cgroup name.
func ValidSession(id string) bool { return isLabel(id, 63) }

// isLabel reports whether s is 1 to max of [a-z0-9-], not starting with a dash.
func isLabel(s string, max int) bool {
	if s == "" || len(s) > max || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Validate reports everything that is wrong with a spec, whichever engine is to
// make it. It looks at the spec alone, not at the host.
func Validate(s Spec) error {
	var errs []error
	for _, check := range specChecks() {
		if err := check(s); err != nil {
			errs = append(errs, err)
		}
	}
	for _, m := range s.Mounts {
		for _, check := range mountChecks() {
			if err := check(s, m); err != nil {
				errs = append(errs, fmt.Errorf("mount at %q: %w", m.Target, err))
			}
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("invalid spec: %w", errors.Join(errs...))
	}
	return nil
}

func specChecks() []func(Spec) error {
	return []func(Spec) error{
		checkSession, checkRole, checkName, checkImage, checkArgv, checkEnv, checkDir, checkIdentity, checkTargets,
		checkLimits, checkNetwork, checkRuntime, checkTerminal, checkWaivers, checkHostname, checkGrace,
	}
}

func checkSession(s Spec) error {
	if !ValidSession(s.Session) {
		return fmt.Errorf("session %q is not 1 to 63 of a-z, 0-9 and dash", s.Session)
	}
	return nil
}

func checkRole(s Spec) error {
	switch s.Role {
	case RoleOpen, RoleServe, RoleAgent, RoleCheck, RoleRead, RoleSeal, RoleVerb:
		return nil
	}
	return fmt.Errorf("role %q is unknown", s.Role)
}

// checkName keeps containers of sessions apart: each has its session in its name.
func checkName(s Spec) error {
	rest, ok := strings.CutPrefix(s.Name, "proctor-"+s.Session+"-"+string(s.Role))
	if !ok || rest != "" && (rest[0] != '-' || !isLabel(rest[1:], 63)) {
		return fmt.Errorf("name %q is not proctor-%s-%s, with or without -<suffix>", s.Name, s.Session, s.Role)
	}
	return nil
}

func checkImage(s Spec) error {
	switch s.Image.Kind {
	case ImageSupervisor, ImageDir:
		if !cleanAbs(s.Image.Ref) {
			return fmt.Errorf("image %q is not a clean absolute path", s.Image.Ref)
		}
	case ImageRef:
		if s.Image.Ref == "" || s.Image.Ref[0] == '-' {
			return fmt.Errorf("image reference %q is not valid", s.Image.Ref)
		}
	case ImageHost:
		if !s.Role.Hostile() {
			return fmt.Errorf("role %s runs only the supervisor's own image", s.Role)
		}
	default:
		return fmt.Errorf("image kind %q is unknown", s.Image.Kind)
	}
	if s.Role.Hostile() == (s.Image.Kind == ImageSupervisor) {
		return fmt.Errorf("role %s does not run an image of kind %s", s.Role, s.Image.Kind)
	}
	return checkDigest(s.Image.Digest)
}

func checkDigest(d string) error {
	hexa, ok := strings.CutPrefix(d, "sha256:")
	if b, err := hex.DecodeString(hexa); !ok || err != nil || len(b) != 32 || hexa != strings.ToLower(hexa) {
		return fmt.Errorf("image digest %q is not sha256:<hex> (was the image resolved?)", d)
	}
	return nil
}

func checkArgv(s Spec) error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return errors.New("argv is empty")
	}
	for i, a := range s.Argv {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("argv[%d] holds a zero byte", i)
		}
	}
	return nil
}

func checkEnv(s Spec) error {
	seen := map[string]bool{}
	for i, e := range s.Env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t\n\x00") || strings.ContainsRune(e, 0) {
			return fmt.Errorf("environment entry %d is not NAME=value", i)
		}
		if seen[name] {
			return fmt.Errorf("environment has %s twice", name)
		}
		seen[name] = true
	}
	return nil
}

func checkDir(s Spec) error {
	if !cleanAbs(s.Dir) {
		return fmt.Errorf("working directory %q is not a clean absolute path", s.Dir)
	}
	return nil
}

// checkIdentity: no process is host root, and none is its namespace's root
// unless the operator agreed to one identity for all.
func checkIdentity(s Spec) error {
	id := s.Identity
	switch {
	case id.Host == 0:
		return errors.New("identity is host root")
	case id.Inside == 0 && !s.Waived(WaiveOneIdentity):
		return fmt.Errorf("identity is the container's root, without the waiver %s", WaiveOneIdentity)
	case id.Inside == 0 || id.Inside == id.Host:
		return nil
	case id.HostRoot == 0:
		return errors.New("the namespace's root is host root")
	case id.HostRoot == id.Host:
		return errors.New("the namespace's root is the identity itself")
	}
	return nil
}

func checkLimits(s Spec) error {
	l := s.Limits
	if l.Memory < 1<<20 || l.PIDs < 1 || l.MilliCPUs < 10 || l.OpenFiles < 3 {
		return fmt.Errorf("limits %+v: each is needed (at least 1 MiB, 1 process, 10 thousandths of a core, 3 files)", l)
	}
	return nil
}

func checkNetwork(s Spec) error {
	switch {
	case s.Network == NetworkNone, s.Network == NetworkHost && s.Role == RoleServe:
		return nil
	}
	return fmt.Errorf("network %q is not for role %s", s.Network, s.Role)
}

func checkRuntime(s Spec) error {
	if s.Runtime == "" || isLabel(strings.ReplaceAll(s.Runtime, ".", "-"), 63) {
		return nil
	}
	return fmt.Errorf("runtime %q is not a runtime's name", s.Runtime)
}

func checkTerminal(s Spec) error {
	if s.Terminal && s.Role != RoleAgent {
		return fmt.Errorf("role %s has no terminal", s.Role)
	}
	return nil
}

func checkWaivers(s Spec) error {
	for i, w := range s.Waive {
		switch w {
		case WaiveRuntimeFloor, WaiveOneIdentity, WaiveNoLimits, WaiveSharedNetwork:
		default:
			return fmt.Errorf("waiver %q is unknown", w)
		}
		for _, other := range s.Waive[:i] {
			if other == w {
				return fmt.Errorf("waiver %q is there twice", w)
			}
		}
	}
	return nil
}

func checkHostname(s Spec) error {
	if s.Hostname == "" || isLabel(s.Hostname, 63) {
		return nil
	}
	return fmt.Errorf("hostname %q is not valid", s.Hostname)
}

func checkGrace(s Spec) error {
	if s.Grace < 0 || s.Grace > maxGrace {
		return fmt.Errorf("grace %s is not between 0 and %s", s.Grace, maxGrace)
	}
	return nil
}

// cleanAbs: the path is absolute, has no . or .. or double slash in it, and
// can be given to the kernel.
func cleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsRune(p, 0)
}

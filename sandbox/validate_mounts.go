package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

func mountChecks() []func(Spec, Mount) error {
	return []func(Spec, Mount) error{
		checkKind, checkSource, checkTarget, checkSize, checkSecrets, checkWritable,
	}
}

// checkTargets: two mounts at one place hide each other.
func checkTargets(s Spec) error {
	seen := map[string]bool{}
	for _, m := range s.Mounts {
		if seen[m.Target] {
			return fmt.Errorf("two mounts at %q", m.Target)
		}
		seen[m.Target] = true
	}
	return nil
}

func checkKind(_ Spec, m Mount) error {
	switch m.Kind {
	case MountBind, MountVolume, MountTmpfs, MountLayer:
		return nil
	}
	return fmt.Errorf("kind %q is unknown", m.Kind)
}

func checkSource(_ Spec, m Mount) error {
	switch m.Kind {
	case MountBind, MountLayer:
		if !cleanAbs(m.Source) {
			return fmt.Errorf("source %q is not a clean absolute path", m.Source)
		}
		if within(m.Source, "/proc") || within(m.Source, "/sys") || within(m.Source, "/dev") || m.Source == "/" {
			return fmt.Errorf("source %q is the kernel's or the whole host", m.Source)
		}
	case MountVolume:
		if m.Source == "" || strings.ContainsAny(m.Source, "/\x00") {
			return fmt.Errorf("source %q is not a volume's name", m.Source)
		}
	case MountTmpfs:
		if m.Source != "" {
			return fmt.Errorf("a tmpfs has no source %q", m.Source)
		}
	}
	return nil
}

// checkTarget keeps mounts off the places that the engine itself fills.
func checkTarget(_ Spec, m Mount) error {
	if !cleanAbs(m.Target) || m.Target == "/" {
		return errors.New("the target is not a clean absolute path below /")
	}
	for _, own := range []string{"/proc", "/sys", "/dev"} {
		if within(m.Target, own) {
			return fmt.Errorf("%s is the engine's own", own)
		}
	}
	return nil
}

func checkSize(_ Spec, m Mount) error {
	sized := m.Kind == MountTmpfs || m.Kind == MountLayer
	if sized != (m.Size > 0) || m.Size < 0 {
		return fmt.Errorf("size %d (a tmpfs or layer needs one, others have none)", m.Size)
	}
	return nil
}

// secrets are the places of keys and control, and the roles that have them.
func secrets() map[string][]Role {
	return map[string][]Role{
		PartRootKeys.Target():   {RoleOpen, RoleSeal, RoleVerb},
		PartLedgerKeys.Target(): {RoleOpen, RoleSeal, RoleVerb},
		PartLedger.Target():     {RoleOpen, RoleServe, RoleSeal, RoleVerb},
		PartCache.Target():      {RoleOpen, RoleServe, RoleSeal, RoleVerb},
		PartSession.Target():    {RoleOpen, RoleServe, RoleSeal, RoleVerb},
	}
}

// checkSecrets: a role sees only its own parts of keys and control, each at its
// own place. (That no other source resolves to them is for whoever knows the
// host's paths.)
func checkSecrets(s Spec, m Mount) error {
	for target, roles := range secrets() {
		if !within(m.Target, target) && !within(target, m.Target) {
			continue
		}
		if m.Target != target {
			return fmt.Errorf("it covers or lies in %s", target)
		}
		for _, r := range roles {
			if r == s.Role {
				return nil
			}
		}
		return fmt.Errorf("role %s never has %s", s.Role, target)
	}
	return nil
}

// checkWritable: after the agent nothing writes the product.
func checkWritable(s Spec, m Mount) error {
	if !m.Writable || m.Kind == MountTmpfs || m.Kind == MountLayer {
		return nil
	}
	if s.Role == RoleCheck || s.Role == RoleRead {
		return fmt.Errorf("role %s writes to no %s", s.Role, m.Kind)
	}
	return nil
}

// within reports whether a clean path is dir or lies below it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

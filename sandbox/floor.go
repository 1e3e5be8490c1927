package sandbox

import (
	"fmt"
	"regexp"
	"strconv"
)

// release is a version of runc as the project itself releases it.
type release struct {
	major, minor, patch int
	rc                  int // 0 is the release itself
}

// runcFloors are the first release of each branch that has the fixes for
// CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881 (container escapes through
// masked paths, /dev/console and /proc writes; runc's advisories of
// 2025-11-05) and, being later, for CVE-2024-21626.
func runcFloors() []release {
	return []release{{1, 2, 8, 0}, {1, 3, 3, 0}, {1, 4, 0, 3}}
}

// before reports whether a is an older release than b of the same branch.
func (a release) before(b release) bool {
	if a.patch != b.patch {
		return a.patch < b.patch
	}
	if a.rc == 0 || b.rc == 0 {
		return a.rc != 0 && b.rc == 0
	}
	return a.rc < b.rc
}

func releaseVersion() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})(?:-rc\.?([0-9]{1,4}))?$`)
}

// parseRelease reads a version as the project itself releases it. Anything
// after that (+ds1, ~deb12u1, -0ubuntu1) is a distribution's build.
func parseRelease(v string) (release, bool) {
	m := releaseVersion().FindStringSubmatch(v)
	if m == nil {
		return release{}, false
	}
	n := func(i int) int { x, _ := strconv.Atoi(m[i]); return x } // at most 4 digits, or "" for no rc
	return release{n(1), n(2), n(3), n(4)}, true
}

// RuncFloor is "ok", or why a runc of this version is not known to have the
// fixes. A distribution backports them without changing the version, so its
// builds are unknown, not old.
func RuncFloor(version string) string {
	got, ok := parseRelease(version)
	if !ok {
		return fmt.Sprintf("runc %s: distribution build, unknown", version)
	}
	floors := runcFloors()
	for _, f := range floors {
		if got.major != f.major || got.minor != f.minor {
			continue
		}
		if got.before(f) {
			return fmt.Sprintf("runc %s is older than %s", version, f)
		}
		return "ok"
	}
	last := floors[len(floors)-1]
	if got.major > last.major || got.major == last.major && got.minor > last.minor {
		return "ok"
	}
	return fmt.Sprintf("runc %s is older than %s", version, floors[0])
}

func (a release) String() string {
	s := fmt.Sprintf("%d.%d.%d", a.major, a.minor, a.patch)
	if a.rc != 0 {
		s += fmt.Sprintf("-rc.%d", a.rc)
	}
	return s
}

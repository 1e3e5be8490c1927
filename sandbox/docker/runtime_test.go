package docker

import (
	"testing"

	"github.com/moby/moby/api/types/system"
)

func TestFloor(t *testing.T) {
	for _, tc := range []struct{ version, want string }{
		{"v1.3.3-0-gd842d771", "ok"},
		{"v1.4.0-rc.2-0-gabcdef0", "runc 1.4.0-rc.2 is older than 1.4.0-rc.3"},
		{"v1.1.12-0-g51d5e946", "runc 1.1.12 is older than 1.2.8"},
		// Not from exactly the tag: what is in it cannot be told.
		{"v1.3.3-12-gd842d771", "runc v1.3.3-12-gd842d771: distribution build, unknown"},
		{"1.3.3-0-gzz", "runc 1.3.3-0-gzz: distribution build, unknown"},
		{"1.1.5+ds1-1+deb12u1", "runc 1.1.5+ds1-1+deb12u1: distribution build, unknown"},
		{"51d5e94601ceffbbd85688df1c928ecccbfa4685", "runc 51d5e94601ceffbbd85688df1c928ecccbfa4685: distribution build, unknown"},
		{"1.3.3", "ok"},
		{"", "runc: the daemon does not say which version it is, unknown"},
	} {
		info := system.Info{DefaultRuntime: "runc", RuncCommit: system.Commit{ID: tc.version}}
		if got := floor("runc", runtimeVersion(t.Context(), info, "runc", "runc")); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.version, got, tc.want)
		}
	}
	// What is known of the default runtime says nothing of another one.
	info := system.Info{DefaultRuntime: "runc", RuncCommit: system.Commit{ID: "1.3.3"}}
	if got := floor("runc", runtimeVersion(t.Context(), info, "other", "other")); got == "ok" {
		t.Errorf("an unknown runtime is %q", got)
	}
	if got := floor("runsc", "release-20260101"); got == "ok" {
		t.Errorf("runsc is %q", got)
	}
}

func TestSuitable(t *testing.T) {
	good := func() system.Info {
		return system.Info{OSType: "linux", OperatingSystem: "Debian GNU/Linux 12", SecurityOptions: []string{"name=seccomp,profile=default", "name=cgroupns"}}
	}
	if err := suitable(good()); err != nil {
		t.Errorf("the control: %v", err)
	}
	for name, change := range map[string]func(*system.Info){
		"rootless":     func(i *system.Info) { i.SecurityOptions = append(i.SecurityOptions, "name=rootless") },
		"userns-remap": func(i *system.Info) { i.SecurityOptions = append(i.SecurityOptions, "name=userns") },
		"desktop":      func(i *system.Info) { i.OperatingSystem = "Docker Desktop" },
		"windows":      func(i *system.Info) { i.OSType = "windows" },
		"no seccomp":   func(i *system.Info) { i.SecurityOptions = nil },
	} {
		info := good()
		change(&info)
		if err := suitable(info); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

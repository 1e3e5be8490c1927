package local

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMountinfo(t *testing.T) {
	const text = `36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue
30 22 0:27 / / rw - tmpfs tmpfs
`
	got, err := parseMountinfo(strings.NewReader(text))
	want := []mountLine{
		{device: "98:0", root: "/mnt1", point: "/mnt 2", options: []string{"rw", "noatime"}, fsType: "ext3", source: "/dev/root", super: []string{"rw", "errors=continue"}},
		{device: "0:27", root: "/", point: "/", options: []string{"rw"}, fsType: "tmpfs", source: "tmpfs"},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(mountLine{})); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, bad := range []string{"x", "36 35 98:0 /mnt1 /mnt2 rw ext3 /dev/root", "36 35 98:0 /a /b rw - ext3"} {
		if m, err := parseMountinfo(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, m)
		}
	}
}

func TestPlaces(t *testing.T) {
	mounts := []mountLine{
		{device: "1:0", root: "/", point: "/"},
		{device: "2:0", root: "/", point: "/home"},
		{device: "3:0", root: "/", point: "/home/a"},
		{device: "1:0", root: "/var/x", point: "/srv"},
	}
	for path, want := range map[string]place{
		"/etc": {"1:0", "/etc"}, "/home": {"2:0", "/"}, "/home/b": {"2:0", "/b"}, "/home/a/c": {"3:0", "/c"}, "/homes": {"1:0", "/homes"}, "/srv/y": {"1:0", "/var/x/y"},
	} {
		if got, ok := placeOf(mounts, path); !ok || got != want {
			t.Errorf("placeOf(%s) = %v, %v, want %v", path, got, ok, want)
		}
	}
	if got := pathOf(mounts, place{"1:0", "/var/x/y"}); got != "/srv/y" {
		t.Errorf("pathOf = %s", got)
	}
	if got := pathOf(mounts, place{"9:0", "/"}); got != "" {
		t.Errorf("pathOf of an unknown device = %s", got)
	}
}

func TestRunscFloor(t *testing.T) {
	for version, want := range map[string]string{
		"release-20260901.0":                 "ok",
		"v0.0.0-20260905035102-160fafc42237": "ok",
		"release-20221219.0":                 "runsc release-20221219.0 is older than release-20240101",
		"v0.0.0-20221219208-x":               "runsc v0.0.0-20221219208-x is older than release-20240101",
		"0.0~20221219.0-1":                   "runsc 0.0~20221219.0-1: distribution build, unknown",
		"release-new":                        "runsc release-new: distribution build, unknown",
		"":                                   "runsc : distribution build, unknown",
	} {
		if got := runscFloor(version); got != want {
			t.Errorf("runscFloor(%q) = %q, want %q", version, got, want)
		}
	}
}

func FuzzParseMountinfo(f *testing.F) {
	for _, s := range []string{"", "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\n", "1 2 3 4 5 6 - - -\n", "1 2 3 4 5 6 \\134 - a b", "\\400"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := parseMountinfo(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range mounts {
			if len(m.options) == 0 {
				t.Fatalf("%+v has no options", m)
			}
			if p, ok := placeOf(mounts, m.point); ok && p.device == "" && m.device != "" {
				t.Fatalf("%+v lies in no device", m)
			}
		}
	})
}

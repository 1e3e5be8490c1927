package kernel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMountinfo(t *testing.T) {
	const text = `36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue
30 22 0:27 / / rw - tmpfs tmpfs
`
	got, err := ParseMountinfo(strings.NewReader(text))
	want := []Mount{
		{Device: "98:0", Root: "/mnt1", Point: "/mnt 2", Options: []string{"rw", "noatime"}, FSType: "ext3", Source: "/dev/root", Super: []string{"rw", "errors=continue"}},
		{Device: "0:27", Root: "/", Point: "/", Options: []string{"rw"}, FSType: "tmpfs", Source: "tmpfs"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, bad := range []string{"x", "36 35 98:0 /mnt1 /mnt2 rw ext3 /dev/root", "36 35 98:0 /a /b rw - ext3"} {
		if m, err := ParseMountinfo(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, m)
		}
	}
}

func TestPlaces(t *testing.T) {
	mounts := []Mount{
		{Device: "1:0", Root: "/", Point: "/"},
		{Device: "2:0", Root: "/", Point: "/home"},
		{Device: "3:0", Root: "/", Point: "/home/a"},
		{Device: "1:0", Root: "/var/x", Point: "/srv"},
	}
	for path, want := range map[string]Place{
		"/etc": {"1:0", "/etc"}, "/home": {"2:0", "/"}, "/home/b": {"2:0", "/b"}, "/home/a/c": {"3:0", "/c"}, "/homes": {"1:0", "/homes"}, "/srv/y": {"1:0", "/var/x/y"},
	} {
		if got, ok := PlaceOf(mounts, path); !ok || got != want {
			t.Errorf("PlaceOf(%s) = %v, %v, want %v", path, got, ok, want)
		}
	}
	if got := PathOf(mounts, Place{"1:0", "/var/x/y"}); got != "/srv/y" {
		t.Errorf("PathOf = %s", got)
	}
	if got := PathOf(mounts, Place{"9:0", "/"}); got != "" {
		t.Errorf("PathOf of an unknown device = %s", got)
	}
}

func FuzzParseMountinfo(f *testing.F) {
	for _, s := range []string{"", "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\n", "1 2 3 4 5 6 - - -\n", "1 2 3 4 5 6 \\134 - a b", "\\400"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := ParseMountinfo(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range mounts {
			if len(m.Options) == 0 {
				t.Fatalf("%+v has no options", m)
			}
			if p, ok := PlaceOf(mounts, m.Point); ok && p.Device == "" && m.Device != "" {
				t.Fatalf("%+v lies in no device", m)
			}
		}
	})
}

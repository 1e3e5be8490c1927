package userfile

import "testing"

func TestMoreGroups(t *testing.T) {
	for _, tc := range []struct {
		name, passwd, group string
		problems            int
	}{
		{"nothing", "", "", 0},
		{"honest", "root:x:0:0::/:/\nnode:x:1000:1000::/:/\n", "root:x:0:root\nnode:x:1000:node\n", 0},
		{"others' groups", "a:x:5:5::/:/\n", "docker:x:999:a\n", 0},
		{"member by name", "node:x:1000:1000::/:/\n", "docker:x:999:a,node\n", 1},
		{"member by number", "", "docker:x:999:1000\n", 1},
		{"user named as the id", "1000:x:0:0::/:/\n", "", 1},
		{"group named as the id", "", "1000:x:0:\n", 1},
		{"second name", "a:x:1000:0::/:/\nb:x:1000:0::/:/\r\n", "wheel:x:10:b\r\n", 1},
		{"malformed", "x\n::\nnode:x:1000", "docker:x:999:node", 1},
	} {
		if got := MoreGroups(tc.passwd, tc.group, "1000"); len(got) != tc.problems {
			t.Errorf("%s: %q, want %d problems", tc.name, got, tc.problems)
		}
	}
}

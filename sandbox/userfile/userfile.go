package userfile

import (
	"fmt"
	"strings"
)

// Max bounds an image's /etc/passwd and /etc/group, in bytes.
const Max = 1 << 20

// MoreGroups lists what passwd(5) and group(5) say that would make the id
// another one or a member of another group.
func MoreGroups(passwd, group, id string) []string {
	var problems []string
	names := map[string]bool{id: true}
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		switch {
		case len(f) < 3:
		case f[2] == id:
			names[f[0]] = true
		case f[0] == id:
			problems = append(problems, fmt.Sprintf("the image has a user named %s with the id %q", id, f[2]))
		}
	}
	for line := range strings.Lines(group) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if len(f) < 3 || f[2] == id {
			continue
		}
		if f[0] == id {
			problems = append(problems, fmt.Sprintf("the image has a group named %s with the id %q", id, f[2]))
		}
		for _, member := range strings.Split(strings.Join(f[3:], ":"), ",") {
			if names[strings.TrimSpace(member)] {
				problems = append(problems, fmt.Sprintf("the image makes the user %s a member of group %q", id, f[0]))
			}
		}
	}
	return problems
}

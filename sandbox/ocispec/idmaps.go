package ocispec

import (
	"fmt"
	"os"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// IDMapProblems compares a process's user namespace with the ids that it must
// have, which a sandbox.Report has no field for: an id too many is somebody
// else's file within reach.
func IDMapProblems(pid int, uids, gids []specs.LinuxIDMapping) []string {
	var problems []string
	for file, want := range map[string][]specs.LinuxIDMapping{"uid_map": uids, "gid_map": gids} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		ok := len(lines) == len(want)
		for i := 0; ok && i < len(lines); i++ {
			var got specs.LinuxIDMapping
			_, err := fmt.Sscan(lines[i], &got.ContainerID, &got.HostID, &got.Size)
			ok = err == nil && got == want[i]
		}
		if !ok {
			problems = append(problems, fmt.Sprintf("%s is %q, want %v", file, b, want))
		}
	}
	return problems
}

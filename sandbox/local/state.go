package local

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// runcState is what runc has written down of a container: its own reading of
// config.json, in its own form (libcontainer's configs.Config).
type runcState struct {
	Config struct {
		Seccomp *struct {
			Syscalls []struct{} `json:"syscalls"`
		} `json:"seccomp"`
	} `json:"config"`
}

func (e *Engine) readState(b *bundle) (runcState, error) {
	var s runcState
	body, err := os.ReadFile(filepath.Join(e.runtimeRoot(b.spec.Session, b.spec.Runtime), b.spec.Name, "state.json"))
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read runc's state: %w", err)
	}
	return s, nil
}

// filtered says whether the container will have a system call filter. runc
// installs it at the last moment before the payload; until then it is in its
// state only.
func (s runcState) filtered(b *bundle) bool {
	f := s.Config.Seccomp
	return f != nil && len(f.Syscalls) >= len(b.config.Linux.Seccomp.Syscalls)
}

package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// Runtime is the name that picks it.
const Runtime = "runsc"

// Option is one of runsc's, without its dashes.
type Option struct{ Name, Value string }

// Options are those of every command for the container.
func Options(spec sandbox.Spec) []Option {
	overlay := "none"
	if size := layerSize(spec); size > 0 {
		overlay = fmt.Sprintf("all:memory,size=%d", size)
	}
	return []Option{
		{"platform", "systrap"},
		{"network", "none"},     // own loopback only
		{"host-uds", "open"},    // our sockets can be connected to
		{"oci-seccomp", "true"}, // else config.json's filter has no effect
		{"overlay2", overlay},
	}
}

func layerSize(spec sandbox.Spec) int64 {
	var size int64
	for _, m := range spec.Mounts {
		if m.Kind == sandbox.MountLayer {
			size = max(size, m.Size)
		}
	}
	return size
}

// Refusals are what gVisor cannot give.
func Refusals(spec sandbox.Spec) []string {
	var problems []string
	if spec.Network != sandbox.NetworkNone {
		problems = append(problems, "runsc has no network here but its own loopback")
	}
	layer, writable := false, false
	for _, m := range spec.Mounts {
		layer = layer || m.Kind == sandbox.MountLayer
		writable = writable || m.Kind == sandbox.MountBind && m.Writable
	}
	if layer && writable {
		problems = append(problems, "runsc cannot have a throw-away layer beside a writable mount")
	}
	return problems
}

// State is what runsc has written down of a container.
type State struct {
	Spec     specs.Spec `json:"spec"`
	Bundle   string     `json:"bundleDir"`
	GoferPid int        `json:"goferPid"`
	Sandbox  struct {
		Pid int `json:"pid"`
	} `json:"sandbox"`
}

// ReadState reads it from runsc's root directory.
func ReadState(root, name string) (State, error) {
	var s State
	body, err := os.ReadFile(filepath.Join(root, name+"_sandbox:"+name+".state"))
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err == nil && (s.Spec.Process == nil || s.Spec.Root == nil || s.Spec.Linux == nil || s.Spec.Linux.Resources == nil || s.GoferPid < 2) {
		err = errors.New("it is incomplete")
	}
	if err != nil {
		return s, fmt.Errorf("read runsc's state: %w", err)
	}
	return s, nil
}

// RemoveLeftovers removes what runsc leaves in its root when its containers are
// gone: an empty network namespace that it has mounted there for --network=none.
func RemoveLeftovers(root string) {
	path := filepath.Join(root, "null-netns")
	_ = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	_ = os.Remove(path)
}

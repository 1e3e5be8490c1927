package cgroup

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/proctor-project/proctor/sandbox/kernel"
)

// Kill kills everything in the cgroup and below it and waits for its end.
func Kill(ctx context.Context, path string) error {
	dirs, err := Dirs(path)
	if err != nil {
		return err
	}
	for _, top := range dirs {
		err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil //nolint:nilerr // it vanished, which is what is wanted
			}
			return killIn(ctx, p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// killIn kills the cgroup's processes until there are none: one may fork while
// the list is read. Each round waits for the ends of those it has killed.
func killIn(ctx context.Context, dir string) error {
	for {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || len(b) == 0 {
			return nil // it vanished, which is what is wanted
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for line := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(line)
			if err != nil || pid <= 1 {
				return fmt.Errorf("cgroup %s has a process %q", dir, line)
			}
			if err := kernel.KillAndAwait(ctx, pid); err != nil {
				return err
			}
		}
	}
}

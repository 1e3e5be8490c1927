package inside

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// probeName is created where a write must succeed and removed at once; where a
// write must fail, nothing is left behind if it does not.
const probeName = ".proctor-probe"

// prove holds the mounts against what the launcher asked for, before a payload
// runs: a runtime that ignores an option does so without a word (runsc mounts
// "rro" alone read-write, Docker drops a volume's subpath).
func prove(cfg Config) error {
	var errs []error
	for _, dir := range cfg.ReadOnly {
		errs = append(errs, proveReadOnly(dir))
	}
	for _, dir := range cfg.Writable {
		errs = append(errs, proveWritable(dir))
	}
	for dir, want := range cfg.Entries {
		errs = append(errs, proveEntries(dir, want))
	}
	return errors.Join(errs...)
}

func proveReadOnly(dir string) error {
	err := touch(dir)
	switch {
	case errors.Is(err, unix.EROFS):
		return nil
	case err == nil:
		return fmt.Errorf("mount %q is writable, and must be read-only", dir)
	default:
		return fmt.Errorf("probe mount %q: %w, want EROFS", dir, err)
	}
}

func proveWritable(dir string) error {
	// A directory whose own mode refuses the write is still a writable mount.
	err := touch(dir)
	if err == nil || errors.Is(err, unix.EACCES) {
		return nil
	}
	return fmt.Errorf("probe mount %q: %w", dir, err)
}

func touch(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	name := probeName + "-" + strconv.Itoa(os.Getpid())
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_ = f.Close()
	return root.Remove(name)
}

// proveEntries notices an overlay over a directory that it may not read: that
// mounts without an error and looks empty.
func proveEntries(dir string, want int) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("count entries: %w", err)
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("count entries of %q: %w", dir, err)
	}
	if len(names) != want {
		return fmt.Errorf("mount %q shows %d entries, and must show %d", dir, len(names), want)
	}
	return nil
}

// ParseEntries reads DIR=N; an empty text is no demand.
func ParseEntries(s string) (map[string]int, error) {
	if s == "" {
		return nil, nil
	}
	at := strings.LastIndexByte(s, '=')
	if at < 1 {
		return nil, fmt.Errorf("--entries %q is not DIR=N", s)
	}
	n, err := strconv.ParseUint(s[at+1:], 10, 31)
	if err != nil {
		return nil, fmt.Errorf("--entries %q is not DIR=N", s)
	}
	return map[string]int{s[:at]: int(n)}, nil
}

package steps

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/product"
)

// StageConfig is one copy.
type StageConfig struct {
	Source, Target *os.File
	Exclude        func(path string) bool
	Owner          product.Owner
	Limits         product.Limits
}

// Stage copies the product and writes the copy's stream: the baseline.
func Stage(ctx context.Context, cfg StageConfig, stdout io.Writer) error {
	enc := product.NewEncoder(stdout)
	opts := product.StageOptions{
		Limits: cfg.Limits, Extractor: audit.NewExtractor(), Exclude: cfg.Exclude, Owner: &cfg.Owner,
	}
	if err := product.Stage(ctx, cfg.Source, cfg.Target, opts, enc); err != nil {
		return &RefusedError{Err: err}
	}
	_, err := enc.Close()
	return err
}

// OpenStage opens a stage, below the directory that holds it or, as ".", itself.
func OpenStage(parent *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open stage: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Unstage removes a directory that a hostile identity filled: entries are
// opened relative to their directories, links are not followed, and directories
// that were closed to their owner are opened first.
func Unstage(parent *os.File, name string) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", parent.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return product.RemoveAll(root, name)
}

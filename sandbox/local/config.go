package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/parts"
	"github.com/proctor-project/proctor/sandbox/runtimes"
)

// Config is where the engine finds its runtime and keeps its files.
type Config struct {
	// Home is the launcher's home; keys and control are directories below it.
	// It may be closed to everybody but the launcher.
	Home string
	// State holds the bundles of running containers and the supervisor's
	// images. It is made if it is missing. Every directory above it must be
	// searchable by all (mode o+x), because a container's root is reached by
	// that container's own ids; what lies below is closed to other ids.
	// DefaultState gives a place.
	State string
	// Runc and Runsc are the runtimes' absolute paths. "" looks beside the
	// launcher's executable (bin/runc, runc), in the user's cache
	// (proctor/bin/runc), then in PATH.
	Runc  string
	Runsc string
	// Crash is told of a panic in a goroutine of the engine.
	Crash sandbox.Crash
	// Self is this program, if its main calls Child first thing. It is started
	// a second time, to remove this process's containers when this process was
	// killed. "" leaves them to the next Sweep of their session.
	Self string
}

// Engine is the local engine. It is safe for concurrent use.
type Engine struct {
	cfg  Config
	euid int

	// shape is held while a session's own directories come or go, because one
	// container of it may be made while another is removed.
	shape sync.Mutex

	watcher watcher
	parts   parts.Dirs

	mu       sync.Mutex
	versions map[string]sandbox.Info
	resolved map[sandbox.Image]bool
}

var _ sandbox.Engine = (*Engine)(nil)

// New checks the configuration and makes the State directory. It starts
// nothing; a missing runtime is reported by Probe.
func New(cfg Config) (*Engine, error) {
	if !filepath.IsAbs(cfg.Home) || !filepath.IsAbs(cfg.State) {
		return nil, errors.New("engine local: home and state must be absolute paths")
	}
	// These would be read as separators in an overlay's options.
	if strings.ContainsAny(cfg.State, ":,\\") {
		return nil, fmt.Errorf("engine local: state directory %q has one of : , \\ in its name", cfg.State)
	}
	if cfg.Runc == "" {
		cfg.Runc = runtimes.Find("runc")
	}
	if cfg.Runsc == "" {
		cfg.Runsc = runtimes.Find("runsc")
	}
	e := &Engine{cfg: cfg, euid: os.Geteuid(), parts: parts.Dirs{Home: cfg.Home}, versions: map[string]sandbox.Info{}, resolved: map[sandbox.Image]bool{}}
	e.watcher.token = newToken()
	if err := e.makeState(); err != nil {
		return nil, fmt.Errorf("engine local: %w", err)
	}
	return e, nil
}

// DefaultState is the usual State: /run/proctor for root, else below the user's
// runtime directory (runtimeDir, as in XDG_RUNTIME_DIR) or cache.
func DefaultState(euid int, runtimeDir, cacheDir string) string {
	switch {
	case euid == 0:
		return "/run/proctor"
	case runtimeDir != "":
		return filepath.Join(runtimeDir, "proctor")
	default:
		return filepath.Join(cacheDir, "proctor", "run")
	}
}

// makeState makes the directory, and as root refuses one that a container's
// ids could not pass.
func (e *Engine) makeState() error {
	if err := os.MkdirAll(e.cfg.State, 0o711); err != nil {
		return err
	}
	st, err := os.Lstat(e.cfg.State)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fmt.Errorf("state %q is not a directory", e.cfg.State)
	}
	if st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("state %q can be written by others", e.cfg.State)
	}
	if e.euid != 0 {
		return nil
	}
	for dir := e.cfg.State; ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if st.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("state %q cannot be reached by a container's ids: %s is mode %04o (use a place such as /run/proctor)",
				e.cfg.State, dir, st.Mode().Perm())
		}
		if dir == "/" {
			return nil
		}
	}
}

// Name returns "local".
func (e *Engine) Name() string { return "local" }

// Users asks the kernel.
func (e *Engine) Users(ctx context.Context, hostDir string) ([]string, error) {
	return kernel.Users(ctx, hostDir)
}

// Part returns the bind mount of the part.
func (e *Engine) Part(part sandbox.Part, session string) sandbox.Mount {
	return e.parts.Part(part, session)
}

// MakePart makes the part's directory.
func (e *Engine) MakePart(ctx context.Context, part sandbox.Part, session string, owner sandbox.Identity) error {
	return e.parts.Make(ctx, part, session, owner)
}

// RemovePart removes the part and everything in it.
func (e *Engine) RemovePart(ctx context.Context, part sandbox.Part, session string) error {
	return e.parts.Remove(ctx, part, session)
}

// HasPart says whether the part's directory exists.
func (e *Engine) HasPart(_ context.Context, part sandbox.Part, session string) (bool, error) {
	return e.parts.Has(part, session)
}

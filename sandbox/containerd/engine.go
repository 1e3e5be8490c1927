package containerd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/parts"
)

const (
	// DefaultAddress is the daemon's usual socket.
	DefaultAddress = "/run/containerd/containerd.sock"
	// DefaultNamespace holds the engine's images and containers.
	DefaultNamespace = "proctor"
)

// defaultPlace names an installation that was given no name.
const defaultPlace = "main"

// Config says which daemon is used, and for which installation.
type Config struct {
	// Address is the path of the daemon's socket; "" means DefaultAddress.
	// CONTAINERD_ADDRESS and the other variables of ctr are never read.
	Address string
	// Namespace is containerd's; "" means DefaultNamespace.
	Namespace string
	// Place names the installation in its containers' labels: 1 to 32 of a-z,
	// 0-9; "" means "main".
	Place string
	// Home is an absolute directory of the launcher's, 0700: keys and control
	// are directories below it, and so are the pipes and layers of containers.
	Home string
	// Supervisor is the id of every supervisor container, and the owner of keys
	// and control. It must not be 0.
	Supervisor uint32
	// Runc and Runsc are the runtimes' absolute paths. "" looks where the engine
	// local does.
	Runc  string
	Runsc string
	// Protected are absolute directories that no mount may be, contain or lie
	// under, beside the engine's own.
	Protected []string
	// Crash is told of a panic in a goroutine of the engine.
	Crash sandbox.Crash
}

// Engine runs containers on one containerd. It is safe for concurrent use.
type Engine struct {
	cfg Config
	api *client.Client
	// parts are directories: containerd has no volumes.
	parts parts.Dirs

	// shape is held while a session's own directories come or go, because one
	// container of it may be made while another is removed.
	shape sync.Mutex

	mu       sync.Mutex
	version  string            // the daemon's, once it was asked
	versions map[string]string // of runtimes, by path
	unpacked map[string]bool   // images, by digest
}

var _ sandbox.Engine = (*Engine)(nil)

// errConfig is the sentinel of every configuration error.
var errConfig = errors.New("containerd engine configuration")

// New checks the configuration. It does not talk to the daemon.
func New(cfg Config) (*Engine, error) {
	if cfg.Address == "" {
		cfg.Address = DefaultAddress
	}
	if cfg.Namespace == "" {
		cfg.Namespace = DefaultNamespace
	}
	if cfg.Place == "" {
		cfg.Place = defaultPlace
	}
	cfg.Address = strings.TrimPrefix(cfg.Address, "unix://")
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	switch {
	case !name.MatchString(cfg.Namespace) || len(cfg.Namespace) > 63:
		return nil, fmt.Errorf("%w: namespace %q is not 1 to 63 of a-z, 0-9 and dash", errConfig, cfg.Namespace)
	case !regexp.MustCompile(`^[a-z0-9]{1,32}$`).MatchString(cfg.Place):
		return nil, fmt.Errorf("%w: place %q is not 1 to 32 of a-z and 0-9", errConfig, cfg.Place)
	case cfg.Supervisor == 0:
		return nil, fmt.Errorf("%w: the supervisor's id is 0", errConfig)
	case strings.ContainsAny(cfg.Home, ":,\\"):
		// An overlay's options are split at these.
		return nil, fmt.Errorf("%w: home %q has one of : , \\ in its name", errConfig, cfg.Home)
	}
	for _, p := range append([]string{cfg.Address, cfg.Home}, cfg.Protected...) {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("%w: %q is not absolute", errConfig, p)
		}
	}
	api, err := client.New(cfg.Address, client.WithDefaultNamespace(cfg.Namespace))
	if err != nil {
		return nil, fmt.Errorf("make client of %q: %w", cfg.Address, err)
	}
	return &Engine{cfg: cfg, api: api, parts: parts.Dirs{Home: cfg.Home}, versions: map[string]string{}, unpacked: map[string]bool{}}, nil
}

// Name is "containerd".
func (e *Engine) Name() string { return "containerd" }

// Close ends the connection to the daemon. Containers stay.
func (e *Engine) Close() error { return e.api.Close() }

// Part returns the bind mount of the part.
func (e *Engine) Part(part sandbox.Part, session string) sandbox.Mount {
	return e.parts.Part(part, session)
}

// MakePart makes the part's directory, which is the supervisor's.
func (e *Engine) MakePart(ctx context.Context, part sandbox.Part, session string, owner sandbox.Identity) error {
	if owner.Host != e.cfg.Supervisor || owner.Inside != owner.Host {
		return fmt.Errorf("make part %q: owner %d is not the supervisor's id %d", part, owner.Host, e.cfg.Supervisor)
	}
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

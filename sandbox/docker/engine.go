package docker

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
)

// DefaultHost is the daemon's usual address.
const DefaultHost = "unix:///run/docker.sock"

// defaultPlace names an installation that was given no name.
const defaultPlace = "main"

// Config says which daemon is used, and for which installation.
type Config struct {
	// Host is the daemon's address, unix:///path only: binds are host paths, so
	// the daemon must be on this host. "" means DefaultHost; DOCKER_HOST and
	// the other variables of the docker command are never read.
	Host string
	// Place names the installation in its volumes: proctor-<place>-root and so
	// on. 1 to 32 of a-z, 0-9; "" means "main".
	Place string
	// Supervisor is the id of every supervisor container, and the owner of keys
	// and control. It must not be 0.
	Supervisor uint32
	// Runc is the daemon's name for the runtime that Spec.Runtime "" means; ""
	// means "runc". A runtime of another name is used as it is called.
	Runc string
	// LayerDir is an absolute directory of the launcher, 0700, for the upper
	// sides of throw-away layers. "" means that mounts of kind layer are refused.
	LayerDir string
	// Protected are absolute directories that no mount may be, contain or lie
	// under, beside the engine's own: the original product, the host side's
	// state, the launcher's binaries.
	Protected []string
	// Crash is told of a panic in a goroutine of the engine.
	Crash sandbox.Crash
}

// Engine runs containers on one Docker daemon. It is safe for concurrent use.
type Engine struct {
	cfg    Config
	socket string // resolved when it is used, as the daemon may come later
	api    *client.Client

	mu         sync.Mutex
	supervisor sandbox.Image // the last resolved supervisor image
	daemon     *daemon       // what Info said, once it was asked
	// images and plain are memories of content-addressed, so unchanging, facts.
	images   map[string]client.ImageInspectResult // by digest
	versions map[string]string                    // by the daemon's name of the runtime
	plain    map[string]bool                      // what was looked for in an image and not found
}

// errConfig is the sentinel of every configuration error.
var errConfig = errors.New("docker engine configuration")

// New checks the configuration. It does not talk to the daemon.
func New(cfg Config) (*Engine, error) {
	if cfg.Host == "" {
		cfg.Host = DefaultHost
	}
	if cfg.Place == "" {
		cfg.Place = defaultPlace
	}
	if cfg.Runc == "" {
		cfg.Runc = "runc"
	}
	socket, err := socketPath(cfg.Host)
	if err != nil {
		return nil, err
	}
	if !regexp.MustCompile(`^[a-z0-9]{1,32}$`).MatchString(cfg.Place) {
		return nil, fmt.Errorf("%w: place %q is not 1 to 32 of a-z and 0-9", errConfig, cfg.Place)
	}
	if cfg.Supervisor == 0 {
		return nil, fmt.Errorf("%w: the supervisor's id is 0", errConfig)
	}
	for _, p := range append([]string{cfg.LayerDir}, cfg.Protected...) {
		if p != "" && !filepath.IsAbs(p) {
			return nil, fmt.Errorf("%w: %q is not absolute", errConfig, p)
		}
	}
	// An overlay's options are split at these, by the daemon and by the kernel.
	if strings.ContainsAny(cfg.LayerDir, ":,\\") {
		return nil, fmt.Errorf("%w: the directory for layers %q has one of : , \\ in its name", errConfig, cfg.LayerDir)
	}
	api, err := client.New(client.WithHost(cfg.Host))
	if err != nil {
		return nil, fmt.Errorf("make client of %q: %w", cfg.Host, err)
	}
	return &Engine{
		cfg: cfg, socket: socket, api: api,
		images:   map[string]client.ImageInspectResult{},
		plain:    map[string]bool{},
		versions: map[string]string{},
	}, nil
}

func socketPath(host string) (string, error) {
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "unix" || u.Host != "" || !filepath.IsAbs(u.Path) {
		return "", fmt.Errorf("%w: host %q is not unix:///path: a remote daemon has other files than this host", errConfig, host)
	}
	return filepath.Clean(u.Path), nil
}

// Name is "docker".
func (e *Engine) Name() string { return "docker" }

// Close ends the idle connections to the daemon. Containers stay.
func (e *Engine) Close() error { return e.api.Close() }

package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/proctor-project/proctor/sandbox"
)

// askDeadline bounds a question whose answer needs no work.
const askDeadline = 10 * time.Second

// ask returns the daemon's version, from memory after the first time. A daemon
// that cannot be used is an *sandbox.UnavailableError.
func (e *Engine) ask(ctx context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.version != "" {
		return e.version, nil
	}
	if os.Geteuid() != 0 {
		return "", &sandbox.UnavailableError{
			Engine: "containerd", Reason: "the launcher is not root, and directories of the supervisor's id are root's to make",
			Remedy: "run proctor as root, or use --engine local",
		}
	}
	if err := e.reachable(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askDeadline)
	defer cancel()
	v, err := e.api.Version(ctx)
	if err != nil {
		return "", e.unavailable(fmt.Sprintf("no daemon answers at %s: %v", e.cfg.Address, err))
	}
	e.version = v.Version
	return e.version, nil
}

// reachable looks at the socket first: the client would try again and again.
func (e *Engine) reachable() error {
	st, err := os.Stat(e.cfg.Address)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return e.unavailable("there is no socket " + e.cfg.Address)
	case err != nil:
		return e.unavailable(err.Error())
	case st.Mode()&os.ModeSocket == 0:
		return e.unavailable(e.cfg.Address + " is not a socket")
	}
	return nil
}

func (e *Engine) unavailable(reason string) error {
	return &sandbox.UnavailableError{
		Engine: "containerd", Reason: reason,
		Remedy: "start containerd (systemctl start containerd), or name its socket with --containerd-address",
	}
}

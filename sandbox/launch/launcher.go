package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
)

// The ids that processes see inside their containers, where the engine gives
// them a user namespace; elsewhere they see their host ids.
const (
	insideAgent      = 64001
	insideSupervisor = 64003
)

// Config is what a launcher works with.
type Config struct {
	Engine sandbox.Engine
	Home   *home.Home
	// Tools is the directory that holds proctor-sidecar and proctor-agent.
	Tools string
	// Lease gives a block of ids that no other session has, for as long as the
	// holding directory exists. nil where there are none to give (one-identity).
	Lease func(ctx context.Context, holder string) (Block, error)
	// InUserNS runs one of our own programs on the host with no more than the
	// given ids: staging and applying.
	InUserNS func(ctx context.Context, c Child) error
	// HostUsers asks the kernel who has a directory mounted, where the engine
	// knows of its own containers only; nil where Engine.Users asks it itself.
	HostUsers func(ctx context.Context, hostDir string) ([]string, error)
	// Crash is told of a panic in a goroutine of this package.
	Crash sandbox.Crash
	// Info is what the engine said of itself.
	Info sandbox.Info
}

// Block is a leased range of host ids.
type Block struct{ First uint32 }

// Child is a program of ours that runs on the host as the product's owner and
// a session's identity, and nobody else. Files are its descriptors 3 and up.
type Child struct {
	Argv   []string
	Owner  IDs // becomes 0 inside
	Stage  IDs // becomes 1 inside
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Files  []*os.File
}

// IDs is a user and a group on the host.
type IDs struct{ UID, GID uint32 }

// Launcher runs sessions and the operator's verbs on one engine.
type Launcher struct {
	cfg        Config
	place      home.Config
	supervisor sandbox.Image
}

// New opens a launcher over an initialised home. It resolves the supervisor's
// image, making it where the engine needs one; it starts nothing.
func New(ctx context.Context, cfg Config) (*Launcher, error) {
	place, err := cfg.Home.Config(cfg.Engine.Name())
	if err != nil {
		return nil, err
	}
	return open(ctx, cfg, place)
}

func open(ctx context.Context, cfg Config, place home.Config) (*Launcher, error) {
	img, err := cfg.Engine.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: filepath.Join(cfg.Tools, "proctor-sidecar")})
	if err != nil {
		return nil, fmt.Errorf("resolve the supervisor's image: %w", err)
	}
	return &Launcher{cfg: cfg, place: place, supervisor: img}, nil
}

// Place is which keys and control this launcher works with.
func (l *Launcher) Place() home.Config { return l.place }

// identity is who a role's process is. The reader shares the agent's, so that
// it can read what the agent made; it starts when the agent is gone.
func (l *Launcher) identity(role sandbox.Role, block uint32) sandbox.Identity {
	id := sandbox.Identity{Inside: insideSupervisor, Host: l.place.Supervisor, HostRoot: l.place.SupervisorRoot}
	switch role {
	case sandbox.RoleAgent, sandbox.RoleCheck, sandbox.RoleRead:
		id = sandbox.Identity{Inside: insideAgent, Host: block + 1, HostRoot: block}
	}
	if l.place.IDs == 0 { // one-identity: everybody is the operator
		return sandbox.Identity{Host: l.place.Supervisor, HostRoot: l.place.Supervisor}
	}
	if !l.cfg.Info.UserNamespace {
		id.Inside = id.Host // its root's id is still leased, for a runtime that needs one
	}
	return id
}

// Limits of the supervisor's own containers: room for a tree of a million
// entries, and for Go's threads.
func supervisorLimits() sandbox.Limits {
	return sandbox.Limits{Memory: 1 << 30, PIDs: 128, MilliCPUs: 2000, OpenFiles: 4096}
}

func (l *Launcher) spec(session string, role sandbox.Role, argv []string, mounts ...sandbox.Mount) sandbox.Spec {
	return sandbox.Spec{
		Session:  session,
		Role:     role,
		Name:     "proctor-" + session + "-" + string(role),
		Image:    l.supervisor,
		Argv:     append([]string{"/proctor-sidecar"}, argv...),
		Env:      []string{"GOTRACEBACK=none", "HOME=/", "PATH=/"}, // what an engine would add by itself
		Dir:      "/",
		Identity: l.identity(role, 0),
		Mounts:   mounts,
		Limits:   supervisorLimits(),
		Grace:    5 * time.Second,
		Waive:    l.waived(),
	}
}

// waived is what this place and engine cannot give to the supervisor's own
// containers. A session is refused long before, unless the operator waived it;
// the operator's verbs run nothing hostile.
func (l *Launcher) waived() []sandbox.Waiver {
	var all []sandbox.Waiver
	if l.place.IDs == 0 {
		all = append(all, sandbox.WaiveOneIdentity)
	}
	if len(l.cfg.Info.LimitsMissing) > 0 {
		all = append(all, sandbox.WaiveNoLimits)
	}
	if l.cfg.Info.RuntimeFloor != "ok" {
		all = append(all, sandbox.WaiveRuntimeFloor)
	}
	return all
}

// part is the mount of one part at its fixed place.
func (l *Launcher) part(p sandbox.Part, session string, access access) sandbox.Mount {
	m := l.cfg.Engine.Part(p, session)
	m.Target, m.Writable, m.NoExec = p.Target(), access == readWrite, l.cfg.Info.MountFlags
	return m
}

// users names everybody outside of this launcher who still has a directory.
func (l *Launcher) users(ctx context.Context, hostDir string) ([]string, error) {
	all, err := l.cfg.Engine.Users(ctx, hostDir)
	if err != nil || l.cfg.HostUsers == nil {
		return all, err
	}
	more, err := l.cfg.HostUsers(ctx, hostDir)
	return append(all, more...), err
}

type access int

const (
	readOnly access = iota
	readWrite
)

// StepError is a step of the supervisor that did not end with 0: its own words,
// if it had any.
type StepError struct {
	Step string
	Exit sandbox.Exit
	Text string
	Hint string
}

func (e *StepError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: ended with status %d and said nothing", e.Step, e.Exit.Code)
	}
	return e.Step + ": " + e.Text
}

// Refused reports whether the step refused, as opposed to failing.
func (e *StepError) Refused() bool { return e.Exit.Code == 2 }

// stderrKept is how much of a step's standard error is kept, in bytes.
const stderrKept = 64 << 10

// runStep creates, starts, awaits and removes one of the supervisor's
// containers. The container is gone when it returns, whatever happened.
func (l *Launcher) runStep(ctx context.Context, spec sandbox.Spec, stdin *os.File, stdout io.Writer) (sandbox.Report, error) {
	stderr := newTail(stderrKept)
	c, err := l.cfg.Engine.Create(ctx, spec, sandbox.Streams{Stdin: stdin, Stdout: stdout, Stderr: stderr})
	if err != nil {
		return sandbox.Report{}, fmt.Errorf("%s: %w", spec.Role, err)
	}
	name := string(spec.Role)
	if spec.Role == sandbox.RoleVerb {
		name = spec.Argv[1]
	}
	return c.Report(), runMade(ctx, c, name, stderr)
}

// runMade starts, awaits and removes a container that was made.
func runMade(ctx context.Context, c sandbox.Container, step string, stderr *tail) error {
	exit, err := startAndWait(ctx, c)
	err = errors.Join(err, c.Remove(context.WithoutCancel(ctx)))
	if err == nil && exit.Code != 0 {
		err = stepError(step, exit, stderr)
	}
	return err
}

func startAndWait(ctx context.Context, c sandbox.Container) (sandbox.Exit, error) {
	if err := c.Start(ctx); err != nil {
		return sandbox.Exit{}, err
	}
	return c.Wait(ctx)
}

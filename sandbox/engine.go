package sandbox

import (
	"context"
	"io"
	"os"
	"time"
)

// Engine runs containers. Every engine passes sandboxtest.
type Engine interface {
	// Name is the engine's name as in --engine.
	Name() string
	// Probe finds out what the engine and its runtimes are and can do. It
	// starts nothing. An engine that is not there is an *UnavailableError.
	Probe(ctx context.Context, runtime string) (Info, error)
	// Resolve returns the image with its content digest, making the
	// supervisor's image first where that is needed. It pulls nothing.
	Resolve(ctx context.Context, img Image) (Image, error)
	// Create makes the container, payload not started, reads back what was
	// really made, and refuses (removing it) if that differs from the spec.
	Create(ctx context.Context, spec Spec, streams Streams) (Container, error)
	// Users returns everything outside the launcher that still has the
	// directory, a part of it or a parent of it mounted, as far as this
	// engine and the host can tell. Empty means quiescent.
	Users(ctx context.Context, hostDir string) ([]string, error)
	// Sweep removes every container of the session and returns their names.
	// It is idempotent.
	Sweep(ctx context.Context, session string) ([]string, error)

	// Part returns the mount (Source and Kind set) that holds one part of keys
	// or control. session is set for the parts
	// that exist per session.
	Part(part Part, session string) Mount
	// MakePart creates the part, empty and owned by the identity, and refuses
	// if it exists. RemovePart removes it with its content; absent is fine.
	// HasPart says whether it exists.
	MakePart(ctx context.Context, part Part, session string, owner Identity) error
	RemovePart(ctx context.Context, part Part, session string) error
	HasPart(ctx context.Context, part Part, session string) (bool, error)

	Close() error
}

// Part is one separately mounted piece of keys or control.
type Part string

// Mode is the part's permission bits.
func (p Part) Mode() uint32 {
	if p == PartSockets {
		return 0o755
	}
	return 0o700
}

// PerSession reports whether the part exists once for each session.
func (p Part) PerSession() bool { return p == PartSession || p == PartSockets }

// The parts.
const (
	PartRootKeys   Part = "root"    // mounted at /keys/root
	PartLedgerKeys Part = "signing" // mounted at /keys/ledger
	PartLedger     Part = "ledger"  // mounted at /control/ledger
	PartCache      Part = "cache"   // mounted at /control/cache
	PartSession    Part = "session" // mounted at /control/session
	// PartSockets holds the sockets that serve listens on for the agent, once
	// per session, mounted at /run/proctor: writable in serve, read-only in the
	// agent. It alone has mode 0755, so that another identity can reach a socket.
	PartSockets Part = "sockets"
)

// Target is where the part is mounted in every supervisor container.
func (p Part) Target() string {
	switch p {
	case PartRootKeys:
		return "/keys/root"
	case PartLedgerKeys:
		return "/keys/ledger"
	case PartSockets:
		return "/run/proctor"
	default:
		return "/control/" + string(p)
	}
}

// Streams are a container's standard streams. A nil Stdin is empty. When the
// process that holds the other end of Stdin dies, the container sees the end of
// its input: that is the lifeline of every container. Writers must not block
// for ever. An *os.File is handed to the container without copying where the
// engine can.
type Streams struct {
	Stdin  *os.File
	Stdout io.Writer
	Stderr io.Writer
	// Terminal is the launcher's own terminal, with Spec.Terminal: the engine
	// copies both ways and forwards its size. Stdin, Stdout and Stderr are then unused.
	Terminal *os.File
}

// Container is one container of a session.
type Container interface {
	Name() string
	// Report is what the engine really made, read back at Create.
	Report() Report
	// Start lets the payload run.
	Start(ctx context.Context) error
	// Wait blocks until the process has ended and all its output was delivered.
	// It can be called more than once.
	Wait(ctx context.Context) (Exit, error)
	// Stop sends SIGTERM, and SIGKILL after the spec's grace; Kill does not wait.
	Stop(ctx context.Context) error
	Kill(ctx context.Context) error
	// Remove kills what is left, removes the container and returns when the
	// engine confirms that it is gone with every process of it. Idempotent.
	Remove(ctx context.Context) error
}

// Exit is how a container's first process ended, as the engine reports it.
type Exit struct {
	Code     int  // exit code; 128+signal when a signal ended it
	Signal   int  // the signal, or 0
	OOM      bool // the kernel killed something in it for memory
	Started  time.Time
	Finished time.Time
}

// Info is what an engine is.
type Info struct {
	Engine         string
	EngineVersion  string
	Runtime        string // runc, runsc
	RuntimeVersion string
	// RuntimeFloor is "ok", or why the runtime is under the CVE floor or
	// unknown; anything but "ok" needs WaiveRuntimeFloor.
	RuntimeFloor  string
	UserNamespace bool // containers get user namespaces of their own
	Rootless      bool // the launcher is not root on this engine
	RecursiveRO   bool
	MountFlags    bool // binds and volumes can be noexec, and are nosuid and nodev
	Seccomp       bool
	Cgroup        string   // "v1", "v2", "none", or "unknown"
	LimitsMissing []string // limits that cannot be enforced here: memory, pids, cpu
	Notes         []string // what an operator should know, one sentence each
}

// Report is what an engine really made of a Spec, from its own inspection and
// from the kernel (mountinfo, status, namespaces), never echoed from the Spec.
type Report struct {
	Name         string
	Role         Role
	ImageDigest  string
	HostUID      uint32
	HostGID      uint32
	Groups       []uint32 // supplementary groups, host ids
	Capabilities []string // union of all sets; empty is right
	NoNewPrivs   bool
	Seccomp      bool
	ReadOnlyRoot bool
	// Namespaces that the container does not share with the launcher or another container.
	Namespaces []string // of: pid ipc net uts mnt cgroup user
	Network    Network
	Mounts     []MountReport
	Env        []string
	Argv       []string
	Dir        string
	Limits     Limits // what is enforced; a limit that is not is 0
	Devices    []string
	Runtime    string
}

// MountReport is one mount as found in the container.
type MountReport struct {
	Kind     MountKind
	Source   string // resolved host path or volume name, where the kind has one
	Target   string
	Writable bool
	NoSuid   bool
	NoDev    bool
	// OpenBelow says that the mount is read-only by itself alone: what is mounted
	// below it may be written.
	OpenBelow bool
}

// UnavailableError says that an engine cannot be used here, and the remedy.
type UnavailableError struct {
	Engine string
	Reason string
	Remedy string
}

func (e *UnavailableError) Error() string { return "engine " + e.Engine + ": " + e.Reason }

// RefusedError says that an engine cannot or may not make a container as
// asked: what differs, and which waiver would permit it ("" means none can).
type RefusedError struct {
	Container string
	Problems  []string
	Waiver    Waiver
	Remedy    string
}

// NoSharedNetwork refuses doors to the outside where the agent has the network of
// the supervisor, which was not waived.
func NoSharedNetwork() error {
	return &RefusedError{
		Container: "of serve", Waiver: WaiveSharedNetwork,
		Problems: []string{"doors to the outside (packages, egress, services): the containers share one network, and the agent gets out past every door"},
	}
}

func (e *RefusedError) Error() string {
	s := "container " + e.Container + " refused"
	for i, p := range e.Problems {
		if i == 0 {
			s += ": " + p
		} else {
			s += "; " + p
		}
	}
	return s
}

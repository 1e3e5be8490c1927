package sandbox

import "time"

// Role is what a container is for. It decides the seccomp profile and who may
// share what with whom.
type Role string

// The roles of a session's containers. RoleVerb is a short-lived supervisor
// container that runs one of the operator's verbs.
const (
	RoleOpen  Role = "open"
	RoleServe Role = "serve"
	RoleAgent Role = "agent"
	RoleCheck Role = "check"
	RoleRead  Role = "read"
	RoleSeal  Role = "seal"
	RoleVerb  Role = "verb"
)

// Hostile reports whether code that nobody trusts may run in the role.
func (r Role) Hostile() bool { return r == RoleAgent || r == RoleCheck }

// ImageKind says where a container's root file system comes from.
type ImageKind string

// The kinds of image. An engine refuses the kinds that it cannot run.
const (
	// ImageSupervisor is the image that the launcher makes itself from its own
	// static proctor-sidecar binary; Ref is that binary's absolute path.
	ImageSupervisor ImageKind = "supervisor"
	// ImageHost is the host's own /usr, /bin, /lib* and chosen /etc files,
	// read-only (engine local only).
	ImageHost ImageKind = "host"
	// ImageDir is a root file system in a directory; Ref is its absolute path
	// (engine local only).
	ImageDir ImageKind = "rootfs"
	// ImageRef is an image that the engine already holds; Ref is its reference.
	ImageRef ImageKind = "image"
)

// Image names a root file system. Digest is empty until Engine.Resolve filled
// it; a Spec is created only from a resolved image.
type Image struct {
	Kind   ImageKind
	Ref    string
	Digest string // "sha256:<hex>"
}

// Identity is who the container's process is. User and group always have the
// same number. Where an engine uses no user namespace, Inside equals Host.
type Identity struct {
	Inside uint32 // the id that the process sees
	Host   uint32 // the id that the kernel sees
	// HostRoot is the host id behind the container's id 0, on engines and
	// runtimes that give the container a user namespace of its own. No payload
	// runs as it.
	HostRoot uint32
}

// MountKind is what a mount is made of.
type MountKind string

// The kinds of mount.
const (
	MountBind   MountKind = "bind"   // Source: absolute host path
	MountVolume MountKind = "volume" // Source: name of the engine's volume
	MountTmpfs  MountKind = "tmpfs"  // Size bytes of memory
	// MountLayer is a throw-away layer of Size bytes over the directory
	// Source: writes succeed inside and vanish with the container.
	MountLayer MountKind = "layer"
)

// Mount is one mount of a container. The zero Writable is the strict one.
// Every mount is nosuid and nodev where the engine can give it. A read-only
// bind is recursively read-only and proved so before a payload starts.
type Mount struct {
	Kind     MountKind
	Source   string
	Target   string // absolute path in the container
	Writable bool
	NoExec   bool
	Size     int64 // bytes; tmpfs and layer only, required there
}

// Network is what a container reaches. The zero value is nothing.
type Network string

// The networks.
const (
	NetworkNone Network = ""     // own namespace, loopback only
	NetworkHost Network = "host" // serve only, where a door needs the outside
)

// Limits bound one container. Zero means the role's default was not set and is
// refused by Validate: every container has limits.
type Limits struct {
	Memory    int64 // bytes, swap included
	PIDs      int64
	MilliCPUs int64 // thousandths of a core
	OpenFiles uint64
}

// Spec is everything that a container is made of. Nothing that is not named
// here reaches it: no environment, mount, device or capability of the host.
type Spec struct {
	Session  string // session id; the operator's verbs use a random one
	Role     Role
	Name     string // unique on the engine: proctor-<session>-<role>[-<n>]
	Image    Image
	Argv     []string
	Env      []string // NAME=value, the whole environment
	Dir      string   // working directory, absolute
	Identity Identity
	Mounts   []Mount
	Limits   Limits
	Network  Network
	Runtime  string // "" is runc; "runsc" is gVisor
	Terminal bool
	// Waive names what the operator gave up for this session; an engine does
	// without only what is named here.
	Waive []Waiver
	// Hostname seen inside; "" means "proctor".
	Hostname string
	// Grace is how long a stopped process has between SIGTERM and SIGKILL.
	Grace time.Duration
}

// Waiver is something that the operator agreed to do without.
type Waiver string

// The waivers.
const (
	WaiveRuntimeFloor  Waiver = "runtime-floor"
	WaiveOneIdentity   Waiver = "one-identity"
	WaiveNoLimits      Waiver = "no-limits"
	WaiveSharedNetwork Waiver = "shared-network"
)

// Waived reports whether the operator gave something up for this container.
func (s Spec) Waived(w Waiver) bool {
	for _, have := range s.Waive {
		if have == w {
			return true
		}
	}
	return false
}

package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// MaxSize is the largest policy file, in bytes.
const MaxSize = 1 << 20

// Policy is a valid policy. Only Parse and Default make one.
type Policy struct {
	Agent     Agent
	Checks    []Check // in the file's order; names are unique
	Stage     Stage
	Protected []Glob // paths of the product whose change is always FAIL
	Classes   Classes
	Audit     Audit
	Allow     []Waiver // in the file's order, each once
	Observer  Observer
	Packages  Packages
	Egress    Egress
	Services  []Service // in the file's order; names are unique
	Ports     Ports

	name   string
	digest [sha256.Size]byte
	lines  map[string]int // field of a host path -> its line
}

// Digest is the lower-case hexadecimal SHA-256 of the file's bytes.
func (p *Policy) Digest() string { return hex.EncodeToString(p.digest[:]) }

// Allows reports whether the operator waived w in the policy.
func (p *Policy) Allows(w Waiver) bool {
	for _, have := range p.Allow {
		if have == w {
			return true
		}
	}
	return false
}

// Agent is what the agent runs in.
type Agent struct {
	Engine  EngineName
	Runtime RuntimeName
	Image   Image
	Command []string // program and arguments; empty means: given at the command line
	Env     []EnvVar // sorted by name; each name once, also over EnvPass
	EnvPass []string // names taken from the launcher's environment, sorted
	Limits  Limits
	Output  int64         // bytes of standard output and error together
	Timeout time.Duration // from start to SIGTERM
	Grace   time.Duration // from SIGTERM to SIGKILL
	Mounts  []Mount
}

// EngineName names what runs containers.
type EngineName string

// The engines.
const (
	EngineLocal      EngineName = "local"
	EngineDocker     EngineName = "docker"
	EngineContainerd EngineName = "containerd"
	EngineKubernetes EngineName = "kubernetes"
)

// RuntimeName names the OCI runtime of the agent and the checks.
type RuntimeName string

// The runtimes.
const (
	RuntimeRunc  RuntimeName = "runc"
	RuntimeRunsc RuntimeName = "runsc" // gVisor
)

// ImageKind says where a root file system comes from.
type ImageKind string

// The kinds of image.
const (
	ImageHost   ImageKind = "host"   // the host's own programs, read-only
	ImageRootfs ImageKind = "rootfs" // Ref is a directory's absolute path
	ImageRef    ImageKind = "image"  // Ref is a reference that the engine holds
)

// Image names a root file system. Ref is empty for ImageHost, else set.
type Image struct {
	Kind ImageKind
	Ref  string
}

// EnvVar is one environment variable.
type EnvVar struct{ Name, Value string }

// Limits bound one container; every field is set.
type Limits struct {
	Memory    int64 // bytes, swap included
	PIDs      int64
	MilliCPUs int64 // thousandths of a core
	OpenFiles uint64
}

// Mount is a host path that the agent sees. Both paths are absolute and clean.
type Mount struct {
	Source   string
	Target   string
	Writable bool
}

// Check is one command that judges the product.
type Check struct {
	Name    string // lower-case letters, digits and inner dashes, at most 32
	Image   Image  // the agent's, unless the policy says otherwise
	Argv    []string
	Dir     string // working directory inside the product, clean and relative; "." is its root
	Expect  int    // 0 to 255
	Timeout time.Duration
	Output  int64 // bytes of standard output and error together; more is a failure
	Limits  Limits
	Files   []File
	Form    Form
}

// File is an operator's file that lies over the product in a check.
type File struct {
	From string // absolute host path
	To   string // clean path inside the product
}

// Form says whose word a check's exit status is.
type Form string

// The forms of a check. In the one-process form product code runs inside the
// process that reports, and can end it with any status. In the two-process form
// a driver of the check's image runs the product as its child.
const (
	FormOneProcess Form = "one-process"
	FormTwoProcess Form = "two-process"
)

// Stage says what of the product is copied for the agent.
type Stage struct {
	Exclude []Glob // left out, and never deleted by apply
}

// Handling is what a finding of a class does to the verdict. The zero value is
// the strict one.
type Handling int

// The two ways.
const (
	HandleFail Handling = iota // FAIL unless approved by content
	HandleList                 // listed in the verdict and the seal
)

// String returns the policy's word.
func (h Handling) String() string {
	if h == HandleList {
		return "list"
	}
	return "fail"
}

// Classes says how the audit's classes are handled. The classes trap and
// protected have no field: they always FAIL.
type Classes struct {
	Review Handling // default: list
	Tree   Handling // default: fail
}

// Audit bounds the walk over the product; above a limit the verdict is not PASS.
type Audit struct {
	MaxEntries   int64
	MaxFileSize  int64 // bytes
	MaxTotalSize int64 // bytes
	Timeout      time.Duration
}

// Waiver is something that the operator agrees to do without.
type Waiver string

// The waivers.
const (
	WaiveRuntimeFloor  Waiver = "runtime-floor"
	WaiveOneIdentity   Waiver = "one-identity"
	WaiveNoLimits      Waiver = "no-limits"
	WaiveSharedNetwork Waiver = "shared-network"
)

// Consent is the operator's answer to something weaker. The zero value refuses.
type Consent int

// The two answers.
const (
	Refuse Consent = iota
	Allow
)

// String returns the policy's word.
func (c Consent) String() string {
	if c == Allow {
		return "allow"
	}
	return "refuse"
}

// Observer says whose reports the verdict may rest on.
type Observer struct {
	Chain Consent // PASS from results that were reported from inside
}

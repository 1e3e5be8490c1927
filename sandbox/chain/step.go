package chain

import "time"

// Step is one container of a chain.
type Step struct {
	Limits
	Name    string
	Note    string // for who reads what was rendered
	Who     Who
	Image   string // "" is Proctor's own
	Argv    []string
	Env     []string
	Runtime string
	Mounts  []Mount
	After   []After
	// Ready succeeds when a step that goes on can be used by the next one.
	Ready   []string
	Timeout time.Duration // by itself; zero where it is its work's
	Input   Input
	Network Network
}

// Network is what a step reaches.
type Network int

const (
	// NoNetwork but its own loopback device.
	NoNetwork Network = iota
	// Outside is for a supervisor whose doors lead there.
	Outside
)

// Who is what a step is allowed to be.
type Who int

const (
	// Supervisor is SupervisorID: the only one that ever has keys and control.
	Supervisor Who = iota
	// Reader is GuestID: it reads what agents wrote, and has no secret.
	Reader
	// Guest is GuestID: the agent, or a check.
	Guest
	// Stager reads the original, and leaves a copy that is GuestID's.
	Stager
)

// Input is what a step's standard input is.
type Input int

const (
	// NoInput is the zero value.
	NoInput Input = iota
	// InputOnce is one launcher's, and ends with it.
	InputOnce
	// InputOpen stays open, whoever attaches and leaves.
	InputOpen
)

// Mount is a volume, or the original, in a step.
type Mount struct {
	Volume string
	Target string
	How    How
}

// How a step has a volume.
type How int

const (
	// ReadOnly is the zero value.
	ReadOnly How = iota
	// ReadWrite writes into a volume that another step was given first.
	ReadWrite
	// Own is ReadWrite of the first step that has the volume: where a volume
	// takes owner and mode from an image, it is this step's.
	Own
)

// After is a step that has to be so far before another one starts.
type After struct {
	Step  string
	Until Until
}

// Until is how far.
type Until int

const (
	// Ended with status 0.
	Ended Until = iota
	// IsReady by its own Ready.
	IsReady
)

// Volumes of a chain. Original is the product itself, and no volume of the
// chain's own.
const (
	Original   = "original"
	Root       = "root"
	LedgerKeys = "ledger-keys"
	Ledger     = "ledger"
	Part       = "session"
	Seals      = "seals"
	Stage      = "stage"
	Programs   = "programs"
	Sockets    = "sockets"
	Checks     = "checks"
	ReaderDoor = "reader"
	Facts      = "facts"
	Baseline   = "baseline"
	Release    = "release"
	Secrets    = "doors"
	Cache      = "cache"
)

// StageDir is the product's directory in a Pod's volume Stage: the volume's own
// root belongs to root there.
const StageDir = "product"

// Targets in the containers of the supervisor and the reader. They are fixed in
// proctor-sidecar.
const (
	rootKeys   = "/keys/root"
	ledgerKeys = "/keys/ledger"
	ledger     = "/control/ledger"
	part       = "/control/session"
	seals      = "/seals"
	programs   = "/programs"
	sockets    = "/run/proctor"
	checks     = "/run/checks"
	readerDoor = "/run/reader"
	facts      = "/handoff/facts"
	baseline   = "/handoff/baseline"
	release    = "/handoff/release"
	secrets    = "/keys/doors"
	cache      = "/control/cache"
	original   = "/original"
	stage      = "/stage"
	binaries   = "/.proctor/bin"
)

// Programs of the steps.
const (
	Sidecar    = "/proctor-sidecar"
	firstOfAll = binaries + "/proctor-agent"
)

// Volumes are those that the steps mount, in the order of their first use.
func Volumes(steps []Step) []string {
	var all []string
	seen := map[string]bool{Original: true}
	for _, s := range steps {
		for _, m := range s.Mounts {
			if !seen[m.Volume] {
				seen[m.Volume] = true
				all = append(all, m.Volume)
			}
		}
	}
	return all
}

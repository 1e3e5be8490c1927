package chain

import (
	"errors"
	"fmt"
	"time"
)

// Ids of the containers' users, and of their groups.
const (
	SupervisorID = 64003
	GuestID      = 64001
)

// Session is one policy as a chain.
type Session struct {
	Product string // the operator's path; the same in every container
	Policy  []byte
	Exclude []string
	Limits  []string // flags that bound the walks
	Agent   Process
	Checks  []Check
	Place   Place
	// Launched is what a launcher adds that follows the session; nil is none.
	Launched *Launched
	Walk     time.Duration // bounds each walk of what the agent left
	// Doors gives serve a network, what the operator gave it for its doors, and a
	// cache; Bridges are the agent's ports that lead there, PORT=SOCKET.
	Doors   bool
	Bridges []string
	Waive   []string // by name, beside what the policy waives
	// Registry is the origin of the packages that the tool trust is about; "" is none.
	Registry string
	// Remedies is the command that runs a tool; "" leaves remedies out.
	Remedies string
}

// Launched says that a launcher brings the product, follows the steps, tells seal
// what it saw, and takes home what was sealed.
type Launched struct {
	Open         []string // flags of open: who launches, and what it remembers
	StreamSHA256 string   // of the product's tree stream
}

// Place is where the chain runs.
type Place int

const (
	// Stack is a compose stack: volumes are kept from session to session, and the key is made inside of its
	// own by a step, once.
	Stack Place = iota
	// Pod is a Kubernetes Pod: its volumes are its own, the key was put into its
	// volume by somebody else, and open makes the ledger where there is none. The
	// product is the directory StageDir of the stage's volume.
	Pod
)

// verb is the steps' in proctor-sidecar.
func (p Place) verb() string {
	if p == Pod {
		return "pod"
	}
	return "chain"
}

// Process is the agent, or the process of a check.
type Process struct {
	Limits
	Image   string
	Argv    []string
	Env     []string // NAME=VALUE, or NAME for the environment's own
	Runtime string   // "" is the orchestrator's default
	Timeout time.Duration
	Grace   time.Duration
}

// Limits are what a step may use; zero is not limited.
type Limits struct {
	Memory int64 // bytes
	PIDs   int64
	Milli  int64 // thousandths of a core
	Files  uint64
	Output int64 // bytes that are kept
	Temp   int64 // bytes of /tmp; zero is none
}

// Check judges the product.
type Check struct {
	Process
	Name string
	Dir  string // in the product
}

// maxPolicy is what fits into one argument of a step.
const maxPolicy = 100 << 10

func (s Session) validate() error {
	var errs []error
	if s.Product == "" {
		errs = append(errs, errors.New("no path of the product"))
	}
	if len(s.Policy) > maxPolicy {
		errs = append(errs, fmt.Errorf("policy of %d bytes, and a chain takes %d at most", len(s.Policy), maxPolicy))
	}
	if len(s.Agent.Argv) == 0 {
		errs = append(errs, errors.New("no command of the agent"))
	}
	return errors.Join(errs...)
}

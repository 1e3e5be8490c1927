package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/inside"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Plan is one session, as the operator asked for it. It was read from the
// policy and the command line; nothing in it comes from the product.
type Plan struct {
	Product    string // absolute, resolved
	PolicyPath string
	// ProductPolicy is the policy that the product brings along, approved; nil is
	// none.
	ProductPolicy []byte
	Policy        []byte
	User          string
	Agent         Process
	Checks        []Check
	Exclude       []string
	Limits        TreeLimits
	// AuditTimeout bounds the stage, each walk of the reader, open and seal.
	AuditTimeout time.Duration
	Waive        []sandbox.Waiver
	// About says what runs where, for the line that names the session.
	About string
	Doors Doors
	// Terminal is the operator's own, given to the agent; nil is none.
	Terminal *os.File
	// Output and CheckOutput get what the agent and the checks print, already
	// bounded; they must escape what they show. nil drops it.
	Output      io.Writer
	CheckOutput io.Writer
	// Stop, when closed, ends the agent early; the audit still runs.
	Stop <-chan struct{}
}

// Doors are the supervisor's doors to the outside. The zero value is none.
type Doors struct {
	Bridges []Bridge
	// Request is serve's first line; with it serve has the host's network.
	Request *wire.ServeRequest
}

// Bridge is one loopback port of the agent that leads to a socket of serve's.
type Bridge struct {
	Port   int
	Socket string // name in the sockets' part
}

// TreeLimits bound the walks over the product; 0 is the built-in limit.
type TreeLimits struct{ Entries, FileBytes, TotalBytes int64 }

func (l TreeLimits) args() []string {
	return []string{
		fmt.Sprintf("--max-entries=%d", l.Entries),
		fmt.Sprintf("--max-file-size=%d", l.FileBytes),
		fmt.Sprintf("--max-total-size=%d", l.TotalBytes),
	}
}

// Process is the agent, or the process of a check.
type Process struct {
	Image   sandbox.Image // resolved
	Argv    []string
	Env     []string
	Limits  sandbox.Limits
	Runtime string
	Timeout time.Duration
	Grace   time.Duration
	// Output is how many bytes it may print: the agent's are dropped beyond
	// that, a check fails.
	Output int64
	Mounts []sandbox.Mount
}

// Check is one operator-owned command that judges the product.
type Check struct {
	Process
	Name   string
	Expect int
	Dir    string // relative to the product
	Lay    []Lay
}

// Lay is an operator's file that is laid over the product in a check.
type Lay struct {
	From   string // absolute host path
	To     string // relative to the product
	SHA256 string // filled by the launcher when it takes its copy
}

func (p Plan) validate() error {
	var errs []error
	if len(p.Agent.Argv) == 0 {
		errs = append(errs, errors.New("no command for the agent"))
	}
	for _, c := range p.Checks {
		if c.Expect >= inside.ExitUnproved && c.Expect <= inside.ExitNotFound {
			errs = append(errs, fmt.Errorf("check %s: expected status %d means that a command could not be run", c.Name, c.Expect))
		}
	}
	return errors.Join(errs...)
}

// Progress is told what happens. Implementations must not block.
type Progress interface {
	// Begin says that a phase begins, with what is known of it.
	Begin(phase, detail string)
	// Live replaces the running phase's detail.
	Live(detail string)
	// End says that the phase is over.
	End(phase, detail string)
	// Count is Live for what changes all the time: not a line of its own.
	Count(detail string)
	// Note is one line for the operator, outside the phases.
	Note(text string)
	// Alert is a Note that no option hides. The text is shown as it is: the
	// caller has escaped what is not ours.
	Alert(text string)
}

// Result is how a session ended.
type Result struct {
	Session  string
	Verdict  string // PASS, FAIL, INDETERMINATE
	Reasons  []string
	Seal     []byte
	SealPath string
	Problems []string
	FirstUse bool
}

package sandbox

import (
	"context"
	"io"
	"time"

	"github.com/proctor-project/proctor/sandbox/chain"
)

// Whole is an engine that is handed a session as one whole, whose steps an
// orchestrator starts one after the other. As an Engine it runs the operator's
// verbs, and nothing else.
type Whole interface {
	Engine
	// Submit has the session made and holds what was made against what was asked.
	// A difference is a refusal, and nothing of it is left.
	Submit(ctx context.Context, session string, s chain.Session) (Following, error)
}

// Following is a session that an orchestrator runs.
type Following interface {
	// Updates are what the orchestrator says of the session, each time that it says
	// something new. The channel ends with the session, with ctx, or when the
	// orchestrator cannot be asked any more; Err tells why.
	Updates(ctx context.Context) <-chan Progress
	Err() error
	// Feed attaches to a step that runs: in is its standard input, out gets its
	// standard output. It returns when the step has ended or in has been read and
	// out is nil.
	Feed(ctx context.Context, step string, in io.Reader, out io.Writer) error
	// Output copies what a step prints from its beginning until it ends.
	Output(ctx context.Context, step string, w io.Writer) error
	// Facts are what the orchestrator knows of the session now.
	Facts(ctx context.Context) (Facts, error)
	// Remove ends and removes what is left. Idempotent.
	Remove(ctx context.Context) error
}

// Progress is one state of a followed session.
type Progress struct {
	Steps []StepState // in their order
	Ended bool        // nothing of it runs any more, or will
	// Stuck is why nothing goes on, in the orchestrator's words; "" where it does.
	Stuck string
	// Broken says that it never will.
	Broken bool
}

// Step is the state of a step by its name.
func (p Progress) Step(name string) StepState {
	for _, s := range p.Steps {
		if s.Name == name {
			return s
		}
	}
	return StepState{Name: name}
}

// StepState is how far a step is.
type StepState struct {
	Name     string
	Running  bool
	Ready    bool
	Ended    bool
	Code     int
	Reason   string // the orchestrator's, such as OOMKilled
	Started  time.Time
	Finished time.Time
}

// Facts are what an orchestrator's own API knows of a session.
type Facts struct {
	// Problems are what is not as it was asked, one sentence each.
	Problems []string
	// OOM are the steps that something was killed in for memory.
	OOM     []string
	Reports []Report
}

package steps

import (
	"strings"
	"sync"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/metrics"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// toldAtMost bounds how many things the operator hears of by name; what is
// refused beyond that is counted.
const toldAtMost = 200

// countsEvery is how often the operator hears of the counts, at most.
const countsEvery = time.Second

// tally counts what the doors do, and tells the operator of each thing that is
// refused for the first time.
type tally struct {
	row  func(kind string, data any) error
	tell func(event string, data any) error
	// metrics has the same by door, for a supervisor's eyes only.
	metrics *metrics.Metrics

	mu     sync.Mutex
	told   map[string]bool
	counts wire.DoorCounts
	last   time.Time
}

func newTally(row, tell func(string, any) error) *tally {
	return &tally{row: row, tell: tell, metrics: metrics.New(), told: map[string]bool{}}
}

// refused records first: the operator is told of what is in the record.
func (t *tally) refused(r door.Refusal) error {
	if err := t.row(r.Door+"-refused", r); err != nil {
		return err
	}
	t.first(wire.Refused{Door: r.Door, What: r.What, Reason: r.Reason, Review: []string{}, Remedy: append([]string{}, r.Remedy...)})
	return nil
}

// first tells the operator of a refusal, unless that is known.
func (t *tally) first(r wire.Refused) {
	t.mu.Lock()
	key := r.Door + " " + r.What + " " + r.Reason + " " + strings.Join(r.Remedy, " ")
	first := !t.told[key] && len(t.told) < toldAtMost
	if first {
		t.told[key] = true
	}
	t.mu.Unlock()
	if first {
		// A launcher that went away is noticed elsewhere.
		_ = t.tell(wire.EventRefused, r)
	}
}

// by returns what a door tells of each of its answers.
func (t *tally) by(door string) func(outcome string, took time.Duration, out, in int64) {
	return func(outcome string, took time.Duration, out, in int64) {
		t.metrics.Observe(door, outcome, took, out, in)
		t.done(outcome)
	}
}

// done counts one question that was answered.
func (t *tally) done(outcome string) {
	t.mu.Lock()
	switch outcome {
	case "allowed":
		t.counts.Allowed++
	case "refused":
		t.counts.Refused++
	default:
		t.counts.Failed++
	}
	due := time.Since(t.last) >= countsEvery
	if due {
		t.last = time.Now()
	}
	counts := t.counts
	t.mu.Unlock()
	if due {
		_ = t.tell("doors", counts)
	}
}

// all is the counts so far.
func (t *tally) all() wire.DoorCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

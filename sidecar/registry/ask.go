package registry

import (
	"context"
	"sync"
	"time"

	"github.com/proctor-project/proctor/sidecar/packages"
)

// asker asks the registry for documents: a few at once, none twice within a
// while, and none for a while after the registry did not answer, so that a
// cache is as good without a network.
type asker struct {
	registry Registry
	room     chan struct{}

	mu    sync.Mutex
	known map[string]heard
	lost  time.Time // when the registry last did not answer
}

type heard struct {
	doc  *packages.Document
	err  error
	when time.Time
}

const (
	askAtOnce    = 4
	askTimeout   = 15 * time.Second
	heardFor     = time.Minute
	heardMost    = 64 // documents are large
	lostFor      = 20 * time.Second
	largestHeard = 1 << 20 // larger ones are not kept
)

func newAsker(r Registry) *asker {
	return &asker{registry: r, room: make(chan struct{}, askAtOnce), known: map[string]heard{}}
}

func (a *asker) document(ctx context.Context, name string) (*packages.Document, error) {
	a.mu.Lock()
	h, ok := a.known[name]
	lost := time.Since(a.lost) < lostFor
	a.mu.Unlock()
	if ok && time.Since(h.when) < heardFor {
		return h.doc, h.err
	}
	if lost {
		return nil, &packages.Error{Reason: packages.Unreachable, Subject: name, Detail: "it did not answer a moment ago"}
	}
	select {
	case a.room <- struct{}{}:
		defer func() { <-a.room }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	doc, err := a.registry.Document(ctx, name)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch packages.ReasonOf(err) {
	case packages.Unreachable, packages.TimedOut:
		a.lost = time.Now()
		return nil, err
	}
	if len(a.known) >= heardMost {
		clear(a.known)
	}
	if err != nil || doc.Size() <= largestHeard {
		a.known[name] = heard{doc, err, time.Now()}
	}
	return doc, err
}

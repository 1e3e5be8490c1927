package home

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestNewSessionWhileOthersLook: a list of the sessions, or a launcher that looks
// for dead ones, at any moment, neither makes a new session fail nor gets hold of
// one before its maker.
func TestNewSessionWhileOthersLook(t *testing.T) {
	h := newHome(t)
	var done atomic.Bool
	var early atomic.Int64
	var looking sync.WaitGroup
	look := func(at func(id string)) {
		looking.Add(1)
		go func() {
			defer looking.Done()
			for !done.Load() {
				ids, _ := h.Sessions()
				for _, id := range ids {
					at(id)
				}
			}
		}()
	}
	look(func(id string) { h.Busy(id) })
	look(func(id string) {
		s, err := h.Lock(t.Context(), id)
		if err != nil {
			return
		}
		if s.State.Phase == "" {
			early.Add(1)
		}
		_ = s.Unlock()
	})
	for range 60 {
		s, err := h.NewSession(t.Context())
		if err != nil {
			t.Error(err)
			break
		}
		if err := errors.Join(s.SetPhase("stage"), s.Unlock()); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	looking.Wait()
	if n := early.Load(); n > 0 {
		t.Errorf("%d times a session was locked before it had a state", n)
	}
}

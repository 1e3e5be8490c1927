package steps

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/ledger"
)

// publishedChain is the public key chain beside the ledger, for those who have
// neither the root key nor the ledger's: a running session learns from it what a
// new epoch signs with.
const publishedChain = "chain.json"

const maxPublished = 8 << 20

// publish puts the chain beside the ledger, before the first act that is
// signed by its newest epoch.
func publish(layout Layout, chain keys.Chain) error {
	b, err := chain.MarshalJSON()
	if err != nil {
		return fmt.Errorf("publish chain: %w", err)
	}
	d, err := safedir.Open(layout.Ledger, layout.Rules)
	if err != nil {
		return fmt.Errorf("publish chain: %w", err)
	}
	defer func() { _ = d.Close() }()
	if err := d.ReplaceFile(publishedChain, append(b, '\n')); err != nil {
		return fmt.Errorf("publish chain: %w", err)
	}
	return nil
}

// serveLedger opens the ledger with public keys only; it is looked at again
// before each decision.
func serveLedger(layout Layout, part *safedir.Dir, opened keys.Epoch) (*ledger.Ledger, error) {
	b, err := part.ReadFile(chainFile, maxPublished)
	if err != nil {
		return nil, err
	}
	chain, err := keys.ParseChain(b)
	if err != nil {
		return nil, err
	}
	return ledgerWith(layout, chain.ControlID(), &following{layout: layout, opened: opened, chain: chain}, nil)
}

// following verifies the ledger's heads by the chain that the session was opened
// with, and by whatever has been added to it since: each epoch is signed by the
// one before. Once the epoch of the session was declared compromised, it verifies
// nothing any more.
type following struct {
	layout Layout
	opened keys.Epoch // that the session was opened in

	mu    sync.Mutex
	chain keys.Chain
}

// Verify is the ledger's, for a head that is new.
func (f *following) Verify(envelope []byte, payloadType string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.follow(); err != nil {
		return nil, err
	}
	if f.chain.State(f.opened) == keys.Compromised {
		return nil, fmt.Errorf("the session was opened in epoch %d: %w", f.opened, keys.ErrCompromised)
	}
	v, err := f.chain.Verifier(keys.DomainLedger, 0)
	if err != nil {
		return nil, err
	}
	return v.Verify(envelope, payloadType)
}

// follow takes over a published chain that is longer than the known one.
func (f *following) follow() error {
	d, err := safedir.Open(f.layout.Ledger, f.layout.Rules)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	b, err := d.ReadFile(publishedChain, maxPublished)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there was no rotation
	}
	if err != nil {
		return err
	}
	next, err := keys.ParseChain(b)
	if err != nil {
		return err
	}
	if f.chain.Extends(next) == nil {
		return nil // an older one, or the same
	}
	if err := next.Extends(f.chain); err != nil {
		return err
	}
	f.chain = next
	return nil
}

package keys

import (
	"fmt"

	"github.com/proctor-project/proctor/keys/safedir"
)

// Reason says why a key is replaced.
type Reason string

// The reasons.
const (
	Routine Reason = "routine"     // the old epoch goes on verifying
	Leaked  Reason = "compromised" // trust in the old epoch ends now
)

// Rotate makes the next epoch's key, publishes it in the chain, signed by the
// current epoch, and returns the new Root; r stays as it is. Interrupted, it
// leaves the old state, and a key file that the next call replaces.
func (r *Root) Rotate(reason Reason) (*Root, error) {
	if reason != Routine && reason != Leaked {
		return nil, fmt.Errorf("rotate root key: reason %q", reason)
	}
	d, err := safedir.Open(r.dir, r.rules)
	if err != nil {
		return nil, fmt.Errorf("rotate root key: %w", err)
	}
	defer d.Close()
	old := r.Current()
	next := &Root{dir: r.dir, rules: r.rules, keys: map[Epoch]Secret{}, chain: r.chain.clone()}
	for e, k := range r.keys {
		next.keys[e] = k
	}
	secret := newKey()
	next.keys[old+1] = secret
	var compromised []Epoch
	if reason == Leaked {
		compromised = []Epoch{old}
	}
	if err := next.extend(old+1, compromised); err != nil {
		return nil, fmt.Errorf("rotate root key: %w", err)
	}
	if reason == Leaked {
		delete(next.keys, old)
	}
	if err := d.ReplaceFile(keyFile(old+1), secret.Reveal()); err != nil {
		return nil, fmt.Errorf("rotate root key: %w", err)
	}
	if err := next.storeChain(d); err != nil {
		return nil, fmt.Errorf("rotate root key: %w", err)
	}
	return next, nil
}

func (c Chain) clone() Chain {
	c.doc.Epochs = append([]chainRow(nil), c.doc.Epochs...)
	c.entries = append([]epochEntry(nil), c.entries...)
	c.states = append([]State(nil), c.states...)
	return c
}

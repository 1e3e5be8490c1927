package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/proctor-project/proctor/keys/strictjson"
)

// State is how far an epoch is trusted.
type State string

// The states.
const (
	Active      State = "active"      // signs and verifies
	Superseded  State = "superseded"  // verifies only
	Compromised State = "compromised" // no trust
)

const (
	chainSchema = "proctor/chain/v1"
	epochType   = "application/vnd.proctor.epoch.v1+json"
	maxEpochs   = 10000
	maxChain    = 8 << 20
)

// ErrChain is wrapped by every refusal of a chain.
var ErrChain = errors.New("public key chain is not valid")

// Chain is the published public keys of every epoch of one control. It proves
// itself inwardly only: a whole foreign chain is valid, too. What makes it
// trusted is where it comes from, or that it extends a trusted one.
type Chain struct {
	doc     chainDoc
	entries []epochEntry
	states  []State
}

type chainDoc struct {
	Schema  string     `json:"schema"`
	Control string     `json:"control_id"`
	Epochs  []chainRow `json:"epochs"`
}

// chainRow is one epoch's entry, the same payload signed by the epoch itself
// and by the one before.
type chainRow struct {
	Own    json.RawMessage `json:"own"`
	Before json.RawMessage `json:"before,omitempty"`
}

type epochEntry struct {
	Control     string   `json:"control_id"`
	Epoch       Epoch    `json:"epoch"`
	Keys        []Public `json:"keys"`
	Compromised []Epoch  `json:"compromised"` // no longer trusted from here on
}

// MarshalJSON writes the chain as ParseChain reads it.
func (c Chain) MarshalJSON() ([]byte, error) { return strictjson.Marshal(c.doc) }

// ControlID names the control that the chain belongs to.
func (c Chain) ControlID() string { return c.doc.Control }

// Current is the newest epoch; 0 for the zero Chain.
func (c Chain) Current() Epoch { return Epoch(len(c.entries)) }

// State says how far an epoch is trusted; "" for one that is not in the chain.
func (c Chain) State(e Epoch) State {
	if e == 0 || int(e) > len(c.states) {
		return ""
	}
	return c.states[e-1]
}

// Public returns an epoch's public key in a domain.
func (c Chain) Public(d Domain, e Epoch) (Public, bool) {
	if e == 0 || int(e) > len(c.entries) {
		return Public{}, false
	}
	i := slices.IndexFunc(c.entries[e-1].Keys, func(p Public) bool { return p.Domain == d })
	if i < 0 {
		return Public{}, false
	}
	return c.entries[e-1].Keys[i], true
}

// Find returns the epoch that a key id belongs to in a domain.
func (c Chain) Find(d Domain, keyID string) (Public, bool) {
	for e := Epoch(1); e <= c.Current(); e++ {
		if p, ok := c.Public(d, e); ok && p.KeyID == keyID {
			return p, true
		}
	}
	return Public{}, false
}

// Verifier verifies envelopes of the domain by public keys. Epoch 0 means
// every epoch that is trusted; a compromised or unknown epoch is an error.
func (c Chain) Verifier(d Domain, e Epoch) (*Verifier, error) {
	v := &Verifier{domain: d}
	for i := Epoch(1); i <= c.Current(); i++ {
		if (e != 0 && i != e) || c.State(i) == Compromised {
			continue
		}
		if p, ok := c.Public(d, i); ok {
			v.candidates = append(v.candidates, candidate{public: p})
		}
	}
	if len(v.candidates) == 0 {
		return nil, c.untrusted(d, e)
	}
	return v, nil
}

// ErrCompromised is wrapped when trust in an epoch was ended.
var ErrCompromised = errors.New("the key was declared compromised")

func (c Chain) untrusted(d Domain, e Epoch) error {
	if c.State(e) == Compromised {
		return fmt.Errorf("verifier of %s, epoch %d: %w", d, e, ErrCompromised)
	}
	return fmt.Errorf("verifier of %s, epoch %d: no such key", d, e)
}

// Extends refuses a chain that does not hold all of the older one unchanged.
func (c Chain) Extends(older Chain) error {
	if c.doc.Control != older.doc.Control {
		return fmt.Errorf("%w: control %s is not %s", ErrChain, c.doc.Control, older.doc.Control)
	}
	if len(c.entries) < len(older.entries) {
		return fmt.Errorf("%w: %d epochs, %d were known", ErrChain, len(c.entries), len(older.entries))
	}
	for i, row := range older.doc.Epochs {
		_, was, err := Payload(row.Own)
		_, is, err2 := Payload(c.doc.Epochs[i].Own)
		if err != nil || err2 != nil || !bytes.Equal(was, is) {
			return fmt.Errorf("%w: epoch %d is not the one that was known", ErrChain, i+1)
		}
	}
	return nil
}

// ParseChain reads a chain and verifies it inwardly: every epoch's entry is
// signed by itself and by the epoch before, in order, without gaps.
func ParseChain(data []byte) (Chain, error) {
	var doc chainDoc
	if err := strictjson.Unmarshal(data, &doc, strictjson.Limits{Size: maxChain}); err != nil {
		return Chain{}, fmt.Errorf("%w: %w", ErrChain, err)
	}
	if doc.Schema != chainSchema || doc.Control == "" || len(doc.Epochs) == 0 || len(doc.Epochs) > maxEpochs {
		return Chain{}, fmt.Errorf("%w: schema %q, %d epochs", ErrChain, doc.Schema, len(doc.Epochs))
	}
	c := Chain{doc: chainDoc{Schema: doc.Schema, Control: doc.Control}}
	for _, row := range doc.Epochs {
		if err := c.append(row); err != nil {
			return Chain{}, fmt.Errorf("%w: epoch %d: %w", ErrChain, c.Current()+1, err)
		}
	}
	return c, nil
}

// append verifies one row against the chain so far and adds it.
func (c *Chain) append(row chainRow) error {
	_, payload, err := Payload(row.Own)
	if err != nil {
		return err
	}
	var entry epochEntry
	if err := strictjson.Unmarshal(payload, &entry, strictjson.Limits{}); err != nil {
		return err
	}
	if err := c.checkEntry(entry); err != nil {
		return err
	}
	self, err := PublicVerifier(entry.Keys[0])
	if err != nil {
		return err
	}
	if _, err := self.Verify(row.Own, epochType); err != nil {
		return fmt.Errorf("own signature: %w", err)
	}
	if err := c.checkBefore(row, payload); err != nil {
		return err
	}
	c.doc.Epochs = append(c.doc.Epochs, row)
	c.entries = append(c.entries, entry)
	if n := len(c.states); n > 0 && c.states[n-1] == Active {
		c.states[n-1] = Superseded
	}
	c.states = append(c.states, Active)
	for _, e := range entry.Compromised {
		c.states[e-1] = Compromised
	}
	return nil
}

func (c *Chain) checkEntry(entry epochEntry) error {
	if entry.Control != c.doc.Control || entry.Epoch != c.Current()+1 {
		return fmt.Errorf("entry of control %s, epoch %d", entry.Control, entry.Epoch)
	}
	domains := signing()
	if len(entry.Keys) != len(domains) {
		return fmt.Errorf("%d keys, not %d", len(entry.Keys), len(domains))
	}
	for i, p := range entry.Keys {
		if p.Domain != domains[i] || p.Epoch != entry.Epoch {
			return fmt.Errorf("key %d is of domain %q, epoch %d", i, p.Domain, p.Epoch)
		}
		if err := p.Check(); err != nil {
			return err
		}
	}
	for _, e := range entry.Compromised {
		if e == 0 || e >= entry.Epoch {
			return fmt.Errorf("declares epoch %d compromised", e)
		}
	}
	return nil
}

func (c *Chain) checkBefore(row chainRow, payload []byte) error {
	if c.Current() == 0 {
		if row.Before != nil {
			return errors.New("the first epoch has none before it")
		}
		return nil
	}
	before, err := PublicVerifier(c.entries[len(c.entries)-1].Keys[0])
	if err != nil {
		return err
	}
	got, err := before.Verify(row.Before, epochType)
	if err != nil {
		return fmt.Errorf("signature of the epoch before: %w", err)
	}
	if !bytes.Equal(got, payload) {
		return errors.New("the epoch before signed something else")
	}
	return nil
}

// publish makes the row of an epoch.
func publish(entry epochEntry, own, before *Signer) (chainRow, error) {
	payload, err := strictjson.Marshal(entry)
	if err != nil {
		return chainRow{}, err
	}
	var row chainRow
	if row.Own, err = own.Sign(context.Background(), epochType, payload); err != nil {
		return chainRow{}, err
	}
	if before != nil {
		if row.Before, err = before.Sign(context.Background(), epochType, payload); err != nil {
			return chainRow{}, err
		}
	}
	return row, nil
}

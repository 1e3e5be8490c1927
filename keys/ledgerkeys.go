package keys

import (
	"encoding/json"
	"fmt"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
)

const (
	signingFile   = "signing.json"
	signingSchema = "proctor/ledger-keys/v1"
)

// LedgerKeys sign and verify the operator's acts without the root key. They
// hold nothing of any other domain. They print without their secrets.
type LedgerKeys struct {
	chain Chain
	macs  map[Epoch]Secret
	seed  Secret
}

type signingDoc struct {
	Schema string          `json:"schema"`
	Seed   []byte          `json:"seed"` // of the current epoch's Ed25519 key
	HMAC   []signingMAC    `json:"hmac"` // of every trusted epoch
	Chain  json.RawMessage `json:"chain"`
}

type signingMAC struct {
	Epoch Epoch  `json:"epoch"`
	Key   []byte `json:"key"`
}

// WriteLedgerKeys derives the ledger's keys and writes them into dir, which
// exists already; what an older epoch left there is replaced.
func (r *Root) WriteLedgerKeys(dir string, rules Rules) error {
	doc, err := r.signingDoc()
	if err != nil {
		return fmt.Errorf("write ledger keys: %w", err)
	}
	b, err := strictjson.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write ledger keys: %w", err)
	}
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return fmt.Errorf("write ledger keys: %w", err)
	}
	defer d.Close()
	if err := d.ReplaceFile(signingFile, append(b, '\n')); err != nil {
		return fmt.Errorf("write ledger keys: %w", err)
	}
	return nil
}

func (r *Root) signingDoc() (signingDoc, error) {
	doc := signingDoc{Schema: signingSchema}
	for e := Epoch(1); e <= r.Current(); e++ {
		if r.chain.State(e) == Compromised {
			continue
		}
		k, err := r.subkey(label{purpose: purposeHMAC, domain: DomainLedger, epoch: e})
		if err != nil {
			return signingDoc{}, err
		}
		doc.HMAC = append(doc.HMAC, signingMAC{Epoch: e, Key: k.Reveal()})
	}
	seed, err := r.subkey(label{purpose: purposeEd25519, domain: DomainLedger, epoch: r.Current()})
	if err != nil {
		return signingDoc{}, err
	}
	doc.Seed = seed.Reveal()
	doc.Chain, err = r.chain.MarshalJSON()
	return doc, err
}

// OpenLedgerKeys loads what WriteLedgerKeys wrote.
func OpenLedgerKeys(dir string, rules Rules) (*LedgerKeys, error) {
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return nil, fmt.Errorf("open ledger keys: %w", err)
	}
	defer d.Close()
	b, err := d.ReadFile(signingFile, 2*maxChain)
	if err != nil {
		return nil, fmt.Errorf("open ledger keys: %w", err)
	}
	k, err := parseLedgerKeys(b)
	if err != nil {
		return nil, fmt.Errorf("open ledger keys: %q: %w", dir, err)
	}
	return k, nil
}

func parseLedgerKeys(b []byte) (*LedgerKeys, error) {
	var doc signingDoc
	if err := strictjson.Unmarshal(b, &doc, strictjson.Limits{Size: 2 * maxChain}); err != nil {
		return nil, err
	}
	chain, err := ParseChain(doc.Chain)
	if err != nil {
		return nil, err
	}
	k := &LedgerKeys{chain: chain, macs: map[Epoch]Secret{}, seed: NewSecret(doc.Seed)}
	for _, m := range doc.HMAC {
		if len(m.Key) != KeySize || chain.State(m.Epoch) == "" || chain.State(m.Epoch) == Compromised {
			return nil, fmt.Errorf("hmac key of epoch %d", m.Epoch)
		}
		k.macs[m.Epoch] = NewSecret(m.Key)
	}
	want, ok := chain.Public(DomainLedger, chain.Current())
	if doc.Schema != signingSchema || len(doc.Seed) != KeySize || !ok || k.macs[chain.Current()].Reveal() == nil {
		return nil, fmt.Errorf("schema %q, epoch %d: not whole", doc.Schema, chain.Current())
	}
	if got := k.Signer().Public(); got.KeyID != want.KeyID {
		return nil, fmt.Errorf("%w: signing key is not the published one", ErrChain)
	}
	return k, nil
}

// Chain is the public key chain.
func (k *LedgerKeys) Chain() Chain { return k.chain }

// Signer signs in the ledger's domain with the current epoch.
func (k *LedgerKeys) Signer() *Signer {
	e := k.chain.Current()
	return newSigner(DomainLedger, e, k.macs[e], k.seed)
}

// Verifier verifies both signatures in the ledger's domain, of any trusted
// epoch.
func (k *LedgerKeys) Verifier() (*Verifier, error) {
	v, err := k.chain.Verifier(DomainLedger, 0)
	if err != nil {
		return nil, err
	}
	v.both = true
	for i := range v.candidates {
		mac, ok := k.macs[v.candidates[i].public.Epoch]
		if !ok {
			return nil, fmt.Errorf("verifier of ledger: no hmac key of epoch %d", v.candidates[i].public.Epoch)
		}
		v.candidates[i].mac = mac
	}
	return v, nil
}

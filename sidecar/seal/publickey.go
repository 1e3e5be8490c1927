package seal

import (
	"errors"
	"fmt"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/strictjson"
)

// PublicKey is what the verifier of a seal brings: a control's whole public key
// chain, or one key of it. A chain knows which keys were declared compromised
// since.
type PublicKey struct {
	chain  keys.Chain
	single keys.Public
}

// ErrNoKey says that nothing was brought to verify a seal with.
var ErrNoKey = errors.New("no public key and no control: a key found in the seal itself is not trusted")

// ParsePublicKey reads what `proctor keys export-public` prints: a chain, or one
// key as {"epoch":…,"domain":"seal","key_id":…,"key":…}.
func ParsePublicKey(data []byte) (PublicKey, error) {
	chain, err := keys.ParseChain(data)
	if err == nil {
		return PublicKey{chain: chain}, nil
	}
	var single keys.Public
	if err2 := strictjson.Unmarshal(data, &single, strictjson.Limits{Size: 64 << 10}); err2 != nil {
		return PublicKey{}, fmt.Errorf("read public key: neither a chain (%w) nor a key (%w)", err, err2)
	}
	if err := single.Check(); err != nil {
		return PublicKey{}, fmt.Errorf("read public key: %w", err)
	}
	if single.Domain != keys.DomainSeal {
		return PublicKey{}, fmt.Errorf("read public key: a key of domain %q signs no seals", single.Domain)
	}
	return PublicKey{single: single}, nil
}

// FromChain is the public key of a control whose chain is at hand.
func FromChain(c keys.Chain) PublicKey { return PublicKey{chain: c} }

func (p PublicKey) none() bool { return p.chain.Current() == 0 && p.single.Epoch == 0 }

// verifier is the verifier of the seal signed by keyID. The id only chooses
// among the keys that were brought.
func (p PublicKey) verifier(keyID string) (*keys.Verifier, error) {
	if p.single.Epoch != 0 {
		return keys.PublicVerifier(p.single)
	}
	pub, ok := p.chain.Find(keys.DomainSeal, keyID)
	if !ok {
		return nil, fmt.Errorf("%w: key %q is not in the chain", keys.ErrSignature, keyID)
	}
	return p.chain.Verifier(keys.DomainSeal, pub.Epoch)
}

package keys

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Epoch numbers the root keys of one control, from 1. Zero means "any" where a
// function says so, and nothing elsewhere.
type Epoch uint32

// Domain is what a key may sign. A key of one domain verifies nothing of
// another.
type Domain string

// The domains.
const (
	DomainEpoch   Domain = "epoch"   // publishes public keys
	DomainLedger  Domain = "ledger"  // the ledger's head
	DomainSession Domain = "session" // what open decided for a session
	DomainRecord  Domain = "record"  // rows of a session's record; HMAC only
	DomainSeal    Domain = "seal"    // the verdict
)

// signing lists the domains that have key pairs, in the order of publication.
func signing() []Domain {
	return []Domain{DomainEpoch, DomainLedger, DomainSession, DomainSeal}
}

// KeySize is the size of root keys and HMAC keys in bytes.
const KeySize = 32

type purpose string

const (
	purposeHMAC    purpose = "proctor/v1/hmac"
	purposeEd25519 purpose = "proctor/v1/ed25519"
	purposeControl purpose = "proctor/v1/control-id"
)

// label is everything that a subkey is bound to.
type label struct {
	purpose purpose
	domain  Domain
	epoch   Epoch
	control string
	session string
	step    string
}

// info is injective: every value is prefixed with its length in four bytes.
func (l label) info() string {
	var b []byte
	epoch := binary.BigEndian.AppendUint32(nil, uint32(l.epoch))
	for _, s := range []string{string(l.purpose), string(l.domain), string(epoch), l.control, l.session, l.step} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return string(b)
}

func derive(root Secret, l label) ([]byte, error) {
	return hkdf.Key(sha256.New, root.Reveal(), nil, l.info(), KeySize)
}

// controlID names a control for good. It gives nothing of the key away.
func controlID(first Secret) (string, error) {
	b, err := derive(first, label{purpose: purposeControl, epoch: 1})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:16]), nil
}

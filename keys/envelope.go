package keys

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/proctor-project/proctor/keys/strictjson"
)

// MaxEnvelope is the largest envelope that is read, in bytes.
const MaxEnvelope = 16 << 20

// ErrSignature is wrapped by the errors of envelopes that are not signed as
// they should be.
var ErrSignature = errors.New("signature does not verify")

// envelope is the document; the library's own type has no strict tags.
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

func parseEnvelope(data []byte) (envelope, error) {
	var e envelope
	if err := strictjson.Unmarshal(data, &e, strictjson.Limits{Depth: 4, Size: MaxEnvelope}); err != nil {
		return envelope{}, fmt.Errorf("envelope: %w", err)
	}
	if len(e.Signatures) != 2 {
		return envelope{}, fmt.Errorf("envelope: %w: %d signatures, not 2", ErrSignature, len(e.Signatures))
	}
	return e, nil
}

// Payload is an envelope's payload without any verification: for showing what
// a document claims to be, never for believing it.
func Payload(env []byte) (payloadType string, payload []byte, err error) {
	e, err := parseEnvelope(env)
	return e.PayloadType, e.Payload, err
}

// Public is one published Ed25519 key.
type Public struct {
	Epoch  Epoch             `json:"epoch"`
	Domain Domain            `json:"domain"`
	KeyID  string            `json:"key_id"`
	Key    ed25519.PublicKey `json:"key"`
}

// Check refuses a key whose size or id is not right.
func (p Public) Check() error {
	if len(p.Key) != ed25519.PublicKeySize {
		return fmt.Errorf("public key: %d bytes, not %d", len(p.Key), ed25519.PublicKeySize)
	}
	if p.Epoch == 0 || p.KeyID != publicKeyID(p.Key) {
		return errors.New("public key: id or epoch does not belong to it")
	}
	return nil
}

func publicKeyID(k ed25519.PublicKey) string {
	sum := sha256.Sum256(k)
	return "ed25519:" + hex.EncodeToString(sum[:])
}

// hmacKeyID names the HMAC key without saying anything about its bytes.
func hmacKeyID(d Domain, e Epoch) string { return fmt.Sprintf("hmac-sha256:%s:%d", d, e) }

// Signer signs envelopes in one domain and epoch with both signatures. It
// prints without its secrets.
type Signer struct {
	public Public
	mac    Secret
	seed   Secret
}

func newSigner(d Domain, e Epoch, mac, seed Secret) *Signer {
	pub := ed25519.NewKeyFromSeed(seed.Reveal()).Public().(ed25519.PublicKey)
	return &Signer{public: Public{Epoch: e, Domain: d, KeyID: publicKeyID(pub), Key: pub}, mac: mac, seed: seed}
}

// Public is the key that verifies what this signer signs.
func (s *Signer) Public() Public { return s.public }

// Sign returns the envelope as JSON.
func (s *Signer) Sign(ctx context.Context, payloadType string, payload []byte) ([]byte, error) {
	es, err := dsse.NewEnvelopeSigner(
		macSigner{id: hmacKeyID(s.public.Domain, s.public.Epoch), key: s.mac},
		edSigner{id: s.public.KeyID, seed: s.seed})
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", payloadType, err)
	}
	e, err := es.SignPayload(ctx, payloadType, payload)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", payloadType, err)
	}
	out, err := strictjson.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", payloadType, err)
	}
	if len(out) > MaxEnvelope {
		return nil, fmt.Errorf("sign %s: envelope of %d bytes, at most %d", payloadType, len(out), MaxEnvelope)
	}
	return out, nil
}

// macSigner and edSigner are the library's dsse.Signer.
type macSigner struct {
	id  string
	key Secret
}

func (m macSigner) Sign(_ context.Context, data []byte) ([]byte, error) {
	return macOf(m.key, data), nil
}
func (m macSigner) KeyID() (string, error) { return m.id, nil }

type edSigner struct {
	id   string
	seed Secret
}

func (e edSigner) Sign(_ context.Context, data []byte) ([]byte, error) {
	return ed25519.Sign(ed25519.NewKeyFromSeed(e.seed.Reveal()), data), nil
}
func (e edSigner) KeyID() (string, error) { return e.id, nil }

func macOf(key Secret, data []byte) []byte {
	h := hmac.New(sha256.New, key.Reveal())
	h.Write(data)
	return h.Sum(nil)
}

// Verifier verifies envelopes of one domain by the keys that it was made with.
type Verifier struct {
	domain     Domain
	candidates []candidate
	both       bool
}

// candidate is one epoch's key pair; mac is zero in a public Verifier.
type candidate struct {
	public Public
	mac    Secret
}

// Verified is what an envelope proved.
type Verified struct {
	Payload []byte
	Epoch   Epoch
	KeyID   string // of the Ed25519 key
	HMAC    bool   // the HMAC was verified too
}

// PublicVerifier verifies by one public key that the operator supplied.
func PublicVerifier(p Public) (*Verifier, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &Verifier{domain: p.Domain, candidates: []candidate{{public: p}}}, nil
}

// Both reports whether the Verifier demands the HMAC, too.
func (v *Verifier) Both() bool { return v.both }

// Verify returns the payload of an envelope that has the type and is signed
// right. The error wraps ErrSignature where a signature is at fault.
func (v *Verifier) Verify(env []byte, payloadType string) ([]byte, error) {
	got, err := v.VerifyDetail(env, payloadType)
	return got.Payload, err
}

// VerifyDetail is Verify and says what was proved.
func (v *Verifier) VerifyDetail(env []byte, payloadType string) (Verified, error) {
	e, err := parseEnvelope(env)
	if err != nil {
		return Verified{}, fmt.Errorf("verify %s: %w", payloadType, err)
	}
	if e.PayloadType != payloadType {
		return Verified{}, fmt.Errorf("verify %s: envelope holds a %q", payloadType, e.PayloadType)
	}
	c, err := v.pick(e.Signatures[1].KeyID)
	if err != nil {
		return Verified{}, fmt.Errorf("verify %s: %w", payloadType, err)
	}
	mac, ed := e.Signatures[0], e.Signatures[1]
	if mac.KeyID != hmacKeyID(v.domain, c.public.Epoch) || len(mac.Sig) != sha256.Size {
		return Verified{}, fmt.Errorf("verify %s: %w: first signature is not this epoch's hmac", payloadType, ErrSignature)
	}
	signed := dsse.PAE(payloadType, e.Payload)
	if !ed25519.Verify(c.public.Key, signed, ed.Sig) {
		return Verified{}, fmt.Errorf("verify %s: %w: ed25519", payloadType, ErrSignature)
	}
	if v.both && !hmac.Equal(macOf(c.mac, signed), mac.Sig) {
		return Verified{}, fmt.Errorf("verify %s: %w: hmac", payloadType, ErrSignature)
	}
	return Verified{Payload: e.Payload, Epoch: c.public.Epoch, KeyID: c.public.KeyID, HMAC: v.both}, nil
}

func (v *Verifier) pick(keyID string) (candidate, error) {
	for _, c := range v.candidates {
		if c.public.KeyID == keyID && c.public.Domain == v.domain {
			return c, nil
		}
	}
	return candidate{}, fmt.Errorf("%w: key %q is not one of %d trusted", ErrSignature, keyID, len(v.candidates))
}

var (
	_ dsse.Signer = macSigner{}
	_ dsse.Signer = edSigner{}
)

// SignedBy is the id of the Ed25519 key that an envelope names: it chooses
// among keys that are trusted already, and proves nothing.
func SignedBy(env []byte) (string, error) {
	e, err := parseEnvelope(env)
	if err != nil {
		return "", err
	}
	return e.Signatures[1].KeyID, nil
}

package keys

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/proctor-project/proctor/keys/safedir"
)

// Rules are how the directory of root keys and its files are judged.
type Rules = safedir.Rules

const (
	chainFile  = "chain.json"
	keyPrefix  = "epoch-"
	keySuffix  = ".key"
	maxKeyFile = 4096
)

// Root is the root keys of every epoch that is still trusted, and the chain.
// It prints without its secrets.
type Root struct {
	dir   string
	rules Rules
	keys  map[Epoch]Secret
	chain Chain
}

func keyFile(e Epoch) string { return keyPrefix + strconv.FormatUint(uint64(e), 10) + keySuffix }

// CreateRoot makes the first epoch's key and its chain in an existing, empty
// directory. A directory that holds root keys already is refused with an error
// that wraps fs.ErrExist. The first key alone, without a chain, is what an
// interrupted creation leaves, with which nothing was ever signed: it is kept,
// and the creation completed.
func CreateRoot(dir string, rules Rules) (*Root, error) {
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return nil, fmt.Errorf("create root key: %w", err)
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return nil, fmt.Errorf("create root key: %w", err)
	}
	if slices.ContainsFunc(names, func(n string) bool {
		return n == chainFile || (strings.HasPrefix(n, keyPrefix) && n != keyFile(1))
	}) {
		return nil, fmt.Errorf("create root key in %q: %w", dir, fs.ErrExist)
	}
	var secret Secret
	if slices.Contains(names, keyFile(1)) {
		secret, err = readKey(d, 1)
	} else {
		secret = newKey()
		err = d.CreateFile(keyFile(1), secret.Reveal())
	}
	if err != nil {
		return nil, fmt.Errorf("create root key: %w", err)
	}
	r, err := genesis(dir, rules, secret)
	if err != nil {
		return nil, fmt.Errorf("create root key: %w", err)
	}
	if err := r.storeChain(d); err != nil {
		return nil, fmt.Errorf("create root key: %w", err)
	}
	return r, nil
}

func newKey() Secret {
	b := make([]byte, KeySize)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	return NewSecret(b)
}

// genesis builds the first epoch. It depends on nothing but the key.
func genesis(dir string, rules Rules, first Secret) (*Root, error) {
	id, err := controlID(first)
	if err != nil {
		return nil, err
	}
	r := &Root{dir: dir, rules: rules, keys: map[Epoch]Secret{1: first}}
	r.chain.doc = chainDoc{Schema: chainSchema, Control: id}
	if err := r.extend(1, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// extend publishes an epoch whose key r holds.
func (r *Root) extend(e Epoch, compromised []Epoch) error {
	if compromised == nil {
		compromised = []Epoch{}
	}
	entry := epochEntry{Control: r.chain.doc.Control, Epoch: e, Compromised: compromised}
	for _, d := range signing() {
		s, err := r.signer(d, e, "")
		if err != nil {
			return err
		}
		entry.Keys = append(entry.Keys, s.Public())
	}
	own, err := r.signer(DomainEpoch, e, "")
	if err != nil {
		return err
	}
	var before *Signer
	if e > 1 {
		if before, err = r.signer(DomainEpoch, e-1, ""); err != nil {
			return err
		}
	}
	row, err := publish(entry, own, before)
	if err != nil {
		return err
	}
	return r.chain.append(row)
}

func (r *Root) storeChain(d *safedir.Dir) error {
	b, err := r.chain.MarshalJSON()
	if err != nil {
		return err
	}
	return d.ReplaceFile(chainFile, append(b, '\n'))
}

// OpenRoot loads the root keys. Everything that is missing, unsafe or does not
// belong to the chain is an error. In a SecretMount the chain may be missing
// while there is only the first epoch, from which it follows.
func OpenRoot(dir string, rules Rules) (*Root, error) {
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return nil, fmt.Errorf("open root key: %w", err)
	}
	defer d.Close()
	b, err := d.ReadFile(chainFile, maxChain)
	if errors.Is(err, fs.ErrNotExist) && rules.Place == safedir.SecretMount {
		return openGenesis(d, dir, rules)
	}
	if err != nil {
		return nil, fmt.Errorf("open root key: %w", err)
	}
	r := &Root{dir: dir, rules: rules, keys: map[Epoch]Secret{}}
	if r.chain, err = ParseChain(b); err != nil {
		return nil, fmt.Errorf("open root key: %q: %w", dir, err)
	}
	for e := Epoch(1); e <= r.chain.Current(); e++ {
		// A key that is no longer trusted may have been deleted.
		if r.chain.State(e) == Compromised {
			continue
		}
		if r.keys[e], err = readKey(d, e); err != nil {
			return nil, fmt.Errorf("open root key: %w", err)
		}
	}
	if err := r.checkChain(); err != nil {
		return nil, fmt.Errorf("open root key: %q: %w", dir, err)
	}
	return r, nil
}

func openGenesis(d *safedir.Dir, dir string, rules Rules) (*Root, error) {
	names, err := d.Names()
	if err != nil {
		return nil, fmt.Errorf("open root key: %w", err)
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, keyPrefix) && n != keyFile(1) }) {
		return nil, fmt.Errorf("open root key: %q holds keys of several epochs and no %s", dir, chainFile)
	}
	first, err := readKey(d, 1)
	if err != nil {
		return nil, fmt.Errorf("open root key: %w", err)
	}
	r, err := genesis(dir, rules, first)
	if err != nil {
		return nil, fmt.Errorf("open root key: %w", err)
	}
	return r, nil
}

func readKey(d *safedir.Dir, e Epoch) (Secret, error) {
	b, err := d.ReadFile(keyFile(e), maxKeyFile)
	if err != nil {
		return Secret{}, err
	}
	if len(b) < KeySize {
		return Secret{}, fmt.Errorf("key file %q: %d bytes, at least %d are needed", keyFile(e), len(b), KeySize)
	}
	return NewSecret(b), nil
}

// checkChain holds the chain against the keys: what it publishes is what they
// derive, so a foreign chain beside our keys is refused.
func (r *Root) checkChain() error {
	for e := range r.keys {
		for _, d := range signing() {
			s, err := r.signer(d, e, "")
			if err != nil {
				return err
			}
			if p, _ := r.chain.Public(d, e); p.KeyID != s.Public().KeyID {
				return fmt.Errorf("%w: epoch %d, %s: not the key's own", ErrChain, e, d)
			}
		}
	}
	if first, ok := r.keys[1]; ok {
		if id, err := controlID(first); err != nil || id != r.chain.doc.Control {
			return fmt.Errorf("%w: control id is not the key's own", ErrChain)
		}
	}
	return nil
}

// ControlID names the control that the keys belong to.
func (r *Root) ControlID() string { return r.chain.ControlID() }

// Current is the epoch that signs.
func (r *Root) Current() Epoch { return r.chain.Current() }

// Chain is the public key chain.
func (r *Root) Chain() Chain { return r.chain }

// Signer signs for the domain; session is "" where there is none. Only the
// current epoch signs: any other is an error.
func (r *Root) Signer(d Domain, e Epoch, session string) (*Signer, error) {
	if e != r.Current() {
		return nil, fmt.Errorf("signer of %s: epoch %d is %s, it does not sign", d, e, r.state(e))
	}
	if !slices.Contains(signing(), d) || d == DomainEpoch {
		return nil, fmt.Errorf("signer of %s: not a domain that signs", d)
	}
	return r.signer(d, e, session)
}

func (r *Root) state(e Epoch) string {
	if s := r.chain.State(e); s != "" {
		return string(s)
	}
	return "unknown"
}

func (r *Root) signer(d Domain, e Epoch, session string) (*Signer, error) {
	mac, err := r.subkey(label{purpose: purposeHMAC, domain: d, epoch: e, session: session})
	if err != nil {
		return nil, err
	}
	seed, err := r.subkey(label{purpose: purposeEd25519, domain: d, epoch: e})
	if err != nil {
		return nil, err
	}
	return newSigner(d, e, mac, seed), nil
}

func (r *Root) subkey(l label) (Secret, error) {
	root, ok := r.keys[l.epoch]
	if !ok && r.chain.State(l.epoch) == Compromised {
		return Secret{}, fmt.Errorf("subkey of %s, epoch %d: %w", l.domain, l.epoch, ErrCompromised)
	}
	if !ok {
		return Secret{}, fmt.Errorf("subkey of %s: epoch %d is %s", l.domain, l.epoch, r.state(l.epoch))
	}
	l.control = r.chain.doc.Control
	b, err := derive(root, l)
	if err != nil {
		return Secret{}, fmt.Errorf("subkey of %s: %w", l.domain, err)
	}
	return NewSecret(b), nil
}

// Verifier verifies both signatures of envelopes of the domain and session.
// Epoch 0 means every trusted epoch; a compromised one is an error that wraps
// ErrCompromised.
func (r *Root) Verifier(d Domain, e Epoch, session string) (*Verifier, error) {
	v, err := r.chain.Verifier(d, e)
	if err != nil {
		return nil, err
	}
	v.both = true
	for i := range v.candidates {
		c := &v.candidates[i]
		c.mac, err = r.subkey(label{purpose: purposeHMAC, domain: d, epoch: c.public.Epoch, session: session})
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// RecordKey is the HMAC key of one step's rows in one session's record. The
// epoch is the one that opened the session; a compromised one is an error.
func (r *Root) RecordKey(e Epoch, session, step string) (Secret, error) {
	if session == "" || step == "" {
		return Secret{}, errors.New("record key: no session or step")
	}
	return r.subkey(label{purpose: purposeHMAC, domain: DomainRecord, epoch: e, session: session, step: step})
}

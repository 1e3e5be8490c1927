package seal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/product"
)

// Options are what a seal is verified with. At least one of PublicKey and
// Control is needed.
type Options struct {
	Seal      []byte // the envelope
	PublicKey PublicKey
	KeyFrom   string // where PublicKey is from, for people
	// Control demands both signatures; Ledger says which seal is the newest.
	Control *keys.Verifier
	Ledger  *ledger.State
	// Answered are the rows of hmac and ledger where the supervisor gave them,
	// because this process may not see the key. Whatever else is in it is not
	// believed.
	Answered []Row

	Manifest io.Reader // nil: not given
	// Product is a reader's tree stream of the product, nil if it was not given.
	Product io.Reader
	Limits  product.StreamLimits
	// Exact makes a git index that differs in stat fields only a difference.
	Exact bool
	// Require names rows that must be ok, not only not NO: signature, hmac,
	// ledger, manifest, product.
	Require []string
}

// Status is how a row came out.
type Status string

// The statuses.
const (
	OK         Status = "ok"
	NO         Status = "NO"
	NotChecked Status = "--"
)

// Row is one thing that was checked, or was not. Lines say what differs; they
// hold paths of the product and are not escaped.
type Row struct {
	Status Status   `json:"status"`
	Name   string   `json:"name"`
	Detail string   `json:"detail"`
	Lines  []string `json:"lines"`
}

// The names of rows.
const (
	RowSeal      = "seal"
	RowSignature = "signature"
	RowHMAC      = "hmac"
	RowLedger    = "ledger"
	RowManifest  = "manifest"
	RowProduct   = "product"
)

// Report is the answer. Statement is nil unless its signature was verified:
// what a seal claims is not shown beside what is known.
type Report struct {
	Statement *Statement
	Digest    string // SHA-256 of the envelope
	Rows      []Row
	Verified  bool
	// Exit is 0 for a genuine PASS whose rows are all well, 1 where something is
	// NO or the genuine verdict is FAIL, 3 where the seal or the product could
	// not be read, or the genuine verdict is INDETERMINATE.
	Exit    int
	Outcome string // the last line, without the exit code
}

// Verify checks a seal offline. The error is for what is not an answer: no key
// (ErrNoKey, before anything is read) or an unknown name in Require.
func Verify(o Options) (Report, error) {
	if o.PublicKey.none() && o.Control == nil {
		return Report{}, fmt.Errorf("verify seal: %w", ErrNoKey)
	}
	for _, name := range o.Require {
		if !slices.Contains([]string{RowSignature, RowHMAC, RowLedger, RowManifest, RowProduct}, name) {
			return Report{}, fmt.Errorf("verify seal: nothing named %q can be required", name)
		}
	}
	sum := sha256.Sum256(o.Seal)
	v := &verification{o: o, report: Report{Digest: hex.EncodeToString(sum[:])}}
	v.run()
	v.conclude()
	return v.report, nil
}

type verification struct {
	o       Options
	report  Report
	unknown bool // something that was asked for could not be read
}

func (v *verification) row(s Status, name, format string, a ...any) {
	v.report.Rows = append(v.report.Rows, Row{Status: s, Name: name, Detail: fmt.Sprintf(format, a...), Lines: []string{}})
}

func (v *verification) run() {
	payload, ok := v.signatures()
	if !ok {
		return
	}
	st, err := Parse(payload)
	if err != nil {
		v.unknown = true
		v.row(NO, RowSeal, "signed, but this program cannot read it: %v", err)
		return
	}
	v.report.Statement = &st
	v.ledger(st)
	v.tree(st)
}

// signatures adds the rows of both, and returns the payload if all keys that
// were brought agree.
func (v *verification) signatures() (payload []byte, ok bool) {
	env := v.o.Seal
	keyID, err := keys.SignedBy(env)
	if err != nil {
		v.unknown = true
		v.row(NO, RowSeal, "not an envelope of a seal: %v", err)
		return nil, false
	}
	if !v.o.PublicKey.none() {
		payload, err = verifyPublic(v.o.PublicKey, keyID, env)
		if err != nil {
			v.row(NO, RowSignature, "%v", err)
			return nil, false
		}
		v.row(OK, RowSignature, "ed25519, key %s (%s)", shortKey(keyID), cmp.Or(v.o.KeyFrom, "yours: --public-key"))
	}
	if v.o.Control == nil {
		return payload, v.answered(RowHMAC, "no --control given")
	}
	both, err := v.o.Control.Verify(env, PayloadType)
	if err != nil {
		v.row(NO, RowHMAC, "%v", err)
		return nil, false
	}
	if v.o.PublicKey.none() {
		v.row(OK, RowSignature, "ed25519, key %s (control's)", shortKey(keyID))
	}
	v.row(OK, RowHMAC, "by control's key")
	return both, true
}

// answered adds the row that the supervisor gave, or that nobody was asked. It
// reports false where the answer is no.
func (v *verification) answered(name, otherwise string) bool {
	for _, row := range v.o.Answered {
		if row.Name == name {
			v.row(row.Status, name, "%s", row.Detail)
			return row.Status != NO
		}
	}
	if len(v.o.Answered) > 0 { // it was asked, and could not come so far
		v.row(NO, name, "%s", v.o.Answered[0].Detail)
		return false
	}
	v.row(NotChecked, name, "%s", otherwise)
	return true
}

func verifyPublic(k PublicKey, keyID string, env []byte) ([]byte, error) {
	verifier, err := k.verifier(keyID)
	if err != nil {
		return nil, err
	}
	return verifier.Verify(env, PayloadType)
}

// shortKey is enough of a key id to tell keys apart for a person.
func shortKey(id string) string {
	_, hash, _ := strings.Cut(id, ":")
	return hash[:min(len(hash), 12)]
}

// ledger says whether this is the session's newest seal.
func (v *verification) ledger(st Statement) {
	if v.o.Ledger == nil {
		v.answered(RowLedger, "no --control given: a newer seal of this session may exist")
		return
	}
	p := st.Predicate
	last, ok := v.o.Ledger.LastSeal(p.Session)
	switch {
	case !ok:
		v.row(NO, RowLedger, "knows no seal of session %s", p.Session)
	case last.SealDigest != v.report.Digest:
		v.row(NO, RowLedger, "seal %d is not the newest: seal %d says %s", p.Number, last.Number, last.Verdict)
	default:
		v.row(OK, RowLedger, "the newest seal of session %s", p.Session)
	}
}

func (v *verification) conclude() {
	r := &v.report
	var bad []string
	for _, row := range r.Rows {
		required := slices.Contains(v.o.Require, row.Name)
		if row.Status == NO || (row.Status == NotChecked && required) {
			bad = append(bad, row.Name+": "+row.Detail)
		}
	}
	for _, name := range v.o.Require {
		if !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Name == name }) {
			bad = append(bad, name+": not reached")
		}
	}
	switch {
	case v.unknown:
		r.Exit, r.Outcome = 3, "NOT VERIFIED: "+strings.Join(bad, "; ")
	case len(bad) > 0 || r.Statement == nil:
		r.Exit, r.Outcome = 1, "NOT VERIFIED: "+strings.Join(bad, "; ")
	default:
		r.Verified = true
		r.Outcome = "genuine seal, verdict " + string(r.Statement.Predicate.Verdict)
		r.Exit = exitOf(r.Statement.Predicate)
	}
	if r.Verified && len(r.Statement.Predicate.Waivers) > 0 {
		r.Outcome += "; waived: " + strings.Join(r.Statement.Predicate.Waivers, ", ")
	}
}

func exitOf(p Predicate) int {
	switch p.Verdict {
	case Pass:
		return 0
	case Fail:
		return 1
	}
	return 3
}

package trust

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/ledger"
)

// Exchange is the plain form in which path records leave one store and enter
// another. It carries no authority: an import is the operator's own act.
type Exchange struct {
	Version int              `json:"version"` // 1
	Records []ExchangeRecord `json:"records"`
}

// ExchangeRecord is one record. Exactly one of the paths is set.
type ExchangeRecord struct {
	AbsolutePath       string    `json:"absolute_path,omitempty"`
	AbsolutePathBase64 []byte    `json:"absolute_path_base64,omitempty"` // where it is not valid UTF-8
	ContentSHA256      string    `json:"content_sha256"`
	Scope              string    `json:"scope"`
	Decision           string    `json:"decision"`
	RecordedAt         time.Time `json:"recorded_at"`
}

// MaxExchange is the largest exchange file, in bytes, and MaxRecords how many
// records one may hold.
const (
	MaxExchange = 32 << 20
	MaxRecords  = 100_000
)

// ExchangeVersion is the version of the files.
const ExchangeVersion = 1

// Scope is what is recorded where no other is given. It describes; no decision
// looks at it.
const Scope = "user"

// ParseExchange reads an exchange file strictly. One bad record refuses the whole
// file; every problem is named.
func ParseExchange(data []byte) (Exchange, error) {
	var x Exchange
	if err := strictjson.Unmarshal(data, &x, strictjson.Limits{Size: MaxExchange}); err != nil {
		return x, fmt.Errorf("read records: %w", err)
	}
	if x.Version != ExchangeVersion {
		return x, fmt.Errorf("read records: version %d, not %d", x.Version, ExchangeVersion)
	}
	if len(x.Records) > MaxRecords {
		return x, fmt.Errorf("read records: %d of them, at most %d", len(x.Records), MaxRecords)
	}
	var problems []error
	seen := map[string]bool{}
	for i, r := range x.Records {
		err := r.check()
		if err == nil && seen[r.raw()] {
			err = errors.New("the path is there twice")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("record %d: %w", i+1, err))
		}
		seen[r.raw()] = true
	}
	if err := errors.Join(problems...); err != nil {
		return Exchange{}, err
	}
	return x, nil
}

func (r ExchangeRecord) raw() string {
	if r.AbsolutePathBase64 != nil {
		return string(r.AbsolutePathBase64)
	}
	return r.AbsolutePath
}

func (r ExchangeRecord) check() error {
	raw := r.raw()
	switch {
	case (r.AbsolutePath != "") == (r.AbsolutePathBase64 != nil):
		return errors.New("exactly one of absolute_path and absolute_path_base64")
	case r.AbsolutePathBase64 != nil && utf8.Valid(r.AbsolutePathBase64):
		return errors.New("absolute_path_base64 is for paths that are not valid UTF-8")
	case !filepath.IsAbs(raw) || filepath.Clean(raw) != raw || strings.Contains(raw, "\x00"):
		return fmt.Errorf("%q is not absolute and clean", raw)
	case r.Decision != string(ledger.Approved) && r.Decision != string(ledger.Denied):
		return fmt.Errorf("decision %q is neither approved nor denied", r.Decision)
	case r.Scope == "":
		return errors.New("scope is empty")
	case r.RecordedAt.IsZero():
		return errors.New("recorded_at is missing")
	}
	return nil
}

// Act is the act that enters the record. A digest that is none is refused by
// the ledger.
func (r ExchangeRecord) Act(by string, now time.Time) ledger.Entry {
	p := ledger.NewPath(r.raw())
	p.SHA256, p.Scope, p.Decision = r.ContentSHA256, r.Scope, ledger.Decision(r.Decision)
	p.Note = "imported; recorded " + r.RecordedAt.UTC().Format(time.RFC3339)
	kind := ledger.KindApprove
	if p.Decision == ledger.Denied {
		kind = ledger.KindDeny
	}
	return ledger.Entry{Time: now, By: by, Kind: kind, Path: &p}
}

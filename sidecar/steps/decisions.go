package steps

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/requests"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// What of the decisions is in a seal is bounded, so that no agent makes one that
// is too large to be signed; the record has all.
const (
	maxDecisions = 1000
	maxDecided   = 300 // bytes of one text
)

// decisions sums up what serve's rows say was allowed and refused: each thing
// once, with its reason and how often. It is serve's word, and decides nothing.
// Where there are too many, what was allowed stays before what was only asked for
// or refused, of which an agent can make as much as it likes.
func decisions(rows []record.Row) (all []seal.Decision, leftOut int) {
	counts := map[seal.Decision]int{}
	for _, row := range rows {
		if d, ok := decisionOf(row); ok && row.Step == stepServe {
			counts[d]++
		}
	}
	all = make([]seal.Decision, 0, len(counts))
	for d, n := range counts {
		d.Count = n
		all = append(all, d)
	}
	order := func(a, b seal.Decision) int {
		return cmp.Or(strings.Compare(a.Door, b.Door), strings.Compare(a.Outcome, b.Outcome), strings.Compare(a.What, b.What), strings.Compare(a.Reason, b.Reason))
	}
	if len(all) > maxDecisions {
		leftOut = len(all) - maxDecisions
		slices.SortFunc(all, func(a, b seal.Decision) int {
			return cmp.Or(strings.Compare(a.Outcome, b.Outcome), order(a, b)) // "allowed" is the first word
		})
		all = all[:maxDecisions]
	}
	slices.SortFunc(all, order)
	return all, leftOut
}

// decided is a text as it stands in a seal: what is cut stays told apart by its
// digest.
func decided(text string) string {
	if len(text) <= maxDecided {
		return text
	}
	return strings.ToValidUTF8(text[:maxDecided], "") + "… sha256:" + hexSHA256([]byte(text))
}

// decisionOf reads one row. Rows about anything else are none.
func decisionOf(row record.Row) (seal.Decision, bool) {
	var data struct {
		Subject wire.Subject `json:"subject"`
		Allowed bool         `json:"allowed"`
		Reason  string       `json:"reason"`
		What    string       `json:"what"`
		Host    string       `json:"host"`
		Port    int          `json:"port"`
		Service string       `json:"service"`
		Package string       `json:"package"`
	}
	if json.Unmarshal(row.Data, &data) != nil { // read strictly before it was written
		return seal.Decision{}, false
	}
	door, verb, _ := strings.Cut(row.Kind, "-")
	d := seal.Decision{Door: door, Outcome: "allowed"}
	switch {
	case row.Kind == "decided":
		d.Door, d.What, d.Reason = "trust", data.Subject.Kind+" "+display.Escape(data.Subject.Name()), data.Reason
		if !data.Allowed {
			d.Outcome = "refused"
		}
	case row.Kind == requests.RowKind:
		d.Door, d.Outcome, d.What = "requests", "asked", data.Subject.Kind+" "+display.Escape(data.Subject.Name())
	case verb == "refused":
		d.Outcome, d.What, d.Reason = "refused", display.Escape(data.What), data.Reason
	case row.Kind == "proxy-connect", row.Kind == "proxy-request":
		d.What = display.Escape(fmt.Sprintf("%s:%d", data.Host, data.Port))
	case row.Kind == "services-request":
		d.What = display.Escape(data.Service)
	case row.Kind == "npm-tarball":
		d.What = display.Escape(data.Package)
	default:
		return seal.Decision{}, false
	}
	d.What, d.Reason = decided(d.What), decided(d.Reason)
	return d, true
}

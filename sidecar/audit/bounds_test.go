package audit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/audit"
)

// TestFindingsFitIntoASeal: names that JSON writes six times as long are counted
// once they come to more than a seal has room for, and never a pass.
func TestFindingsFitIntoASeal(t *testing.T) {
	s := newSession(t, baseProduct())
	dir := strings.TrimSuffix(strings.Repeat(strings.Repeat("\x01", 200)+"/", 6), "/")
	files := map[string]string{"a/.envrc": "x"}
	const many = 1000
	for i := range many {
		files[fmt.Sprintf("%s/%d/.envrc", dir, i)] = ""
	}
	s.write(files)
	r := s.judge(audit.Input{})
	b, err := json.Marshal(r.Findings)
	if err != nil || len(b) > audit.MaxText+audit.MaxFindings*500 {
		t.Errorf("%d findings of %d bytes, %v", len(r.Findings), len(b), err)
	}
	last := r.Findings[len(r.Findings)-1]
	if r.Findings[len(r.Findings)-2].Path == last.Path || last.Kind != "more-findings" || last.Approvable || len(r.Findings) < 500 || len(r.Findings) > many {
		t.Errorf("%d findings, the last %+v", len(r.Findings), last)
	}
	if got := fmt.Sprintf("%d more changes are not listed", many+1-(len(r.Findings)-1)); last.Detail != got {
		t.Errorf("%q, want %q", last.Detail, got)
	}
}

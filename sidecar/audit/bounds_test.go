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

// TestPackagesAndReferencesFitIntoASeal: what a lock file names and what a trap
// refers to is counted likewise.
func TestPackagesAndReferencesFitIntoASeal(t *testing.T) {
	long := strings.Repeat("\x01", 240)
	entries := map[string]any{}
	for i := range audit.MaxFindings {
		entries[fmt.Sprintf("node_modules/p%d", i)] = map[string]any{"name": long[:40], "version": fmt.Sprint(i, long[:40]), "integrity": long[:40]}
	}
	refers := map[string]string{}
	for i := range 32 {
		dir, text := fmt.Sprintf("d%d", i), ""
		for k := range audit.MaxReferences {
			name := strings.Repeat(long+"/", 4) + fmt.Sprint(k) + ".sh"
			refers[dir+"/"+name] = ""
			text += "source ./" + name + "\n"
		}
		refers[dir+"/.envrc"] = text
	}
	for name, files := range map[string]map[string]string{"packages": {"package-lock.json": lockOf(entries)}, "references": refers} {
		s := newSession(t, baseProduct())
		s.write(files)
		r := s.judge(audit.Input{Packages: trusted{}})
		b, err := json.Marshal(r.Findings)
		if err != nil || len(b) > audit.MaxText+audit.MaxFindings*500 {
			t.Errorf("%s: %d findings of %d bytes, %v", name, len(r.Findings), len(b), err)
		}
		if last := r.Findings[len(r.Findings)-1]; name == "references" && last.Kind != "more-findings" || len(r.Findings) < 30 {
			t.Errorf("%s: %d findings of %d bytes, the last %+v", name, len(r.Findings), len(b), last)
		}
	}
}

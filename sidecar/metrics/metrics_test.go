package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/metrics"
)

// TestLabelsAreClosed: whatever a door is asked, no new series comes from it.
func TestLabelsAreClosed(t *testing.T) {
	m := metrics.New()
	series := func() int {
		var b strings.Builder
		if err := m.Write(&b); err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "proctor_") {
				n++
			}
		}
		return n
	}
	m.Observe("agent chose this", "and this", time.Second, 1, 2)
	before := series()
	for _, s := range []string{"a", "b\n", "proxy\"} 1", strings.Repeat("x", 1000)} {
		m.Observe(s, s, time.Second, 1, 2)
		m.Observe("proxy", "allowed", time.Second, 3, 4)
	}
	if got := series(); got != before {
		t.Errorf("%d series have become %d", before, got)
	}
	var b strings.Builder
	_ = m.Write(&b)
	for _, want := range []string{
		`proctor_door_requests_total{door="proxy",outcome="allowed"} 4`, `proctor_door_requests_total{door="other",outcome="other"} 5`,
		`proctor_door_bytes_total{direction="in",door="proxy"} 16`, `proctor_door_request_seconds_count{door="proxy"} 4`, "go_goroutines", "process_open_fds",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
}

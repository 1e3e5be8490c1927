package metrics

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/proctor-project/proctor/sidecar/door"
)

// The values of the labels; any other becomes "other".
func doors() []string    { return []string{"ask", "proxy", "npm", "services"} }
func outcomes() []string { return []string{"allowed", "refused", "failed"} }

const other = "other"

// Metrics are one session's numbers. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// New makes metrics, every series of them at zero.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "proctor_door_requests_total", Help: "Questions that a door has answered.",
		}, []string{"door", "outcome"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "proctor_door_bytes_total", Help: "Bytes that a door has carried for the agent: out of its container, or in.",
		}, []string{"door", "direction"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "proctor_door_request_seconds", Help: "Time from a question to the end of its answer; a tunnel's whole life.",
			Buckets: []float64{0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 600},
		}, []string{"door"}),
	}
	m.registry.MustRegister(m.requests, m.bytes, m.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, d := range doors() {
		for _, o := range outcomes() {
			m.requests.WithLabelValues(d, o)
		}
		m.seconds.WithLabelValues(d)
		m.bytes.WithLabelValues(d, "in")
		m.bytes.WithLabelValues(d, "out")
	}
	return m
}

// Observe counts one answered question.
func (m *Metrics) Observe(doorName, outcome string, took time.Duration, out, in int64) {
	d, o := oneOf(doorName, doors()), oneOf(outcome, outcomes())
	m.requests.WithLabelValues(d, o).Inc()
	if took > 0 {
		m.seconds.WithLabelValues(d).Observe(took.Seconds())
	}
	m.bytes.WithLabelValues(d, "out").Add(float64(max(0, out)))
	m.bytes.WithLabelValues(d, "in").Add(float64(max(0, in)))
}

func oneOf(s string, known []string) string {
	for _, k := range known {
		if s == k {
			return s
		}
	}
	return other
}

// Write writes all numbers in Prometheus' text format.
func (m *Metrics) Write(w io.Writer) error {
	families, err := m.registry.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	return nil
}

// Serve answers GET /metrics on the listener until ctx ends.
func (m *Metrics) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = m.Write(w)
	})
	return door.Run(ctx, l, mux, door.Bounds{
		Connections: 16, Header: 8 << 10, HeaderTimeout: 5 * time.Second, BodyTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
	})
}

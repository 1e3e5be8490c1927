package steps_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// filled is a control whose ledger has so many live records, and one for envrc.
func filled(b *testing.B, records int) *control {
	c := newControl(b)
	l, signer := c.openLedger()
	defer func() { _ = l.Close() }()
	const batch = 10_000
	for from := 0; from < records; from += batch {
		var acts []ledger.Entry
		for i := from; i < min(from+batch, records); i++ {
			p := ledger.NewPath(fmt.Sprintf("/home/me/project/some/path/%d/.envrc", i))
			p.SHA256, p.Scope, p.Decision = sumOf("x"), "user", ledger.Approved
			acts = append(acts, ledger.Entry{Time: time.Now(), By: "tester", Kind: ledger.KindApprove, Path: &p})
		}
		did, err := l.Act(b.Context(), signer, acts...)
		c.must(err)
		c.anchor.Count, c.anchor.Hash = did.Anchor.Count, did.Anchor.Hash
	}
	c.act(ledger.KindApprove, envrc, "one")
	return c
}

// asking sends content to one URL over a Unix socket, on one connection.
func asking(b *testing.B, socket, target, content string) func() {
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
	b.Cleanup(c.CloseIdleConnections)
	return func() {
		resp, err := c.Post("http://x"+target, "application/octet-stream", bytes.NewReader([]byte(content)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		_ = resp.Body.Close()
	}
}

// echo serves what it is sent, on the same kind of socket.
func echo(b *testing.B) string {
	socket := filepath.Join(newControl(b).dir, "echo")
	l, err := net.Listen("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(func() { _ = srv.Close() })
	return socket
}

// BenchmarkDecision is the budget "decision over the socket, recorded, within 1.5
// times a bare HTTP echo", and that it does not grow with the ledger: all in turns,
// medians as metrics.
func BenchmarkDecision(b *testing.B) {
	target := "/v1/trust/decide?path=" + url.QueryEscape(envrc)
	kinds := []string{"echo", "10", "1000", "100000"}
	ask := map[string]func(){"echo": asking(b, echo(b), "/", "one")}
	for i, n := range []int{10, 1000, 100_000} {
		s := filled(b, n).serving("aaaaaaaaaaaa")
		b.Cleanup(func() { _ = s.stop() })
		ask[kinds[i+1]] = asking(b, filepath.Join(s.layout.Sockets, steps.AgentSocket), target, "one")
	}
	times := map[string][]time.Duration{}
	const turns, each = 20, 200
	for b.Loop() {
		for range turns {
			for _, kind := range kinds {
				start := time.Now()
				for range each {
					ask[kind]()
				}
				times[kind] = append(times[kind], time.Since(start)/each)
			}
		}
	}
	bare := median(times["echo"])
	b.ReportMetric(float64(bare.Nanoseconds()), "ns-echo")
	for _, kind := range kinds[1:] {
		b.ReportMetric(float64(median(times[kind]).Nanoseconds()), "ns-"+kind)
		b.ReportMetric(float64(median(times[kind]))/float64(bare), "times-echo-"+kind)
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkApprove is the budget "approve under 50 ms inside the supervisor with
// 100,000 records": the whole verb, from a fresh start.
func BenchmarkApprove(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("%d records", n), func(b *testing.B) {
			c := filled(b, n)
			layout := c.layout
			layout.Known = &c.anchor
			p := wire.NewPath(envrc)
			for b.Loop() {
				in := bytes.NewBuffer(c.line(wire.TrustRequest{Schema: "proctor/trust/v1", Act: "approve", By: "tester", Path: &p}))
				in.Write(c.line(wire.Content{Schema: "proctor/content/v1", Size: 3}))
				in.WriteString("one")
				var out bytes.Buffer
				c.must(steps.Trust(b.Context(), layout, in, &out))
				var reply wire.TrustReply
				c.decode(out.Bytes(), &reply)
				c.anchor.Count, c.anchor.Hash = reply.Anchor.Count, reply.Anchor.Hash
			}
		})
	}
}

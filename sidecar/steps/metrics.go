package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

// maxMetrics bounds what serve's metrics may be, in bytes.
const maxMetrics = 4 << 20

// Metrics writes the numbers of a session's serve, which has to be running, in
// Prometheus' text format.
func Metrics(ctx context.Context, layout Layout, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(layout.Session, metricsSocket))
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://serve/metrics", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return &RefusedError{Err: errors.New("the session's supervisor does not run")}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics: %s", resp.Status)
	}
	_, err = io.Copy(stdout, io.LimitReader(resp.Body, maxMetrics))
	return err
}

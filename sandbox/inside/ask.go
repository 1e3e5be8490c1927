package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Session is the supervisor's answer to "who am I".
type Session struct {
	Session string `json:"session"`
	Role    string `json:"role"`
	Step    string `json:"step"`
	Product string `json:"product"`
}

// maxAnswer bounds an answer of the supervisor, in bytes.
const maxAnswer = 64 << 10

func client(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
}

// Ask asks the supervisor which session this is; it takes 10 seconds at most.
func Ask(ctx context.Context, socket string) (Session, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := get(ctx, socket, "/v1/session")
	if err != nil {
		return Session{}, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Session{}, nil, fmt.Errorf("read the supervisor's answer: %w", err)
	}
	var s Session
	if err := json.Unmarshal(raw, &s); err != nil {
		return Session{}, nil, fmt.Errorf("read the supervisor's answer: %w", err)
	}
	return s, raw, nil
}

func get(ctx context.Context, socket, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://supervisor"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client(socket).Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the supervisor at %s: %w", socket, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("ask the supervisor: it answered %s", resp.Status)
	}
	return resp, nil
}

// lifelines opens everything whose end must end the payload. The channel gets
// the first loss; close ends the watching.
func lifelines(ctx context.Context, cfg Config) (<-chan error, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	lost := make(chan error, 2)
	if cfg.Socket != "" {
		resp, err := get(ctx, cfg.Socket, "/v1/lifeline")
		if err != nil {
			cancel()
			return nil, nil, err
		}
		go func() {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if ctx.Err() == nil {
				lost <- errors.New("the supervisor is lost")
			}
		}()
	}
	if cfg.Lifeline {
		go func(f *os.File) {
			_, _ = io.Copy(io.Discard, f)
			lost <- errors.New("the launcher is lost")
		}(cfg.Stdin)
	}
	return lost, cancel, nil
}

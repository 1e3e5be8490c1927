package inside

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// MaxContent is the largest content that the supervisor decides about, in bytes.
const MaxContent = 1 << 20

// DecideFile shows the supervisor the content of a file, which is read once, and
// returns its decision.
func DecideFile(ctx context.Context, socket, path string) (wire.Decided, error) {
	var d wire.Decided
	content, err := readOnce(path)
	if err != nil {
		return d, err
	}
	query := url.Values{"path_base64": {base64.StdEncoding.EncodeToString([]byte(path))}}
	err = question(ctx, socket, http.MethodPost, "/v1/trust/decide?"+query.Encode(), content, &d)
	return d, err
}

// readOnce reads a regular file; a FIFO does not hold it up.
func readOnce(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxContent+1))
	if err != nil {
		return nil, err
	}
	if len(content) > MaxContent {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, MaxContent)
	}
	return content, nil
}

// Request asks the operator.
func Request(ctx context.Context, socket string, s wire.Subject, text string) (wire.Request, error) {
	var r wire.Request
	body, err := json.Marshal(wire.Ask{Schema: "proctor/ask/v1", Subject: s, Text: text})
	if err != nil {
		return r, err
	}
	return r, question(ctx, socket, http.MethodPost, "/v1/requests", body, &r)
}

// longest is how long the supervisor is asked to wait at once.
const longest = 30 * time.Second

// Answer returns the request with its answer, or as it stands when the time is
// over.
func Answer(ctx context.Context, socket, id string, wait time.Duration) (wire.Request, error) {
	until := time.Now().Add(wait)
	for {
		var r wire.Request
		left := min(time.Until(until), longest)
		path := "/v1/requests/" + url.PathEscape(id) + "?wait=" + strconv.Itoa(int(max(0, left.Seconds())))
		err := question(ctx, socket, http.MethodGet, path, nil, &r)
		if err != nil || r.State != wire.RequestWaiting || time.Until(until) < time.Second {
			return r, err
		}
	}
}

// Requests are all requests of this session.
func Requests(ctx context.Context, socket string) ([]wire.Request, error) {
	var all struct {
		Schema   string         `json:"schema"`
		Requests []wire.Request `json:"requests"`
	}
	err := question(ctx, socket, http.MethodGet, "/v1/requests", nil, &all)
	return all.Requests, err
}

// maxDocument bounds an answer to a question, in bytes.
const maxDocument = 1 << 20

// question asks the supervisor; both a yes and a no are answers.
func question(ctx context.Context, socket, method, path string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	c := client(socket)
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("ask the supervisor at %s: %w", socket, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return fmt.Errorf("read the supervisor's answer: %w", err)
	}
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	if resp.StatusCode != http.StatusOK {
		var failed struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal(raw, &failed); err == nil && failed.Error != "" {
			return errors.New(failed.Error)
		}
	}
	if err := strictjson.Unmarshal(raw, answer, strictjson.Limits{Size: maxDocument}); err != nil {
		return fmt.Errorf("the supervisor answered %s: %w", resp.Status, err)
	}
	return nil
}

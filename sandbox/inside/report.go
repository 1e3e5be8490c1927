package inside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// reporter is the lifeline over which this process, which nobody else watches,
// says how its payload ended.
type reporter struct {
	word   *io.PipeWriter
	answer io.ReadCloser
	lost   <-chan error
	stop   <-chan struct{} // the operator's wish, as the supervisor passes it on
	ack    <-chan string
}

// holdLine connects before the payload starts, so that nobody else can have the
// line.
func holdLine(ctx context.Context, socket string) (*reporter, error) {
	pr, pw := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://supervisor/v1/lifeline", pr)
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
	lost, stop, ack := make(chan error, 1), make(chan struct{}), make(chan string, 1)
	go func() {
		in := bufio.NewReader(io.LimitReader(resp.Body, maxAnswer))
		line, err := in.ReadString('\n')
		if err == nil && line == "stop\n" {
			close(stop)
			line, err = in.ReadString('\n')
		}
		if err != nil {
			lost <- errors.New("the supervisor is lost")
		}
		ack <- line
	}()
	return &reporter{word: pw, answer: resp.Body, lost: lost, stop: stop, ack: ack}, nil
}

// report says how the payload ended, and returns when that is recorded.
func (r *reporter) report(e ending, argv []string) error {
	b, err := json.Marshal(struct {
		Outcome string   `json:"outcome"`
		Exit    int      `json:"exit"`
		Argv    []string `json:"argv"`
	}{e.outcome, e.code, argv})
	if err != nil {
		return err
	}
	if _, err := r.word.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("report to the supervisor: %w", err)
	}
	if <-r.ack != "recorded\n" {
		return errors.New("the supervisor did not record how the command ended")
	}
	return errors.Join(r.word.Close(), r.answer.Close())
}

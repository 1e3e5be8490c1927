package steps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const chainPolicy = plainPolicy + "observer: {chain: allow}\nallow: [runtime-floor]\n"

// chain is a session without a launcher whose serve runs.
type chain struct {
	*control
	steps.ChainLayout
	product  string
	asked    steps.ChainAsked
	launched *steps.Launched
	serveIn  io.Reader
	served   chan error
	line     io.ReadCloser // what the newest lifeline is told
}

func newChain(t *testing.T) *chain {
	t.Helper()
	return newChainWith(t, nil, strings.NewReader(""))
}

func newChainWith(t *testing.T, launched *steps.Launched, serveIn io.Reader) *chain {
	t.Helper()
	c := stagedChain(t, map[string]string{"a.txt": "one\n"})
	c.launched, c.serveIn = launched, serveIn
	c.open(chainPolicy)
	return c
}

// stagedChain has a product in its stage, and no session yet.
func stagedChain(t *testing.T, files map[string]string) *chain {
	t.Helper()
	c := &chain{control: newControl(t), served: make(chan error, 1), serveIn: strings.NewReader("")}
	c.ChainLayout = steps.ChainLayout{Layout: c.layout}
	for name, dir := range map[string]*string{
		"b": &c.Baseline, "f": &c.Facts, "c": &c.Checks, "r": &c.Reader, "o": &c.Seals, "s": &c.Sockets,
		"part": &c.Session, "stage": &c.product, "e": &c.Release, "doors": &c.Secrets,
	} {
		*dir = filepath.Join(c.dir, name)
		c.must(os.MkdirAll(*dir, 0o700))
	}
	source := filepath.Join(c.dir, "source")
	c.must(os.Mkdir(source, 0o755))
	for name, text := range files {
		c.must(os.WriteFile(filepath.Join(source, name), []byte(text), 0o644))
	}
	from, err := os.Open(source)
	c.must(err)
	to, err := os.Open(c.product)
	c.must(err)
	owner := product.Owner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	c.must(steps.ChainStage(t.Context(), c.ChainLayout, steps.StageConfig{Source: from, Target: to, Owner: owner, Exclude: func(string) bool { return false }}))
	c.asked = steps.ChainAsked{Product: "/srv/site"}
	return c
}

func (c *chain) opening(policy string) steps.ChainOpening {
	return steps.ChainOpening{
		Product: c.asked.Product, Policy: []byte(policy), Images: []wire.Image{{For: "agent"}, {For: "supervisor"}}, Command: []string{"agent"}, Launched: c.launched,
	}
}

// open opens a session and has serve run.
func (c *chain) open(policy string) {
	c.Helper()
	c.asked.PolicySHA256 = sumOf(policy)
	c.must(steps.ChainOpen(c.Context(), c.ChainLayout, c.opening(policy), io.Discard))
	events, out := io.Pipe()
	ctx, cancel := context.WithCancel(c.Context())
	c.Cleanup(func() { cancel(); _ = events.Close() })
	go func() {
		c.served <- steps.ChainServe(ctx, c.ChainLayout, c.serveIn, out)
	}()
	if _, err := events.Read(make([]byte, 1<<16)); err != nil {
		c.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, events) }()
}

// hold takes a lifeline; say ends it with a word, or without one.
func (c *chain) hold(socket string) (status int, say func(word string) string) {
	c.Helper()
	pr, pw := io.Pipe()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(c.Context(), http.MethodPost, "http://s/v1/lifeline", pr)
	c.must(err)
	resp, err := client.Do(req)
	c.must(err)
	c.line = resp.Body
	return resp.StatusCode, func(word string) string {
		_, _ = io.WriteString(pw, word)
		_ = pw.Close()
		answer, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return string(answer)
	}
}

// heard reads exactly this from the newest lifeline.
func (c *chain) heard(want string) error {
	got := make([]byte, len(want))
	defer time.AfterFunc(20*time.Second, func() { _ = c.line.Close() }).Stop()
	if _, err := io.ReadFull(c.line, got); err != nil || string(got) != want {
		return fmt.Errorf("heard %q: %w", got, err)
	}
	return nil
}

func ended(outcome string, exit int, argv string) string {
	return fmt.Sprintf("{\"outcome\":%q,\"exit\":%d,\"argv\":[%s]}\n", outcome, exit, argv)
}

// processes runs the agent and the check to their reported ends.
func (c *chain) processes(check string) {
	c.Helper()
	agent, line := filepath.Join(c.Sockets, steps.AgentSocket), filepath.Join(c.Checks, "unit.sock")
	_, say := c.hold(agent)
	if status, _ := c.hold(agent); status != http.StatusConflict {
		c.Errorf("a second lifeline: %d", status)
	}
	if got := say(ended("exited", 4, `"agent"`)); got != "recorded\n" {
		c.Errorf("agent: %q", got)
	}
	c.must(steps.ChainBefore(c.Context(), c.ChainLayout, c.product, product.Limits{}))
	_, say = c.hold(line)
	if got := say(check); got != "recorded\n" {
		c.Errorf("check: %q", got)
	}
}

func (c *chain) read() {
	c.Helper()
	c.must(steps.ChainRead(c.Context(), c.ChainLayout, c.product, product.Limits{}))
	c.must(<-c.served)
}

// TestChain: what is reported from inside passes with consent, and only as the
// operator asked and the reader wrote.
func TestChain(t *testing.T) {
	c := newChain(t)
	c.processes(ended("exited", 0, `"sh","test.sh"`))
	c.read()
	other := c.asked
	other.PolicySHA256 = sumOf("another")
	var refused *steps.RefusedError
	if _, err := steps.ChainSeal(t.Context(), c.ChainLayout, other, strings.NewReader(""), io.Discard); !errors.As(err, &refused) {
		t.Errorf("another policy: %v", err)
	}
	stream := filepath.Join(c.Facts, "product.stream")
	whole, err := os.ReadFile(stream)
	c.must(err)
	c.must(os.WriteFile(stream, bytes.Replace(whole, []byte("a.txt"), []byte("b.txt"), 1), 0o644))
	if got, err := steps.ChainSeal(t.Context(), c.ChainLayout, c.asked, strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), "the reader's file is not the one") {
		t.Errorf("another stream: %+v, %v", got, err)
	}
	c.must(os.WriteFile(stream, whole, 0o644))
	got, err := steps.ChainSeal(t.Context(), c.ChainLayout, c.asked, strings.NewReader(""), io.Discard)
	if err != nil || got.Verdict != "PASS" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(c.Seals, got.Session+".json")); err != nil {
		t.Error(err)
	}
}

// TestChainIsNoPass: a check that is not as the policy says, or was ended, does
// not pass; a process that goes away without a word ends serve.
func TestChainIsNoPass(t *testing.T) {
	for name, report := range map[string]struct{ word, verdict string }{
		"another command": {ended("exited", 0, `"true"`), "INDETERMINATE"},
		"failed":          {ended("exited", 1, `"sh","test.sh"`), "FAIL"},
		"timeout":         {ended("timeout", 0, `"sh","test.sh"`), "FAIL"},
		"start":           {ended("start-failed", 0, `"sh","test.sh"`), "INDETERMINATE"},
		"its own word":    {ended("fine", 0, `"sh","test.sh"`), "INDETERMINATE"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t)
			c.processes(report.word)
			c.read()
			if got, err := steps.ChainSeal(t.Context(), c.ChainLayout, c.asked, strings.NewReader(""), io.Discard); err != nil || got.Verdict != report.verdict {
				t.Errorf("%+v, %v, want %s", got, err, report.verdict)
			}
		})
	}
	t.Run("lost", func(t *testing.T) {
		c := newChain(t)
		_, say := c.hold(filepath.Join(c.Sockets, steps.AgentSocket))
		if got := say(""); got != "" {
			t.Errorf("%q", got)
		}
		if err := <-c.served; err == nil {
			t.Error("serve ended well")
		}
		if got, err := steps.ChainSeal(t.Context(), c.ChainLayout, c.asked, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("sealed: %+v", got)
		}
	})
	t.Run("nothing ran", func(t *testing.T) {
		c := newChain(t)
		c.read()
		if got, err := steps.ChainSeal(t.Context(), c.ChainLayout, c.asked, strings.NewReader(""), io.Discard); err != nil || got.Verdict != "INDETERMINATE" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

package steps

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Rows that stand for what a launcher would have said.
const (
	rowEnded  = "process-ended"
	rowBefore = "tree-before"
	rowStream = "stream-handed"
)

// agentName is the agent's among the names of processes; a check's has no dot.
const agentName = ".agent"

// processReport is one process's end, as its first process told it.
type processReport struct {
	Name     string      `json:"name"`
	Ending   door.Ending `json:"ending"`
	Started  time.Time   `json:"started"`
	Finished time.Time   `json:"finished"`
}

// chainServing is serve without a launcher: the processes say themselves how
// they ended, and the reader says when all is over.
type chainServing struct {
	layout ChainLayout
	word   *io.PipeWriter  // close, or nothing
	stop   <-chan struct{} // a launcher that follows wants the agent to end
	serve  *serving

	mu    sync.Mutex
	ended map[string]bool // processes whose ends are recorded
}

// ChainServe answers until the reader has spoken, or a process went away
// without a word. On stdin a launcher that follows may say that the agent is to
// end; where there is none, there is nothing.
func ChainServe(ctx context.Context, c ChainLayout, stdin io.Reader, stdout io.Writer) error {
	part, err := safedir.Open(c.Session, c.Rules)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	unlock, err := serveIsGone(ctx, part)
	if err != nil {
		return err
	}
	defer unlock()
	session, err := sessionForServe(part)
	if err != nil {
		return err
	}
	first, err := c.serveRequest(part, session)
	if err != nil {
		return err // each time: an orchestrator that starts it again shows the last words
	}
	if err := part.CreateFile(serveOnce, nil); err != nil {
		return &RefusedError{Err: fmt.Errorf("serve started before in this session: %w", err)}
	}
	// What a killed serve left; nobody else has these for writing.
	if err := errors.Join(empty(c.Sockets), empty(c.Checks), empty(c.Reader)); err != nil {
		return err
	}
	pr, pw := io.Pipe()
	defer func() { _ = pr.Close() }()
	err = serve(ctx, c.Layout, io.MultiReader(bytes.NewReader(first), pr), stdout, &chainServing{layout: c, word: pw, stop: awaitStop(stdin)})
	if err != nil || !c.pod {
		return err
	}
	// A Pod's sidecar that ends is started again, so it stays until it is told.
	unlock()
	<-ctx.Done()
	return nil
}

// stopWord is a launcher's line that ends the agent; the audit still follows.
const stopWord = "stop\n"

func awaitStop(stdin io.Reader) <-chan struct{} {
	stop := make(chan struct{})
	go func() {
		if line, err := bufio.NewReader(io.LimitReader(stdin, int64(len(stopWord)))).ReadString('\n'); err == nil && line == stopWord {
			close(stop)
		}
	}()
	return stop
}

// ChainReady is whether serve listens; its doors come up together.
func ChainReady(ctx context.Context, c ChainLayout) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(c.Reader, AgentSocket))
	if err != nil {
		return err
	}
	return conn.Close()
}

// join adds the chain's doors to serve's.
func (c *chainServing) join(s *serving, part *safedir.Dir) error {
	if s.session.Request.Observer != observerChain {
		return fmt.Errorf("session %s was opened by a launcher", s.session.Session)
	}
	pol, err := sessionPolicy(part, s.session)
	if err != nil {
		return err
	}
	c.serve, c.ended, s.line = s, map[string]bool{}, c.line(agentName, "")
	before := agentName
	s.line.Stop = c.stop // a check is not ended early: it would not have run
	for _, check := range pol.Checks {
		s.inner = append(s.inner, c.checkDoor(check, before))
		before = check.Name
	}
	s.inner = append(s.inner, outsideDoor{filepath.Join(c.layout.Reader, AgentSocket), c.serveReader})
	return nil
}

// line is a process's lifeline. Checks see each other's sockets: nobody has one
// before the process that it comes after has ended, which is with all that it
// started.
func (c *chainServing) line(name, after string) *door.Line {
	var started time.Time
	return &door.Line{
		Early: func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return after != "" && !c.ended[after]
		},
		Connected: func() error {
			started = time.Now().UTC()
			return c.serve.row("lifeline", struct {
				Name string `json:"name"`
			}{name})
		},
		Ended: func(e door.Ending) error {
			if err := c.phase(rowEnded, processReport{name, e, started, time.Now().UTC()}); err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ended[name] = true
			return nil
		},
		Lost: func() {
			_ = c.serve.row("process-lost", struct {
				Name string `json:"name"`
			}{name})
			_ = c.word.Close()
		},
	}
}

// phase writes a row that an agent's questions leave space for.
func (c *chainServing) phase(kind string, data any) error {
	_, err := c.serve.record.Phase(kind, data)
	return err
}

func (c *chainServing) checkDoor(check policy.Check, after string) outsideDoor {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/lifeline", c.line(check.Name, after))
	return outsideDoor{filepath.Join(c.layout.Checks, check.Name+".sock"), func(ctx context.Context, l net.Listener) error {
		return door.Run(ctx, l, mux, innerBounds())
	}}
}

func innerBounds() door.Bounds {
	return door.Bounds{Connections: 64, Header: 16 << 10, HeaderTimeout: 5 * time.Second, BodyTimeout: 30 * time.Second, IdleTimeout: time.Minute}
}

// serveReader takes each of the reader's words once.
func (c *chainServing) serveReader(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	var before, stream sync.Once
	mux.HandleFunc("POST /v1/before", func(w http.ResponseWriter, r *http.Request) {
		var tree wire.ReadDigest
		once(&before, w, func() error { return c.take(r, rowBefore, &tree) })
	})
	mux.HandleFunc("POST /v1/close", func(w http.ResponseWriter, r *http.Request) {
		var handed streamHanded
		if once(&stream, w, func() error { return c.take(r, rowStream, &handed) }) {
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(c.word, closeWord+"\n")
		}
	})
	return door.Run(ctx, l, mux, innerBounds())
}

func once(o *sync.Once, w http.ResponseWriter, do func() error) bool {
	err := errors.New("said before")
	o.Do(func() { err = do() })
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return false
	}
	w.WriteHeader(http.StatusOK)
	return true
}

func (c *chainServing) take(r *http.Request, kind string, v any) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return err
	}
	if err := strictjson.Unmarshal(bytes.TrimSpace(b), v, strictjson.Limits{Size: 64 << 10}); err != nil {
		return err
	}
	return c.phase(kind, v)
}

// tell is the reader's side.
func tell(ctx context.Context, c ChainLayout, path string, body []byte) error {
	socket := filepath.Join(c.Reader, AgentSocket)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, chainWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://supervisor"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("tell the supervisor: %w", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("tell the supervisor: it answered %s", resp.Status)
	}
	return nil
}

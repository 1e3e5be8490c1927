package steps_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// plainPolicy has one check; its id is in every good seal request.
const plainPolicy = "version: 1\nchecks:\n  - name: unit\n    argv: [sh, test.sh]\n"

// control is keys and control in directories, as the parts are mounted in the
// supervisor's containers.
type control struct {
	testing.TB
	dir    string
	layout steps.Layout
	anchor wire.Anchor
}

func newControl(t testing.TB) *control {
	t.Helper()
	dir, err := os.MkdirTemp("", "p") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &control{TB: t, dir: dir, layout: steps.Layout{
		RootKeys: filepath.Join(dir, "root"), LedgerKeys: filepath.Join(dir, "ledgerkeys"),
		Ledger: filepath.Join(dir, "ledger"), Cache: filepath.Join(dir, "cache"), Sockets: filepath.Join(dir, "s"),
	}}
	for _, d := range []string{c.layout.RootKeys, c.layout.LedgerKeys, c.layout.Ledger, c.layout.Cache} {
		c.must(os.Mkdir(d, 0o700))
	}
	var out bytes.Buffer
	c.must(steps.Init(t.Context(), c.layout, "tester", &out))
	var reply wire.KeysReply
	c.decode(out.Bytes(), &reply)
	c.anchor = reply.Anchor
	return c
}

func (c *control) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *control) decode(b []byte, v any) {
	c.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		c.Fatalf("%v: %q", err, b)
	}
}

// tree makes a product and returns it with its stream.
func (c *control) tree(files map[string]string) (dir string, stream []byte) {
	c.Helper()
	dir, err := os.MkdirTemp(c.dir, "tree")
	c.must(err)
	for name, text := range files {
		c.must(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		c.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir, c.read(dir)
}

func (c *control) read(dir string) []byte {
	c.Helper()
	var out bytes.Buffer
	c.must(steps.Read(c.Context(), dir, product.Limits{}, &out))
	return out.Bytes()
}

// opened is a session between open and seal.
type opened struct {
	*control
	id     string
	layout steps.Layout
	before []byte // the baseline's stream
	reply  wire.OpenReply
	head   *wire.RecordHead // as serve closed it
}

func (c *control) openRequest(id, policy string) wire.OpenRequest {
	anchor := c.anchor
	digest := "sha256:" + strings.Repeat("a", 64)
	return wire.OpenRequest{
		Schema: "proctor/open/v1", Session: id, Product: wire.Path{Path: "/home/me/site"}, PolicyPath: "/home/me/policy.yaml",
		Policy: []byte(policy), Observer: "stdin", User: "tester", Started: time.Now().UTC(),
		Engine: wire.Engine{Name: "local", Runtime: "runc", RuntimeVersion: "1.5.3", RuntimeFloor: "ok", LimitsMissing: []string{}},
		Images: []wire.Image{{For: "supervisor", Kind: "supervisor", Digest: digest}, {For: "agent", Kind: "host", Digest: digest}},
		Files:  []wire.File{}, Waivers: []string{}, Command: []string{"agent"}, Anchor: &anchor,
	}
}

func (c *control) sessionLayout(id string) steps.Layout {
	l := c.layout
	l.Session = filepath.Join(c.dir, "session-"+id)
	return l
}

func (c *control) tryOpen(req wire.OpenRequest, stream []byte) (wire.OpenReply, error) {
	c.Helper()
	l := c.sessionLayout(req.Session)
	if err := os.Mkdir(l.Session, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		c.Fatal(err)
	}
	var out bytes.Buffer
	var reply wire.OpenReply
	err := steps.Open(c.Context(), l, io.MultiReader(bytes.NewReader(c.line(req)), bytes.NewReader(stream)), &out)
	if err == nil {
		c.decode(out.Bytes(), &reply)
		c.anchor = reply.Anchor
	}
	return reply, err
}

func (c *control) line(v any) []byte {
	c.Helper()
	b, err := json.Marshal(v)
	c.must(err)
	return append(b, '\n')
}

// open opens a session over a small product, and runs serve to its end.
func (c *control) open(id string) *opened {
	c.Helper()
	return c.openWith(id, plainPolicy)
}

func (c *control) openWith(id, policy string) *opened {
	c.Helper()
	_, stream := c.tree(map[string]string{"a.txt": "one\n", "test.sh": "exit 0\n"})
	reply, err := c.tryOpen(c.openRequest(id, policy), stream)
	c.must(err)
	o := &opened{control: c, id: id, layout: c.sessionLayout(id), before: stream, reply: reply}
	head, err := o.serve("close\n")
	c.must(err)
	o.head = head
	return o
}

// serve runs the serve step over an input, and returns the last head it told.
func (o *opened) serve(input string) (*wire.RecordHead, error) {
	o.Helper()
	o.must(os.MkdirAll(o.layout.Sockets, 0o755))
	defer func() { _ = os.RemoveAll(o.layout.Sockets) }()
	var out bytes.Buffer
	err := steps.Serve(o.Context(), o.layout, strings.NewReader(input), &out)
	var head *wire.RecordHead
	lines := bufio.NewScanner(&out)
	for lines.Scan() {
		var e wire.ServeEvent
		o.decode(lines.Bytes(), &e)
		head = &e.Record
	}
	return head, err
}

func (o *opened) path(name string) string { return filepath.Join(o.layout.Session, name) }

// rows writes rows as serve could: with its own key, after its last one.
func (o *opened) rows(kinds ...string) *wire.RecordHead {
	o.Helper()
	key, err := os.ReadFile(o.path("serve.key"))
	o.must(err)
	w, err := record.OpenAppend(o.layout.Session, safedir.Rules{}, record.Config{Session: o.id, Step: "serve", Key: keys.NewSecret(key)}, nil)
	o.must(err)
	var head record.Head
	for _, k := range kinds {
		head, err = w.Append(k, map[string]string{"verdict": "PASS"})
		o.must(err)
	}
	o.must(w.Close())
	return &wire.RecordHead{Count: head.Count, MAC: head.MAC}
}

// sealInput is everything that reaches the seal step.
type sealInput struct {
	req     wire.SealRequest
	stream  []byte
	outcome *wire.ReadOutcome
	after   []byte // behind the outcome
}

// input is a good one: the agent ended, the check passed, the reader read.
func (o *opened) input() sealInput {
	tree := o.reply.Baseline
	anchor := o.anchor
	return sealInput{
		req: wire.SealRequest{
			Schema: "proctor/seal/v1", Session: o.id, BeforeChecks: tree,
			Agent:      &wire.Process{Name: "agent", Argv: []string{"agent"}, Outcome: "exited", Reported: "engine"},
			Checks:     []wire.Process{{Name: "unit", Argv: []string{"sh", "test.sh"}, Outcome: "exited", Reported: "engine"}},
			Quiescence: []string{}, Containers: []wire.Container{}, RecordHead: o.head, Problems: []string{},
			Anchor: &anchor, Finished: time.Now().UTC(),
		},
		stream:  o.before,
		outcome: &wire.ReadOutcome{Schema: "proctor/read/v1", Containers: []wire.Container{}},
	}
}

func (o *opened) seal(in sealInput) (wire.SealReply, seal.Predicate, error) {
	o.Helper()
	return o.sealIn(o.layout, in)
}

func (o *opened) sealIn(layout steps.Layout, in sealInput) (wire.SealReply, seal.Predicate, error) {
	o.Helper()
	input := append(o.line(in.req), in.stream...)
	if in.outcome != nil {
		input = append(input, o.line(in.outcome)...)
	}
	var out bytes.Buffer
	var reply wire.SealReply
	ctx, cancel := context.WithTimeout(o.Context(), 30*time.Second)
	defer cancel()
	err := steps.Seal(ctx, layout, bytes.NewReader(append(input, in.after...)), &out)
	if err != nil {
		return reply, seal.Predicate{}, err
	}
	head, _, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	o.decode(head, &reply)
	payload, err := seal.Payload(reply.Seal)
	o.must(err)
	st, err := seal.Parse(payload)
	o.must(err)
	o.anchor = reply.Anchor
	return reply, st.Predicate, nil
}

// sealed asks the ledger what it knows of the session.
func (o *opened) sealed() wire.SealedSession {
	o.Helper()
	var out bytes.Buffer
	o.must(steps.Sealed(o.Context(), o.layout, o.id, &out))
	var s wire.SealedSession
	o.decode(out.Bytes(), &s)
	return s
}

// pass demands a PASS: the control of every test of a refusal.
func (o *opened) pass(in sealInput) {
	o.Helper()
	reply, p, err := o.seal(in)
	if err != nil || reply.Verdict != "PASS" {
		o.Fatalf("%v: verdict %q, %v", err, reply.Verdict, p.Reasons)
	}
}

// refused demands that nothing was sealed, for a reason, with a hint.
func (o *opened) refused(err error, reason, hint string) {
	o.Helper()
	var r *steps.RefusedError
	if !errors.As(err, &r) || !strings.Contains(r.Error(), reason) || r.Hint != hint {
		o.Errorf("error %v (%#v), want a refusal with %q and hint %q", err, r, reason, hint)
	}
	if n := o.sealed().Number; n != 0 {
		o.Errorf("the ledger has seal %d", n)
	}
}

func copyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chmod(filepath.Join(to, e.Name()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fill writes rows as serve until the record takes no more, and closes it.
func (o *opened) fill() *wire.RecordHead {
	o.Helper()
	key, err := os.ReadFile(o.path("serve.key"))
	o.must(err)
	w, err := record.OpenAppend(o.layout.Session, safedir.Rules{}, record.Config{Session: o.id, Step: "serve", Key: keys.NewSecret(key)}, nil)
	o.must(err)
	for _, size := range []int{16 << 10, 10} {
		for err == nil {
			_, err = w.Append("question", strings.Repeat("x", size))
		}
		if !errors.Is(err, record.ErrFull) {
			o.Fatal(err)
		}
		err = nil
	}
	head, err := w.Phase("closed", struct{}{})
	o.must(err)
	o.must(w.Close())
	return &wire.RecordHead{Count: head.Count, MAC: head.MAC}
}

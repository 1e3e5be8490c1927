package steps_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const launchedSession = "abcdefghijkm"

func podWord(t *testing.T, change func(*wire.PodWord)) string {
	t.Helper()
	w := wire.PodWord{Schema: "proctor/pod-word/v1", Session: launchedSession, Problems: []string{}, OOM: []string{}, Containers: []wire.Container{}}
	if change != nil {
		change(&w)
	}
	b, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// TestChainLaunched: a session that a launcher follows passes with its word and
// not without one, whatever else is right with it.
func TestChainLaunched(t *testing.T) {
	for name, tc := range map[string]struct {
		word, verdict, reason string
	}{
		"nothing to say":          {podWord(t, nil), "PASS", ""},
		"no word":                 {"", "INDETERMINATE", "the launcher's word"},
		"half a word":             {strings.TrimSuffix(podWord(t, nil), "\n"), "INDETERMINATE", "the launcher's word"},
		"of another session":      {podWord(t, func(w *wire.PodWord) { w.Session = "mmmmmmmmmmmm" }), "INDETERMINATE", "about something else"},
		"of another kind":         {podWord(t, func(w *wire.PodWord) { w.Schema = "proctor/read/v1" }), "INDETERMINATE", "about something else"},
		"a problem":               {podWord(t, func(w *wire.PodWord) { w.Problems = []string{"container agent was restarted"} }), "INDETERMINATE", "was restarted"},
		"a check without memory":  {podWord(t, func(w *wire.PodWord) { w.OOM = []string{"unit"} }), "FAIL", "oom"},
		"an agent without memory": {podWord(t, func(w *wire.PodWord) { w.OOM = []string{"agent"} }), "PASS", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChainWith(t, &steps.Launched{Session: launchedSession, User: "operator", Engine: wire.Engine{Name: "kubernetes"}}, strings.NewReader(""))
			c.processes(ended("exited", 0, `"sh","test.sh"`))
			c.read()
			var out bytes.Buffer
			got, err := steps.ChainSeal(t.Context(), c.ChainLayout, c.asked, strings.NewReader(tc.word), &out)
			c.must(err)
			if got.Verdict != tc.verdict || !strings.Contains(strings.Join(got.Reasons, "; "), tc.reason) || got.Session != launchedSession {
				t.Errorf("%s of %s: %q", got.Verdict, got.Session, got.Reasons)
			}
			line, rest, _ := bytes.Cut(out.Bytes(), []byte("\n"))
			var reply wire.SealReply
			c.must(json.Unmarshal(line, &reply))
			manifest, err := os.ReadFile(filepath.Join(c.Seals, launchedSession+".manifest"))
			c.must(err)
			record, err := os.ReadFile(filepath.Join(c.Session, "record"))
			c.must(err)
			if reply.Verdict != tc.verdict || reply.Tree == "" || !bytes.Equal(rest, append(manifest, record...)) || len(record) == 0 {
				t.Errorf("the launcher was answered %s, tree %q, and %d bytes more", reply.Verdict, reply.Tree, len(rest))
			}
		})
	}
}

// TestChainStop: a launcher's wish reaches the agent's first process, which still
// says how it ended; anything else on serve's input is nothing.
func TestChainStop(t *testing.T) {
	for said, heard := range map[string]string{"stop\n": "stop\nrecorded\n", "step\n": "recorded\n", "stop": "recorded\n"} {
		c := newChainWith(t, &steps.Launched{Session: launchedSession}, strings.NewReader(said))
		_, say := c.hold(filepath.Join(c.Sockets, steps.AgentSocket))
		if strings.HasPrefix(heard, "stop") { // before it has ended
			c.must(c.heard("stop\n"))
		}
		if got := say(ended("stopped", 143, `"agent"`)); got != strings.TrimPrefix(heard, "stop\n") {
			t.Errorf("%q: the agent heard %q", said, got)
		}
	}
}

// TestChainParcel: the product comes as one parcel, and goes home as one when a
// launcher asks for it.
func TestChainParcel(t *testing.T) {
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "a.txt"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &chain{control: newControl(t)}
	c.ChainLayout = steps.ChainLayout{Layout: c.layout, Baseline: t.TempDir(), Facts: t.TempDir()}
	var stream bytes.Buffer
	c.must(steps.Read(t.Context(), source, product.Limits{}, &stream))
	kept := filepath.Join(t.TempDir(), "stream")
	c.must(os.WriteFile(kept, stream.Bytes(), 0o600))
	open := func(path string) *os.File {
		f, err := os.Open(path)
		c.must(err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	var parcel bytes.Buffer
	c.must(steps.Pack(t.Context(), open(source), open(kept), &parcel))

	stage := t.TempDir()
	opts := product.UnpackOptions{StreamSHA256: sumOf(stream.String())}
	c.must(os.WriteFile(filepath.Join(stage, "old"), nil, 0o600)) // of an earlier run
	c.must(steps.ChainReceive(t.Context(), c.ChainLayout, stage, opts, bytes.NewReader(parcel.Bytes())))
	if got, err := os.ReadFile(filepath.Join(stage, "a.txt")); err != nil || string(got) != "one\n" {
		t.Errorf("received %q: %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(stage, "old")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stage was not emptied: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(c.Baseline, "baseline.stream")); err != nil || !bytes.Equal(got, stream.Bytes()) {
		t.Errorf("the baseline is another one: %v", err)
	}
	var refused *steps.RefusedError
	if err := steps.ChainReceive(t.Context(), c.ChainLayout, stage, opts, bytes.NewReader(parcel.Bytes()[:parcel.Len()-1])); !errors.As(err, &refused) {
		t.Errorf("a parcel that was cut: %v", err)
	}
	if left, _ := os.ReadDir(c.Baseline); len(left) != 0 {
		t.Errorf("a parcel that was cut left %d baselines", len(left))
	}

	c.must(os.WriteFile(filepath.Join(c.Facts, "product.stream"), stream.Bytes(), 0o600))
	if err := steps.ChainSend(t.Context(), c.ChainLayout, source, strings.NewReader(""), io.Discard); !errors.As(err, &refused) {
		t.Errorf("sent without being asked: %v", err)
	}
	var sent bytes.Buffer
	c.must(steps.ChainSend(t.Context(), c.ChainLayout, source, strings.NewReader("send\n"), &sent))
	if !bytes.Equal(sent.Bytes(), parcel.Bytes()) {
		t.Error("what was sent is another parcel")
	}
}

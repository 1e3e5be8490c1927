package steps_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const twoChecks = "version: 1\nchecks:\n  - {name: first, argv: [one]}\n  - {name: second, argv: [two]}\nobserver: {chain: allow}\nallow: [runtime-floor]\n"

// TestChainOrder: checks see each other's sockets, and none can speak for one
// that comes later, or for one that was.
func TestChainOrder(t *testing.T) {
	c := stagedChain(t, map[string]string{"a.txt": "one\n"})
	c.open(twoChecks)
	agent := filepath.Join(c.Sockets, steps.AgentSocket)
	first, second := filepath.Join(c.Checks, "first.sock"), filepath.Join(c.Checks, "second.sock")
	early := func(socket, when string) {
		t.Helper()
		if status, _ := c.hold(socket); status != http.StatusTooEarly {
			t.Errorf("%s: %d", when, status)
		}
	}
	early(first, "the first check before the agent")
	_, say := c.hold(agent)
	early(first, "the first check beside the agent")
	say(ended("exited", 0, `"agent"`))
	early(second, "the second check before the first")
	_, say = c.hold(first)
	early(second, "the second check by the first")
	if got := say(ended("exited", 1, `"one"`)); got != "recorded\n" {
		t.Errorf("first: %q", got)
	}
	status, say := c.hold(second) // its line is still its own
	if got := say(ended("exited", 0, `"two"`)); status != http.StatusOK || got != "recorded\n" {
		t.Errorf("second: %d, %q", status, got)
	}
	if status, _ := c.hold(first); status != http.StatusConflict {
		t.Errorf("the first check again, by the second: %d", status)
	}
}

func (c *chain) approve(path, text, expect string) error {
	p := wire.NewPath(path)
	_, err := steps.ChainTrust(c.Context(), c.ChainLayout, wire.TrustRequest{Act: "approve", By: "tester", Path: &p, Expect: expect}, strings.NewReader(text))
	return err
}

// TestChainTrust: only the bytes that were named by their digest are approved, and
// what a product brings along counts from then on.
func TestChainTrust(t *testing.T) {
	const own = "version: 1\nprotected: [\"*.txt\"]\n"
	c := stagedChain(t, map[string]string{"a.txt": "one\n", "proctor.yaml": own})
	var notes []string
	o := c.opening(chainPolicy)
	o.Note = func(text string) { notes = append(notes, text) }
	c.must(steps.ChainOpen(t.Context(), c.ChainLayout, o, io.Discard))
	if len(notes) != 1 || !strings.Contains(notes[0], "/srv/site/proctor.yaml narrows nothing: no_record, sha256:"+sumOf(own)) {
		t.Errorf("notes: %q", notes)
	}
	var refused *steps.RefusedError
	for what, err := range map[string]error{
		"no digest":     c.approve("/srv/site/proctor.yaml", own, ""),
		"other bytes":   c.approve("/srv/site/proctor.yaml", own+"#", sumOf(own)),
		"no input":      c.approve("/srv/site/proctor.yaml", "", sumOf(own)),
		"another digit": c.approve("/srv/site/proctor.yaml", own, sumOf(own+"#")),
	} {
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.must(c.approve("/srv/site/proctor.yaml", own, sumOf(own)))
	notes = nil
	c.must(steps.ChainOpen(t.Context(), c.ChainLayout, o, io.Discard))
	if len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
	if _, err := os.Stat(filepath.Join(c.Session, "product-policy.yaml")); err != nil {
		t.Error(err)
	}
}

// TestChainPackages: a package is approved by its whole identity, denied by name,
// and nothing less is taken.
func TestChainPackages(t *testing.T) {
	c := stagedChain(t, nil)
	ask := func(act string, p wire.Package) (wire.PackagesReply, error) {
		return steps.ChainPackages(t.Context(), c.ChainLayout, wire.PackagesRequest{Act: act, User: "tester", Packages: []wire.Package{p}})
	}
	whole := wire.Package{Registry: "https://registry.example.test", Name: "left-pad", Version: "1.3.0", Integrity: "sha512-" + strings.Repeat("A", 86) + "=="}
	for what, cut := range map[string]func(*wire.Package){
		"no registry": func(p *wire.Package) { p.Registry = "" }, "no version": func(p *wire.Package) { p.Version = "" },
		"no integrity": func(p *wire.Package) { p.Integrity = "" }, "half an integrity": func(p *wire.Package) { p.Integrity = "sha512-AAAA" },
		"a range": func(p *wire.Package) { p.Version = "^1.3.0" },
	} {
		p := whole
		cut(&p)
		var refused *steps.RefusedError
		if _, err := ask("approve", p); !errors.As(err, &refused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if reply, err := ask("approve", whole); err != nil || len(reply.Records) != 1 || reply.Records[0].Package != whole {
		t.Errorf("%+v, %v", reply, err)
	}
	if _, err := ask("deny", wire.Package{Registry: whole.Registry, Name: whole.Name}); err != nil {
		t.Error(err)
	}
	reply, err := steps.ChainPackages(t.Context(), c.ChainLayout, wire.PackagesRequest{Act: "list", User: "tester"})
	if err != nil || len(reply.Records) != 2 {
		t.Errorf("%+v, %v", reply, err)
	}
}

// TestChainNarrowed: what was rendered before cannot be narrowed by a product.
func TestChainNarrowed(t *testing.T) {
	for _, own := range []string{
		"version: 1\nagent: {timeout: 5s}\n", "version: 1\nagent: {limits: {pids: 16}}\n", "version: 1\nagent: {output: 64KiB}\n",
		"version: 1\nstage: {exclude: [\"tmp/**\"]}\n", "version: 1\naudit: {max_entries: 10}\n",
	} {
		c := stagedChain(t, map[string]string{"proctor.yaml": own})
		c.must(c.approve("/srv/site/proctor.yaml", own, sumOf(own)))
		err := steps.ChainOpen(t.Context(), c.ChainLayout, c.opening(chainPolicy), io.Discard)
		var refused *steps.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "write that into the policy") {
			t.Errorf("%s: %v", own, err)
		}
	}
}

// TestChainGives: what the doors need is checked when it is given, and its text is
// in no error.
func TestChainGives(t *testing.T) {
	c := stagedChain(t, nil)
	c.must(steps.ChainGiveSecret(c.ChainLayout, "model", strings.NewReader("canary-secret\n")))
	if b, err := os.ReadFile(filepath.Join(c.Secrets, "service-model")); err != nil || string(b) != "canary-secret" {
		t.Errorf("%q, %v", b, err)
	}
	for what, text := range map[string]string{"short": "canary", "two lines": "canary\nsecret\n", "long": strings.Repeat("canary", 2000), "space": "canary secret"} {
		err := steps.ChainGiveSecret(c.ChainLayout, "model", strings.NewReader(text))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := steps.ChainGiveRoots(c.ChainLayout, strings.NewReader("no certificate")); err == nil {
		t.Error("roots that are none")
	}
	const doors = chainPolicy + "egress: {door: open}\n"
	if err := steps.ChainOpen(t.Context(), c.ChainLayout, c.opening(doors), io.Discard); err == nil || !strings.Contains(err.Error(), "need a launcher") {
		t.Errorf("doors where the orchestrator gives none: %v", err)
	}
}

// TestChainApply: what apply goes by is handed over only for the newest seal, and
// the product gets the sealed bytes.
func TestChainApply(t *testing.T) {
	c := newChain(t)
	c.must(os.WriteFile(filepath.Join(c.product, "a.txt"), []byte("two\n"), 0o644))
	c.processes(ended("exited", 0, `"sh","test.sh"`))
	c.read()
	if err := steps.ChainRelease(t.Context(), c.ChainLayout); err == nil {
		t.Error("released without a seal")
	}
	got, err := steps.ChainSeal(t.Context(), c.ChainLayout, c.asked, strings.NewReader(""), io.Discard)
	if err != nil || got.Verdict != "PASS" {
		t.Fatalf("%+v, %v", got, err)
	}
	c.must(steps.ChainRelease(t.Context(), c.ChainLayout))
	source := filepath.Join(c.dir, "source")
	reply, session, err := steps.ChainApply(t.Context(), c.ChainLayout, source, c.product)
	if err != nil || session != got.Session || reply.Written != 1 || len(steps.Complain(reply)) != 0 {
		t.Errorf("%+v, %v", reply, err)
	}
	if b, err := os.ReadFile(filepath.Join(source, "a.txt")); err != nil || string(b) != "two\n" {
		t.Errorf("%q, %v", b, err)
	}
	// Neither a stage that changed since nor a product that did is written over.
	c.must(os.WriteFile(filepath.Join(c.product, "a.txt"), []byte("not what was sealed\n"), 0o644))
	c.must(os.WriteFile(filepath.Join(source, "a.txt"), []byte("one\n"), 0o644))
	if reply, _, err := steps.ChainApply(t.Context(), c.ChainLayout, source, c.product); err != nil || len(steps.Complain(reply)) == 0 {
		t.Errorf("a stage that changed: %+v, %v", reply, err)
	}
	c.must(os.WriteFile(filepath.Join(c.product, "a.txt"), []byte("two\n"), 0o644))
	c.must(os.WriteFile(filepath.Join(source, "a.txt"), []byte("the operator's\n"), 0o644))
	if reply, _, err := steps.ChainApply(t.Context(), c.ChainLayout, source, c.product); err != nil || len(reply.Conflicts) != 1 {
		t.Errorf("a product that changed: %+v, %v", reply, err)
	}
	if b, _ := os.ReadFile(filepath.Join(source, "a.txt")); string(b) != "the operator's\n" {
		t.Errorf("written over: %q", b)
	}
	env := filepath.Join(c.Seals, got.Session+".json")
	b, err := os.ReadFile(env)
	c.must(err)
	c.must(os.WriteFile(env, []byte(strings.Replace(string(b), "PASS", "pass", 1)+" "), 0o644))
	if err := steps.ChainRelease(t.Context(), c.ChainLayout); err == nil {
		t.Error("a seal that was changed was released")
	}
	if all, err := os.ReadDir(c.Release); err != nil || len(all) != 0 {
		t.Errorf("what is left of an earlier release: %v, %v", all, err)
	}
}

package seal_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 11, 30, 12, 2, 31, 0, time.UTC)

// sealed is a control, a product and a genuine seal over it.
type sealed struct {
	root     *keys.Root
	dir      string // the product
	env      []byte
	manifest []byte
	st       seal.Statement
}

func private(t testing.TB) string {
	t.Helper()
	d := filepath.Join(t.TempDir(), "d")
	must(t, os.Mkdir(d, 0o700))
	return d
}

// stream reads a product as the reader does.
func stream(t testing.TB, dir string) []byte {
	t.Helper()
	root, err := os.Open(dir)
	must(t, err)
	defer root.Close()
	var b bytes.Buffer
	enc := product.NewEncoder(&b)
	must(t, product.Walk(context.Background(), root, product.WalkOptions{Extractor: audit.NewExtractor()}, enc))
	_, err = enc.Close()
	must(t, err)
	return b.Bytes()
}

func newProduct(t testing.TB) string {
	t.Helper()
	d := private(t)
	must(t, os.MkdirAll(filepath.Join(d, "src"), 0o755))
	must(t, os.WriteFile(filepath.Join(d, "src", "pay.js"), []byte("pay()"), 0o644))
	must(t, os.WriteFile(filepath.Join(d, "a\n\x1b\xff"), []byte("x"), 0o644))
	must(t, os.Symlink("src", filepath.Join(d, "link")))
	return d
}

func sealOver(t testing.TB, dir string, change func(*seal.Predicate)) sealed {
	t.Helper()
	root, err := keys.CreateRoot(private(t), keys.Rules{})
	must(t, err)
	return sealWith(t, root, dir, change)
}

func sealWith(t testing.TB, root *keys.Root, dir string, change func(*seal.Predicate)) sealed {
	t.Helper()
	s := sealed{root: root, dir: dir}
	tree := stream(t, dir)
	var m bytes.Buffer
	sum, total, err := product.ManifestOf(bytes.NewReader(tree), &m, product.StreamLimits{})
	must(t, err)
	s.manifest = m.Bytes()
	indexes, err := audit.IndexDigests(product.NewDecoder(bytes.NewReader(tree), product.StreamLimits{}))
	must(t, err)
	p := predicate()
	p.Manifest = seal.Manifest{SHA256: hex.EncodeToString(sum[:]), Entries: total.Entries, Bytes: int64(m.Len())}
	for path, d := range indexes {
		p.GitIndexes = append(p.GitIndexes, seal.GitIndex{Path: wire.Path{Path: path}, SHA256: hex.EncodeToString(d[:])})
	}
	if change != nil {
		change(&p)
	}
	payload, err := seal.Build(p, &seal.Trees{Tree: total.Tree, Worktree: total.Worktree, GitExec: total.GitExec})
	must(t, err)
	s.st, err = seal.Parse(payload)
	must(t, err)
	s.env = s.sign(t, payload)
	return s
}

func (s sealed) sign(t testing.TB, payload []byte) []byte {
	t.Helper()
	signer, err := s.root.Signer(keys.DomainSeal, s.root.Current(), "")
	must(t, err)
	env, err := signer.Sign(context.Background(), seal.PayloadType, payload)
	must(t, err)
	return env
}

func digest(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

func predicate() seal.Predicate {
	trees := seal.Trees{Tree: digest("t"), Worktree: digest("w"), GitExec: digest("g"), StreamSHA256: digest("s"), Entries: 3}
	return seal.Predicate{
		Verdict: seal.Pass, Reasons: []string{}, Number: 1, Session: "7f3k2q", SessionSHA256: digest("session"), ControlID: "c",
		OpenedIn: 1, SealedIn: 1, Product: wire.Path{Path: "/home/me/site"}, User: "me", Observer: "stdin",
		Opened: noon, Finished: noon, Sealed: noon, PolicySHA256: digest("policy"), Command: []string{"agent"},
		Images: []wire.Image{}, Files: []wire.File{}, Engine: wire.Engine{LimitsMissing: []string{}}, Containers: []wire.Container{}, Waivers: []string{},
		Baseline: trees, Manifest: seal.Manifest{SHA256: digest("m")}, BeforeChecks: digest("t"),
		Agent:    &wire.Process{Name: "agent", Argv: []string{"agent"}, Outcome: "exited", Reported: "engine", Started: noon, Finished: noon},
		Checks:   []seal.Check{},
		Findings: []audit.Finding{}, Reviews: []audit.Review{}, Approvals: []seal.Approval{}, Problems: []string{}, AuditProblems: []string{},
		Record: wire.RecordHead{Count: 9, MAC: digest("mac")}, Ledger: seal.LedgerHead{Count: 2, Hash: digest("l")},
	}
}

// options are those of a verifier with the chain, manifest and product.
func (s sealed) options(t testing.TB) seal.Options {
	t.Helper()
	return seal.Options{Seal: s.env, PublicKey: seal.FromChain(s.root.Chain()), Manifest: bytes.NewReader(s.manifest), Product: bytes.NewReader(stream(t, s.dir))}
}

func (s sealed) control(t testing.TB) *keys.Verifier {
	t.Helper()
	v, err := s.root.Verifier(keys.DomainSeal, 0, "")
	must(t, err)
	return v
}

// statuses is a report's rows as "name=status".
func statuses(r seal.Report) string {
	var all []string
	for _, row := range r.Rows {
		all = append(all, row.Name+"="+string(row.Status))
	}
	return strings.Join(all, " ")
}

func expect(t *testing.T, o seal.Options, exit int, want string) seal.Report {
	t.Helper()
	r, err := seal.Verify(o)
	must(t, err)
	if got := statuses(r); r.Exit != exit || got != want {
		t.Fatalf("exit %d, %s (%s)\nwant %d, %s\n%+v", r.Exit, got, r.Outcome, exit, want, r.Rows)
	}
	if r.Verified != strings.HasPrefix(r.Outcome, "genuine seal") || r.Verified == strings.HasPrefix(r.Outcome, "NOT VERIFIED") {
		t.Fatalf("verified %v: %s", r.Verified, r.Outcome)
	}
	return r
}

const wellPublic = "signature=ok hmac=-- ledger=-- manifest=ok product=ok"

func TestK5PublicKeyAlone(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	r := expect(t, s.options(t), 0, wellPublic)
	if r.Statement == nil || r.Statement.Predicate.Session != "7f3k2q" {
		t.Fatal("no statement")
	}
	o := s.options(t)
	o.Manifest, o.Product = nil, nil
	expect(t, o, 0, "signature=ok hmac=-- ledger=-- manifest=-- product=--")
	single, ok := s.root.Chain().Public(keys.DomainSeal, 1)
	if !ok {
		t.Fatal("no key")
	}
	b, err := json.Marshal(single)
	must(t, err)
	o = s.options(t)
	o.PublicKey, err = seal.ParsePublicKey(b)
	must(t, err)
	expect(t, o, 0, wellPublic)
	chain, err := s.root.Chain().MarshalJSON()
	must(t, err)
	o = s.options(t)
	o.PublicKey, err = seal.ParsePublicKey(chain)
	must(t, err)
	expect(t, o, 0, wellPublic)
}

func TestK5Control(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	o := s.options(t)
	o.PublicKey, o.Control = seal.PublicKey{}, s.control(t)
	expect(t, o, 0, "signature=ok hmac=ok ledger=-- manifest=ok product=ok")
	o = s.options(t)
	o.Control, o.Seal = s.control(t), spoilHMAC(t, s.env)
	expect(t, o, 1, "signature=ok hmac=NO")
	o.Control = nil
	expect(t, o, 0, wellPublic) // the public key cannot tell
}

func spoilHMAC(t testing.TB, env []byte) []byte {
	t.Helper()
	var d map[string]any
	must(t, json.Unmarshal(env, &d))
	d["signatures"].([]any)[0].(map[string]any)["sig"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	b, err := json.Marshal(d)
	must(t, err)
	return b
}

func TestK5NoKey(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	o := s.options(t)
	o.PublicKey = seal.PublicKey{}
	if _, err := seal.Verify(o); !errors.Is(err, seal.ErrNoKey) {
		t.Fatalf("got %v", err)
	}
}

func TestK5ForeignKeys(t *testing.T) {
	s, other := sealOver(t, newProduct(t), nil), sealOver(t, newProduct(t), nil)
	o := s.options(t)
	o.PublicKey = seal.FromChain(other.root.Chain())
	r := expect(t, o, 1, "signature=NO")
	if r.Statement != nil {
		t.Fatal("the claims of an unverified seal are shown")
	}
	o.PublicKey, o.Control = seal.PublicKey{}, other.control(t)
	expect(t, o, 1, "hmac=NO")
	ledgerKey, _ := s.root.Chain().Public(keys.DomainLedger, 1)
	b, err := json.Marshal(ledgerKey)
	must(t, err)
	for name, in := range map[string][]byte{"another domain": b, "empty": nil, "not JSON": []byte("ssh-ed25519 AAAA"), "the seal": s.env} {
		if _, err := seal.ParsePublicKey(in); err == nil {
			t.Errorf("%s taken for a key", name)
		}
	}
}

func TestK5Product(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		line   string
	}{
		"one bit": {func(t *testing.T, d string) {
			must(t, os.WriteFile(filepath.Join(d, "src/pay.js"), []byte("pax()"), 0o644))
		}, "differs  src/pay.js"},
		"a mode":  {func(t *testing.T, d string) { must(t, os.Chmod(filepath.Join(d, "src/pay.js"), 0o755)) }, "mode 0755, sealed 0644  src/pay.js"},
		"removed": {func(t *testing.T, d string) { must(t, os.Remove(filepath.Join(d, "src/pay.js"))) }, "missing  src/pay.js"},
		"added":   {func(t *testing.T, d string) { must(t, os.WriteFile(filepath.Join(d, ".env"), nil, 0o644)) }, "not in the seal  .env"},
		"a link's target": {func(t *testing.T, d string) {
			must(t, os.Remove(filepath.Join(d, "link")))
			must(t, os.Symlink("srC", filepath.Join(d, "link")))
		}, "differs  link"},
		"a type": {func(t *testing.T, d string) {
			must(t, os.Remove(filepath.Join(d, "link")))
			must(t, os.Mkdir(filepath.Join(d, "link"), 0o755))
		}, "dir, sealed as symlink  link"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sealOver(t, newProduct(t), nil)
			c.change(t, s.dir)
			r := expect(t, s.options(t), 1, "signature=ok hmac=-- ledger=-- manifest=ok product=NO")
			if lines := r.Rows[4].Lines; len(lines) != 1 || lines[0] != c.line {
				t.Fatalf("lines %q", lines)
			}
			o := s.options(t)
			o.Manifest = nil
			expect(t, o, 1, "signature=ok hmac=-- ledger=-- manifest=-- product=NO")
		})
	}
}

func TestK5AnotherSessionsProduct(t *testing.T) {
	s, other := sealOver(t, newProduct(t), nil), newProduct(t)
	must(t, os.WriteFile(filepath.Join(other, "more"), nil, 0o644))
	o := s.options(t)
	o.Product = bytes.NewReader(stream(t, other))
	expect(t, o, 1, "signature=ok hmac=-- ledger=-- manifest=ok product=NO")
	foreign := sealOver(t, other, nil)
	o = s.options(t)
	o.Manifest = bytes.NewReader(foreign.manifest)
	expect(t, o, 1, "signature=ok hmac=-- ledger=-- manifest=NO product=ok")
	// Both of the other session: the manifest explains nothing.
	o.Manifest, o.Product = bytes.NewReader(foreign.manifest), bytes.NewReader(stream(t, other))
	expect(t, o, 1, "signature=ok hmac=-- ledger=-- manifest=NO product=NO")
}

func TestUnreadableProductIsNotAnAnswer(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	whole := stream(t, s.dir)
	for name, in := range map[string][]byte{"cut": whole[:len(whole)-5], "empty": {}, "noise": []byte("noise"), "more": append(slices.Clone(whole), 0)} {
		o := s.options(t)
		o.Product = bytes.NewReader(in)
		r, err := seal.Verify(o)
		must(t, err)
		if r.Exit != 3 || r.Verified {
			t.Errorf("%s: exit %d, %s", name, r.Exit, statuses(r))
		}
	}
}

func TestK5AfterGitStatus(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := newProduct(t)
	run := func(args ...string) {
		c := exec.CommandContext(t.Context(), git, append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	run("init", "-q")
	run("add", "src")
	run("commit", "-q", "-m", "x")
	s := sealOver(t, dir, nil)
	if len(s.st.Predicate.GitIndexes) != 1 {
		t.Fatalf("indexes %v", s.st.Predicate.GitIndexes)
	}
	before, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	must(t, err)
	old := noon.Add(-time.Hour)
	must(t, os.Chtimes(filepath.Join(dir, "src/pay.js"), old, old))
	run("status")
	after, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	must(t, err)
	if bytes.Equal(before, after) {
		t.Fatal("positive control: git status rewrote nothing")
	}
	r := expect(t, s.options(t), 0, wellPublic)
	if !strings.Contains(r.Rows[4].Detail, ".git/index as git rewrites it") {
		t.Errorf("not told: %s", r.Rows[4].Detail)
	}
	o := s.options(t)
	o.Exact = true
	expect(t, o, 1, "signature=ok hmac=-- ledger=-- manifest=ok product=NO")
	o = s.options(t)
	o.Manifest = nil
	expect(t, o, 1, "signature=ok hmac=-- ledger=-- manifest=-- product=NO")
	index := filepath.Join(dir, ".git/index")
	must(t, os.Chmod(index, 0o755))
	expect(t, s.options(t), 1, "signature=ok hmac=-- ledger=-- manifest=ok product=NO")
	must(t, os.Chmod(index, 0o644))
	expect(t, s.options(t), 0, wellPublic)
	// An index that means something else is a difference.
	must(t, os.WriteFile(filepath.Join(dir, "src/pay.js"), []byte("evil"), 0o644))
	run("add", "src")
	must(t, os.WriteFile(filepath.Join(dir, "src/pay.js"), []byte("pay()"), 0o644))
	r = expect(t, s.options(t), 1, "signature=ok hmac=-- ledger=-- manifest=ok product=NO")
	if !slices.Contains(r.Rows[4].Lines, "differs  .git/index") {
		t.Errorf("lines %q", r.Rows[4].Lines)
	}
}

// TestManifestIsBoundTwice: by its own digest, and by the tree that it lists.
func TestManifestIsBoundTwice(t *testing.T) {
	s, other := sealOver(t, newProduct(t), nil), newProduct(t)
	must(t, os.Chmod(filepath.Join(other, "src"), 0o700))
	foreign := sealWith(t, s.root, other, nil)
	p := s.st.Predicate
	p.Verdict, p.Reasons = seal.Indeterminate, []string{"the reader died"}
	for name, c := range map[string]struct {
		trees    *seal.Trees
		manifest []byte
		want     seal.Status
	}{
		"no tree, own manifest":     {nil, s.manifest, seal.OK},
		"no tree, another manifest": {nil, foreign.manifest, seal.NO},
		"another tree":              {&seal.Trees{Tree: foreign.st.SubjectDigest("tree"), Worktree: foreign.st.SubjectDigest("worktree"), GitExec: foreign.st.SubjectDigest("git-exec")}, s.manifest, seal.NO},
	} {
		payload, err := seal.Build(p, c.trees)
		must(t, err)
		o := s.options(t)
		o.Seal, o.Manifest, o.Product = s.sign(t, payload), bytes.NewReader(c.manifest), nil
		r, err := seal.Verify(o)
		must(t, err)
		if r.Rows[3].Name != seal.RowManifest || r.Rows[3].Status != c.want {
			t.Errorf("%s: %s", name, statuses(r))
		}
	}
}

func TestLeftOutIsNotJudged(t *testing.T) {
	s := sealOver(t, newProduct(t), func(p *seal.Predicate) { p.LeftOut = []wire.Path{{Path: "cache"}} })
	must(t, os.MkdirAll(filepath.Join(s.dir, "cache/x"), 0o755))
	r := expect(t, s.options(t), 0, wellPublic)
	if !strings.Contains(r.Rows[4].Detail, "2 entries that were left out") {
		t.Errorf("not told: %s", r.Rows[4].Detail)
	}
	must(t, os.Mkdir(filepath.Join(s.dir, "cache2"), 0o755))
	expect(t, s.options(t), 1, "signature=ok hmac=-- ledger=-- manifest=ok product=NO")
}

func TestK5RotationSince(t *testing.T) {
	for _, reason := range []keys.Reason{keys.Routine, keys.Leaked} {
		dir := private(t)
		root, err := keys.CreateRoot(dir, keys.Rules{})
		must(t, err)
		s := sealWith(t, root, newProduct(t), nil)
		next, err := root.Rotate(reason)
		must(t, err)
		o := s.options(t)
		o.PublicKey = seal.FromChain(next.Chain())
		c := s.options(t)
		c.PublicKey = seal.PublicKey{}
		c.Control, err = next.Verifier(keys.DomainSeal, 0, "")
		must(t, err)
		if reason == keys.Routine {
			expect(t, o, 0, wellPublic)
			expect(t, c, 0, "signature=ok hmac=ok ledger=-- manifest=ok product=ok")
			continue
		}
		r := expect(t, o, 1, "signature=NO")
		if !strings.Contains(r.Outcome, "compromised") {
			t.Errorf("outcome %s", r.Outcome)
		}
		expect(t, c, 1, "hmac=NO")
	}
}

func TestVerdictsAndExits(t *testing.T) {
	for v, exit := range map[seal.Verdict]int{seal.Pass: 0, seal.Fail: 1, seal.Indeterminate: 3} {
		s := sealOver(t, newProduct(t), func(p *seal.Predicate) {
			p.Verdict, p.Waivers = v, []string{"one-identity"}
			if v != seal.Pass {
				p.Reasons = []string{"because"}
			}
		})
		r := expect(t, s.options(t), exit, wellPublic)
		if want := "genuine seal, verdict " + string(v) + "; waived: one-identity"; r.Outcome != want {
			t.Errorf("%s", r.Outcome)
		}
	}
}

func TestRequire(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	for name, exit := range map[string]int{seal.RowSignature: 0, seal.RowManifest: 0, seal.RowProduct: 0, seal.RowHMAC: 1, seal.RowLedger: 1} {
		o := s.options(t)
		o.Require = []string{name}
		expect(t, o, exit, wellPublic)
	}
	o := s.options(t)
	o.Require = []string{"comit"}
	if _, err := seal.Verify(o); err == nil {
		t.Error("an unknown requirement is ignored")
	}
	o = s.options(t)
	o.Require, o.Product = []string{seal.RowProduct}, nil
	expect(t, o, 1, "signature=ok hmac=-- ledger=-- manifest=ok product=--")
}

func TestUnreadableSeal(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	o := s.options(t)
	for name, env := range map[string][]byte{
		"empty": {}, "noise": []byte("x"), "cut": s.env[:len(s.env)-9], "trailing": append(slices.Clone(s.env), '{'),
		"signed noise": s.sign(t, []byte("{}")), "signed, unknown field": s.sign(t, []byte(`{"more":1}`)),
	} {
		o.Seal = env
		r, err := seal.Verify(o)
		must(t, err)
		if r.Exit != 3 || r.Verified || r.Statement != nil {
			t.Errorf("%s: exit %d, %s", name, r.Exit, statuses(r))
		}
	}
	flipped := bytes.Replace(s.env, []byte(`"payload":"ey`), []byte(`"payload":"eY`), 1)
	o.Seal = flipped
	expect(t, o, 1, "signature=NO")
}

func TestLedgerKnowsTheNewest(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	lv, err := s.root.Verifier(keys.DomainLedger, 0, "")
	must(t, err)
	signer, err := s.root.Signer(keys.DomainLedger, 1, "")
	must(t, err)
	l, _, err := ledger.Create(t.Context(), private(t), safedir.Rules{}, ledger.Trust{ControlID: s.root.ControlID(), Verifier: lv}, signer, "me", noon)
	must(t, err)
	defer l.Close()
	act := func(n int, digest, verdict string) {
		_, err := l.Act(t.Context(), signer, ledger.Entry{
			Time: noon, By: "me", Kind: ledger.KindSeal,
			Seal: &ledger.SealAct{Session: "7f3k2q", SealDigest: digest, Verdict: verdict, Number: n},
		})
		must(t, err)
	}
	with := func() seal.Options {
		o := s.options(t)
		o.Control = s.control(t)
		o.Ledger, err = l.View()
		must(t, err)
		return o
	}
	expect(t, with(), 1, "signature=ok hmac=ok ledger=NO manifest=ok product=ok")
	act(1, fmt.Sprintf("%x", sha256.Sum256(s.env)), "PASS")
	expect(t, with(), 0, "signature=ok hmac=ok ledger=ok manifest=ok product=ok")
	act(2, digest("newer"), "FAIL")
	r := expect(t, with(), 1, "signature=ok hmac=ok ledger=NO manifest=ok product=ok")
	if !strings.Contains(r.Outcome, "seal 2 says FAIL") {
		t.Errorf("outcome %s", r.Outcome)
	}
}

// TestInToto: the payload is a statement to the reference library, too.
func TestInToto(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	_, payload, err := keys.Payload(s.env)
	must(t, err)
	var st intoto.Statement
	must(t, protojson.Unmarshal(payload, &st))
	must(t, st.Validate())
	if st.GetSubject()[0].GetName() != "tree" || st.GetPredicate().GetFields()["verdict"].GetStringValue() != "PASS" {
		t.Fatalf("%v", &st)
	}
}

func TestParseRefuses(t *testing.T) {
	s := sealOver(t, newProduct(t), nil)
	_, payload, err := keys.Payload(s.env)
	must(t, err)
	text := string(payload)
	for name, in := range map[string]string{
		"duplicate key":         strings.Replace(text, `"verdict":"PASS"`, `"verdict":"FAIL","verdict":"PASS"`, 1),
		"case-variant key":      strings.Replace(text, `"verdict"`, `"Verdict"`, 1),
		"missing field":         strings.Replace(text, `"reasons":[],`, ``, 1),
		"unknown verdict":       strings.Replace(text, `"verdict":"PASS"`, `"verdict":"OK"`, 1),
		"another type":          strings.Replace(text, `Statement/v1`, `Statement/v0.1`, 1),
		"subject dropped":       strings.Replace(text, `{"name":"git-exec"`, `{"name":"git"`, 1),
		"PASS with a reason":    strings.Replace(text, `"reasons":[]`, `"reasons":["x"]`, 1),
		"PASS with a problem":   strings.Replace(text, `"problems":[]`, `"problems":["x"]`, 1),
		"FAIL without a reason": strings.Replace(text, `"verdict":"PASS"`, `"verdict":"FAIL"`, 1),
		"PASS with a finding":   strings.Replace(text, `"findings":[]`, `"findings":[{"class":"trap","kind":"hook","approvable":true,"approved":false}]`, 1),
		"seal 2 without seal 1": strings.Replace(text, `"number":1`, `"number":2`, 1),
		"trailing data":         text + "{}",
	} {
		if in == text {
			t.Fatalf("%s: nothing was spoiled", name)
		}
		if _, err := seal.Parse([]byte(in)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	approved := strings.Replace(text, `"findings":[]`, `"findings":[{"class":"trap","kind":"hook","approvable":true,"approved":true}]`, 1)
	_, err = seal.Parse([]byte(approved))
	must(t, err)
}

func TestBuildOfNoProduct(t *testing.T) {
	p := predicate()
	if _, err := seal.Build(p, nil); err == nil {
		t.Fatal("PASS over no product")
	}
	p.Verdict, p.Reasons = seal.Indeterminate, []string{"the reader died"}
	payload, err := seal.Build(p, nil)
	must(t, err)
	st, err := seal.Parse(payload)
	if err != nil || st.SubjectDigest("tree") != "" || st.SubjectDigest("session") == "" {
		t.Fatalf("%+v %v", st.Subject, err)
	}
	p.Checks = []seal.Check{check("oom", 137, 137)}
	p.Verdict, p.Reasons = seal.Pass, []string{}
	if _, err := seal.Build(p, &seal.Trees{Tree: digest("t"), Worktree: digest("w"), GitExec: digest("g")}); err == nil {
		t.Fatal("PASS with a check that did not pass")
	}
}

func FuzzParse(f *testing.F) {
	p := predicate()
	p.Checks = []seal.Check{check("exited", 0, 0)}
	payload, err := seal.Build(p, &seal.Trees{Tree: digest("t"), Worktree: digest("w"), GitExec: digest("g")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := seal.Parse(b)
		if err != nil {
			return
		}
		p := st.Predicate
		trees := &seal.Trees{Tree: st.SubjectDigest("tree"), Worktree: st.SubjectDigest("worktree"), GitExec: st.SubjectDigest("git-exec")}
		if trees.Tree == "" {
			trees = nil
			p.SessionSHA256 = st.SubjectDigest("session")
		}
		again, err := seal.Build(p, trees)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := seal.Parse(again); err != nil {
			t.Fatal(err)
		}
	})
}

package keys_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func privateDir(t *testing.T) string {
	t.Helper()
	d := filepath.Join(t.TempDir(), "root")
	must(t, os.Mkdir(d, 0o700))
	return d
}

func newRoot(t *testing.T) (*keys.Root, string) {
	t.Helper()
	d := privateDir(t)
	r, err := keys.CreateRoot(d, keys.Rules{})
	must(t, err)
	return r, d
}

func TestK1RootKeyFile(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f string)
		says  string // "" is fine
	}{
		"positive control": {func(*testing.T, string) {}, ""},
		"mode 0644":        {func(t *testing.T, f string) { must(t, os.Chmod(f, 0o644)) }, "mode 0644"},
		"symlink":          {func(t *testing.T, f string) { must(t, os.Rename(f, f+"2")); must(t, os.Symlink(f+"2", f)) }, "link"},
		"hard link":        {func(t *testing.T, f string) { must(t, os.Link(f, f+"2")) }, "2 links"},
		"short":            {func(t *testing.T, f string) { must(t, os.Truncate(f, 31)) }, "31 bytes"},
		"empty":            {func(t *testing.T, f string) { must(t, os.Truncate(f, 0)) }, "0 bytes"},
		"huge":             {func(t *testing.T, f string) { must(t, os.Truncate(f, 1<<20)) }, "more than"},
		"FIFO":             {func(t *testing.T, f string) { must(t, os.Remove(f)); must(t, unix.Mkfifo(f, 0o600)) }, "regular"},
		"missing":          {func(t *testing.T, f string) { must(t, os.Remove(f)) }, "no such file"},
		"another key": {func(t *testing.T, f string) {
			must(t, os.WriteFile(f, bytes.Repeat([]byte{7}, 32), 0o600))
		}, "not the key's own"},
		"one byte more": {func(t *testing.T, f string) {
			b, err := os.ReadFile(f)
			must(t, err)
			must(t, os.WriteFile(f, append(b, '\n'), 0o600))
		}, "not the key's own"},
		"parent writable by others": {func(t *testing.T, f string) { must(t, os.Chmod(filepath.Dir(filepath.Dir(f)), 0o777)) }, "writable by others"},
		"chain missing":             {func(t *testing.T, f string) { must(t, os.Remove(filepath.Join(filepath.Dir(f), "chain.json"))) }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, d := newRoot(t)
			c.spoil(t, filepath.Join(d, "epoch-1.key"))
			_, err := keys.OpenRoot(d, keys.Rules{})
			if c.says == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q in it", err, c.says)
			}
		})
	}
}

func TestCreateRootRefusesASecondTime(t *testing.T) {
	_, d := newRoot(t)
	before, err := os.ReadFile(filepath.Join(d, "epoch-1.key"))
	must(t, err)
	if _, err := keys.CreateRoot(d, keys.Rules{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("got %v", err)
	}
	after, err := os.ReadFile(filepath.Join(d, "epoch-1.key"))
	if err != nil || !bytes.Equal(before, after) || len(after) != 32 {
		t.Fatal("the key changed")
	}
}

func TestCreateRootCompletesAnInterruptedCreation(t *testing.T) {
	r, d := newRoot(t)
	must(t, os.Remove(filepath.Join(d, "chain.json")))
	again, err := keys.CreateRoot(d, keys.Rules{})
	if err != nil || again.ControlID() != r.ControlID() || again.Chain().Extends(r.Chain()) != nil {
		t.Fatalf("got %v", err)
	}
	_, err = keys.OpenRoot(d, keys.Rules{})
	must(t, err)
	must(t, os.Remove(filepath.Join(d, "chain.json")))
	must(t, os.WriteFile(filepath.Join(d, "epoch-2.key"), make([]byte, 32), 0o600))
	if _, err := keys.CreateRoot(d, keys.Rules{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("two keys without a chain: %v", err)
	}
}

// document is an envelope taken apart, for spoiling it.
type document struct {
	PayloadType string           `json:"payloadType"`
	Payload     string           `json:"payload"`
	Signatures  []map[string]any `json:"signatures"`
}

func TestK2Envelope(t *testing.T) {
	r, _ := newRoot(t)
	s, err := r.Signer(keys.DomainSeal, 1, "s1")
	must(t, err)
	env, err := s.Sign(context.Background(), "a/b", []byte(`{"x":1}`))
	must(t, err)
	both, err := r.Verifier(keys.DomainSeal, 1, "s1")
	must(t, err)
	public, err := r.Chain().Verifier(keys.DomainSeal, 0)
	must(t, err)
	other, err := r.Signer(keys.DomainLedger, 1, "s1")
	must(t, err)
	foreign, _ := newRoot(t)
	fs, err := foreign.Signer(keys.DomainSeal, 1, "s1")
	must(t, err)
	spoil := func(f func(d *document)) []byte {
		var d document
		must(t, json.Unmarshal(env, &d))
		f(&d)
		b, err := json.Marshal(d)
		must(t, err)
		return b
	}
	sign := func(s *keys.Signer) []byte {
		b, err := s.Sign(context.Background(), "a/b", []byte(`{"x":1}`))
		must(t, err)
		return b
	}
	text := string(env)
	cases := map[string][]byte{
		"wrong payload type": spoil(func(d *document) { d.PayloadType = "a/c" }),
		"payload changed":    spoil(func(d *document) { d.Payload = base64.StdEncoding.EncodeToString([]byte(`{"x":2}`)) }),
		"no signatures":      spoil(func(d *document) { d.Signatures = nil }),
		"empty signatures":   spoil(func(d *document) { d.Signatures = d.Signatures[:0] }),
		"ed25519 only":       spoil(func(d *document) { d.Signatures = d.Signatures[1:] }),
		"hmac only":          spoil(func(d *document) { d.Signatures = d.Signatures[:1] }),
		"hmac twice":         spoil(func(d *document) { d.Signatures[1] = d.Signatures[0] }),
		"ed25519 twice":      spoil(func(d *document) { d.Signatures[0] = d.Signatures[1] }),
		"an extra signature": spoil(func(d *document) { d.Signatures = append(d.Signatures, d.Signatures[0]) }),
		"order swapped":      spoil(func(d *document) { d.Signatures[0], d.Signatures[1] = d.Signatures[1], d.Signatures[0] }),
		"key ids swapped": spoil(func(d *document) {
			a, b := d.Signatures[0], d.Signatures[1]
			a["keyid"], b["keyid"] = b["keyid"], a["keyid"]
		}),
		"no key id":                 spoil(func(d *document) { delete(d.Signatures[1], "keyid") }),
		"unknown key id":            spoil(func(d *document) { d.Signatures[1]["keyid"] = "ed25519:00" }),
		"alg none":                  spoil(func(d *document) { d.Signatures[1]["alg"] = "none" }),
		"key id none, no signature": spoil(func(d *document) { d.Signatures[1]["keyid"], d.Signatures[1]["sig"] = "none", "" }),
		"no signature bytes":        spoil(func(d *document) { d.Signatures[1]["sig"] = "" }),
		"no hmac bytes":             spoil(func(d *document) { d.Signatures[0]["sig"] = "" }),
		"own key inside":            spoil(func(d *document) { d.Signatures[1]["key"] = fs.Public().Key }),
		"another domain":            sign(other),
		"another control":           sign(fs),
		"duplicate key":             []byte(strings.Replace(text, `"payload":`, `"payload":"","payload":`, 1)),
		"case-variant key":          []byte(strings.Replace(text, `"payload":`, `"Payload":`, 1)),
		"unknown field":             []byte(strings.Replace(text, `{`, `{"alg":"none",`, 1)),
		"trailing data":             []byte(text + "{}"),
		"NaN":                       []byte(strings.Replace(text, `"payloadType":"a/b"`, `"payloadType":NaN`, 1)),
		"invalid UTF-8":             []byte(strings.Replace(text, `a/b`, "a/\xff", 1)),
		"deep":                      []byte(strings.Replace(text, `"a/b"`, strings.Repeat("[", 10000)+strings.Repeat("]", 10000), 1)),
		"base64 with a line break":  []byte(strings.Replace(text, `"payload":"`, `"payload":"\n`, 1)),
		"empty":                     nil,
	}
	for vname, v := range map[string]*keys.Verifier{"both": both, "public": public} {
		got, err := v.VerifyDetail(env, "a/b")
		if err != nil || string(got.Payload) != `{"x":1}` || got.Epoch != 1 || got.HMAC != (vname == "both") {
			t.Fatalf("positive control, %s: %+v %v", vname, got, err)
		}
		for name, in := range cases {
			if got, err := v.Verify(in, "a/b"); err == nil || got != nil {
				t.Errorf("%s: accepted: %s", vname, name)
			}
		}
	}
	flipped := spoil(func(d *document) { d.Signatures[0]["sig"] = base64.StdEncoding.EncodeToString(make([]byte, 32)) })
	if _, err := both.Verify(flipped, "a/b"); !errors.Is(err, keys.ErrSignature) {
		t.Errorf("wrong hmac: %v", err)
	}
	elsewhere, err := r.Verifier(keys.DomainSeal, 1, "s2")
	must(t, err)
	if _, err := elsewhere.Verify(env, "a/b"); !errors.Is(err, keys.ErrSignature) {
		t.Errorf("another session's verifier: %v", err)
	}
}

func TestK5Rotation(t *testing.T) {
	for _, reason := range []keys.Reason{keys.Routine, keys.Leaked} {
		t.Run(string(reason), func(t *testing.T) {
			r, d := newRoot(t)
			s, err := r.Signer(keys.DomainSeal, 1, "s")
			must(t, err)
			env, err := s.Sign(context.Background(), "t", []byte("{}"))
			must(t, err)
			_, err = r.Rotate(reason)
			must(t, err)
			now, err := keys.OpenRoot(d, keys.Rules{})
			must(t, err)
			if now.Current() != 2 || now.ControlID() != r.ControlID() {
				t.Fatalf("epoch %d, control %s", now.Current(), now.ControlID())
			}
			if _, err := now.Signer(keys.DomainSeal, 1, "s"); err == nil {
				t.Error("the old epoch signs")
			}
			_, err = now.Signer(keys.DomainSeal, 2, "s")
			must(t, err)
			must(t, now.Chain().Extends(r.Chain()))
			if now.Chain().Extends(now.Chain()) != nil || r.Chain().Extends(now.Chain()) == nil {
				t.Error("the older chain extends the newer one")
			}
			published, err := now.Chain().MarshalJSON()
			must(t, err)
			chain, err := keys.ParseChain(published)
			must(t, err)
			trusted := reason == keys.Routine
			for name, f := range map[string]func() error{
				"public, any epoch": func() error { return verify(chain.Verifier(keys.DomainSeal, 0))(env) },
				"public, epoch 1":   func() error { return verify(chain.Verifier(keys.DomainSeal, 1))(env) },
				"both, any epoch":   func() error { return verify(now.Verifier(keys.DomainSeal, 0, "s"))(env) },
				"both, epoch 1":     func() error { return verify(now.Verifier(keys.DomainSeal, 1, "s"))(env) },
				"record key":        func() error { _, err := now.RecordKey(1, "s", "serve"); return err },
			} {
				if err := f(); (err == nil) != trusted {
					t.Errorf("%s: %v", name, err)
				}
			}
			if trusted != (chain.State(1) == keys.Superseded) || chain.State(2) != keys.Active || chain.State(3) != "" || chain.State(0) != "" {
				t.Errorf("states %s %s", chain.State(1), chain.State(2))
			}
			if _, err := chain.Verifier(keys.DomainSeal, 1); !trusted && !errors.Is(err, keys.ErrCompromised) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func verify(v *keys.Verifier, err error) func([]byte) error {
	return func(env []byte) error {
		if err != nil {
			return err
		}
		_, err := v.Verify(env, "t")
		return err
	}
}

func TestRotateInterruptedLeavesTheOldState(t *testing.T) {
	r, d := newRoot(t)
	must(t, os.WriteFile(filepath.Join(d, "epoch-2.key"), make([]byte, 32), 0o600))
	again, err := keys.OpenRoot(d, keys.Rules{})
	must(t, err)
	if again.Current() != 1 {
		t.Fatalf("epoch %d", again.Current())
	}
	_, err = r.Rotate(keys.Routine)
	must(t, err)
	again, err = keys.OpenRoot(d, keys.Rules{})
	if err != nil || again.Current() != 2 {
		t.Fatalf("after: %v", err)
	}
}

func TestChainIsRefused(t *testing.T) {
	r, _ := newRoot(t)
	two, err := r.Rotate(keys.Routine)
	must(t, err)
	other, _ := newRoot(t)
	otherTwo, err := other.Rotate(keys.Routine)
	must(t, err)
	type row struct {
		Own    json.RawMessage `json:"own"`
		Before json.RawMessage `json:"before,omitempty"`
	}
	type doc struct {
		Schema  string `json:"schema"`
		Control string `json:"control_id"`
		Epochs  []row  `json:"epochs"`
	}
	load := func(r *keys.Root) (d doc) {
		b, err := r.Chain().MarshalJSON()
		must(t, err)
		must(t, json.Unmarshal(b, &d))
		return d
	}
	foreign := load(otherTwo)
	for name, f := range map[string]func(d *doc){
		"positive control":             func(*doc) {},
		"first epoch dropped":          func(d *doc) { d.Epochs = d.Epochs[1:] },
		"swapped":                      func(d *doc) { d.Epochs[0], d.Epochs[1] = d.Epochs[1], d.Epochs[0] },
		"not signed by the one before": func(d *doc) { d.Epochs[1].Before = d.Epochs[1].Own },
		"signature before missing":     func(d *doc) { d.Epochs[1].Before = nil },
		"another's second epoch":       func(d *doc) { d.Epochs[1] = foreign.Epochs[1] },
		"another's own, our before":    func(d *doc) { d.Epochs[1].Own = foreign.Epochs[1].Own },
		"twice":                        func(d *doc) { d.Epochs = append(d.Epochs, d.Epochs[1]) },
		"empty":                        func(d *doc) { d.Epochs = nil },
		"another schema":               func(d *doc) { d.Schema = "x" },
		"another control":              func(d *doc) { d.Control = foreign.Control },
	} {
		d := load(two)
		f(&d)
		b, err := json.Marshal(d)
		must(t, err)
		c, err := keys.ParseChain(b)
		if (err == nil) != (name == "positive control") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (!errors.Is(err, keys.ErrChain) || c.Current() != 0) {
			t.Errorf("%s: %v, %d epochs", name, err, c.Current())
		}
	}
	if err := otherTwo.Chain().Extends(r.Chain()); !errors.Is(err, keys.ErrChain) {
		t.Errorf("another control's chain extends ours: %v", err)
	}
}

func TestSubkeysDiffer(t *testing.T) {
	r, _ := newRoot(t)
	two, err := r.Rotate(keys.Routine)
	must(t, err)
	seen := map[string]string{}
	add := func(name string, s keys.Secret, err error) {
		must(t, err)
		k := string(s.Reveal())
		if len(k) != keys.KeySize || seen[k] != "" {
			t.Errorf("%s: %d bytes, the same as %q", name, len(k), seen[k])
		}
		seen[k] = name
	}
	for _, c := range []struct {
		epoch         keys.Epoch
		session, step string
	}{{1, "a", "b"}, {2, "a", "b"}, {1, "ab", "c"}, {1, "a", "bc"}, {1, "b", "a"}} {
		s, err := two.RecordKey(c.epoch, c.session, c.step)
		add(fmt.Sprint(c), s, err)
	}
	for _, c := range [][2]string{{"", "x"}, {"x", ""}} {
		if _, err := two.RecordKey(1, c[0], c[1]); err == nil {
			t.Errorf("a record key for %q", c)
		}
	}
	if _, err := two.RecordKey(3, "a", "b"); err == nil {
		t.Error("a key of an epoch to come")
	}
	if _, err := two.Signer(keys.DomainRecord, 2, "a"); err == nil {
		t.Error("the record's domain signs envelopes")
	}
}

func TestLedgerKeys(t *testing.T) {
	r, _ := newRoot(t)
	dir := privateDir(t)
	must(t, r.WriteLedgerKeys(dir, keys.Rules{}))
	k, err := keys.OpenLedgerKeys(dir, keys.Rules{})
	must(t, err)
	env, err := k.Signer().Sign(context.Background(), "t", []byte("{}"))
	must(t, err)
	must(t, verify(r.Verifier(keys.DomainLedger, 1, ""))(env))
	must(t, verify(k.Verifier())(env))
	if verify(r.Verifier(keys.DomainSeal, 1, ""))(env) == nil {
		t.Error("a ledger key signed in the seal's domain")
	}
	two, err := r.Rotate(keys.Routine)
	must(t, err)
	must(t, two.WriteLedgerKeys(dir, keys.Rules{}))
	k2, err := keys.OpenLedgerKeys(dir, keys.Rules{})
	must(t, err)
	must(t, verify(k2.Verifier())(env))
	three, err := two.Rotate(keys.Leaked)
	must(t, err)
	must(t, three.WriteLedgerKeys(dir, keys.Rules{}))
	k3, err := keys.OpenLedgerKeys(dir, keys.Rules{})
	must(t, err)
	env2, err := k2.Signer().Sign(context.Background(), "t", []byte("{}"))
	must(t, err)
	if verify(k3.Verifier())(env2) == nil {
		t.Error("a compromised epoch's key is believed")
	}
	file := filepath.Join(dir, "signing.json")
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", st.Mode(), err)
	}
	for _, secret := range rootBytes(t, r, two, three) {
		b, err := os.ReadFile(file)
		must(t, err)
		if bytes.Contains(b, []byte(base64.StdEncoding.EncodeToString(secret))) {
			t.Error("a root key is in the ledger's keys")
		}
	}
}

func rootBytes(t *testing.T, roots ...*keys.Root) (all [][]byte) {
	for _, r := range roots {
		all = append(all, canary(t, r)...)
	}
	return all
}

// canary finds the secret bytes of a root by the files that it was made of.
func canary(t *testing.T, r *keys.Root) [][]byte {
	s, err := r.RecordKey(r.Current(), "s", "x")
	must(t, err)
	return [][]byte{s.Reveal()}
}

func TestSecretsDoNotPrint(t *testing.T) {
	r, d := newRoot(t)
	raw, err := os.ReadFile(filepath.Join(d, "epoch-1.key"))
	must(t, err)
	rec, err := r.RecordKey(1, "s", "serve")
	must(t, err)
	signer, err := r.Signer(keys.DomainSeal, 1, "s")
	must(t, err)
	ver, err := r.Verifier(keys.DomainSeal, 1, "s")
	must(t, err)
	ldir := privateDir(t)
	must(t, r.WriteLedgerKeys(ldir, keys.Rules{}))
	lk, err := keys.OpenLedgerKeys(ldir, keys.Rules{})
	must(t, err)
	marked := keys.NewSecret(bytes.Repeat([]byte("K"), 32))
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	ltext := slog.New(slog.NewTextHandler(&out, nil))
	for _, v := range []any{r, *r, rec, &rec, signer, *signer, ver, *ver, lk, *lk, marked, []keys.Secret{marked}, struct{ S keys.Secret }{marked}, struct{ s keys.Secret }{marked}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		log.Info("x", "v", v)
		ltext.Info("x", "v", v)
		if b, err := json.Marshal(v); err == nil {
			out.Write(b)
		}
	}
	text := out.String()
	for name, b := range map[string][]byte{"root": raw, "record": rec.Reveal(), "marked": marked.Reveal()} {
		for _, form := range []string{
			string(b), fmt.Sprintf("%x", b), fmt.Sprintf("%X", b), strings.Trim(fmt.Sprint(b), "[]"), base64.StdEncoding.EncodeToString(b),
			strings.Trim(fmt.Sprintf("%#v", b), "[]byte{}"),
		} {
			if strings.Contains(text, form) {
				t.Errorf("%s key in the output", name)
			}
		}
	}
	if !strings.Contains(text, "[redacted]") {
		t.Error("nothing was redacted: the test prints nothing")
	}
	if _, err := json.Marshal(rec); err == nil {
		t.Error("a secret was marshalled")
	}
	if fmt.Sprint(marked) != "[redacted]" {
		t.Errorf("a secret prints as %v", marked)
	}
}

func FuzzEnvelope(f *testing.F) {
	d := filepath.Join(f.TempDir(), "root")
	if err := os.Mkdir(d, 0o700); err != nil {
		f.Fatal(err)
	}
	r, err := keys.CreateRoot(d, keys.Rules{})
	if err != nil {
		f.Fatal(err)
	}
	v, err := r.Chain().Verifier(keys.DomainSeal, 0)
	if err != nil {
		f.Fatal(err)
	}
	other, err := r.Signer(keys.DomainLedger, 1, "")
	if err != nil {
		f.Fatal(err)
	}
	seed, err := other.Sign(context.Background(), "t", []byte("{}"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"payloadType":"t","payload":"","signatures":[{"keyid":"","sig":""},{"keyid":"","sig":""}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := v.Verify(b, "t"); err == nil {
			t.Fatal("verified")
		}
	})
}

func FuzzParseChain(f *testing.F) {
	d := filepath.Join(f.TempDir(), "root")
	if err := os.Mkdir(d, 0o700); err != nil {
		f.Fatal(err)
	}
	r, err := keys.CreateRoot(d, keys.Rules{})
	if err != nil {
		f.Fatal(err)
	}
	seed, err := r.Chain().MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := keys.ParseChain(b)
		if err != nil {
			return
		}
		out, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := keys.ParseChain(out)
		if err != nil || again.Extends(c) != nil || c.Extends(again) != nil {
			t.Fatalf("not stable: %v", err)
		}
	})
}

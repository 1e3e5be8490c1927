package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/proctor-project/proctor/sidecar/hosts"
)

func (c corpusCase) text() string {
	if c.whole {
		return c.doc
	}
	return "version: 1\n" + c.doc
}

func TestParseCorpus(t *testing.T) {
	for _, c := range corpus() {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			p, err := Parse("FILE", []byte(c.text()))
			if err != nil {
				var e *Error
				if !errors.As(err, &e) || p != nil {
					t.Fatalf("Parse = %v, %T", p, err)
				}
				for _, l := range e.Lines() {
					l = strings.TrimPrefix(strings.TrimPrefix(l, "FILE:"), " ")
					got = append(got, l)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s\nof:\n%s", diff, c.text())
			}
		})
	}
}

func TestErrorNamesFileLineAndField(t *testing.T) {
	_, err := Parse("/etc/p.yaml", []byte("version: 1\nallow: [x]\nchecks: 1\n"))
	want := "/etc/p.yaml:2: allow[0]: \"x\" is not one of: runtime-floor, one-identity, no-limits, shared-network\n" +
		"/etc/p.yaml:3: checks: is \"1\"; a list is needed"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestParseFull(t *testing.T) {
	listed := func(s string) hosts.Pattern {
		t.Helper()
		p, err := hosts.ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	data := []byte("version: 1\n" + full)
	got, err := Parse("FILE", data)
	if err != nil {
		t.Fatal(err)
	}
	glob := func(s string) Glob {
		g, err := ParseGlob(s)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	name := func(s string) NameGlob {
		g, err := ParseNameGlob(s)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	want := &Policy{
		Agent: Agent{
			Engine: EngineDocker, Runtime: RuntimeRunsc, Image: Image{ImageRef, "busybox:1.36"},
			Command: []string{"sh", "-c", "echo hi"},
			Env:     []EnvVar{{"LANG", "C.UTF-8"}, {"N", "010"}}, EnvPass: []string{"TERM"},
			Limits: Limits{512 << 20, 100, 1500, 1024}, Output: 10 << 20,
			Timeout: 90 * time.Minute, Grace: 5 * time.Second,
			Mounts: []Mount{{"/opt/tools", "/opt/tools", true}, {"/opt/data", "/data", false}},
		},
		Checks: []Check{
			{
				Name: "unit", Argv: []string{"python3", "/check/run.py"}, Image: Image{ImageRootfs, "/srv/check"},
				Dir: "sub/dir", Expect: 3, Timeout: 90 * time.Second, Output: 1 << 20,
				Limits: Limits{1 << 30, 512, 2000, 4096},
				Files:  []File{{"/home/me/conftest.py", "tests/conftest.py"}}, Form: FormTwoProcess,
			},
			{
				Name: "lint", Argv: []string{"lint"}, Image: Image{ImageRef, "busybox:1.36"},
				Dir: ".", Timeout: 10 * time.Minute, Output: 16 << 20,
				Limits: Limits{2 << 30, 512, 2000, 4096}, Form: FormOneProcess,
			},
		},
		Stage:     Stage{Exclude: []Glob{glob("**/.env"), glob("node_modules")}},
		Protected: []Glob{glob(".github/workflows/*"), glob(`app/\[id\]/page.tsx`)},
		Classes:   Classes{Review: HandleFail, Tree: HandleList},
		Audit:     Audit{10, 1 << 20, 2 << 30, 5 * time.Minute},
		Allow:     []Waiver{WaiveRuntimeFloor, WaiveOneIdentity},
		Observer:  Observer{Chain: Allow},
		Packages: Packages{
			Registry: "https://registry.example.test/npm/",
			Allow:    []NameGlob{name("@me/*"), name("left-pad")}, Deny: []NameGlob{name("evil*")},
		},
		Egress: Egress{
			Door:  Opened,
			Allow: []hosts.Pattern{listed("*.example.test:443"), listed("10.0.0.5:8080")},
			Deny:  []hosts.Pattern{listed("bad.example.test:443")},
		},
		Services: []Service{
			{
				Name: "model", Base: "https://api.openai.com", Auth: Auth{AuthHeader, "Authorization", "Bearer "},
				Secret: SecretRef{Keyring: "model"}, Methods: []string{"GET", "POST"}, Paths: []string{"/v1/"},
			},
			{
				Name: "other", Base: "http://other.example.test:8000/api", Auth: Auth{AuthHeader, "X-Token", "Token "},
				Secret: SecretRef{File: "/home/me/token"}, Methods: []string{"POST"}, Paths: []string{"/v2/", "/v3/x/"},
			},
		},
		Ports: Ports{8080, 8081, 8082},
	}
	opts := []cmp.Option{cmpopts.IgnoreUnexported(Policy{}), cmp.AllowUnexported(Glob{}, NameGlob{})}
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	sum := sha256.Sum256(data)
	if got.Digest() != hex.EncodeToString(sum[:]) {
		t.Errorf("Digest() = %s", got.Digest())
	}
	if !got.Allows(WaiveOneIdentity) || got.Allows(WaiveNoLimits) {
		t.Error("Allows is wrong")
	}
}

// smallest is the policy that says nothing.
func smallest(t *testing.T) *Policy {
	t.Helper()
	p, err := Parse("smallest", []byte("version: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDefaultsAreTheTemplatesAndStrict(t *testing.T) {
	d := smallest(t)
	p, err := Parse("template", []byte(Template()))
	if err != nil {
		t.Fatal(err)
	}
	opts := []cmp.Option{cmpopts.IgnoreUnexported(Policy{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(d, p, opts...); diff != "" {
		t.Errorf("template (-default +template):\n%s", diff)
	}
	if d.Egress.Door != Closed || len(d.Services) > 0 || len(d.Allow) > 0 || d.Observer.Chain != Refuse || d.Classes.Tree != HandleFail || len(d.Agent.Mounts) > 0 || len(d.Agent.EnvPass) > 0 {
		t.Errorf("the default policy gives something up: %+v", d)
	}
	var zero struct {
		H Handling
		C Consent
	}
	if zero.H != HandleFail || zero.C != Refuse {
		t.Error("a zero value is not the strict one")
	}
}

// TestTemplateExamples takes the comment sign from every example and reads the
// result: an example that no longer parses misleads a new operator.
func TestTemplateExamples(t *testing.T) {
	example := regexp.MustCompile(`(?m)^( *)#(\S|  )`)
	doc := example.ReplaceAllString(Template(), "$1$2")
	doc = strings.Replace(doc, "\nchecks: []\n", "\n", 1)
	doc = strings.Replace(doc, "\nservices: []\n", "\n", 1)
	doc = strings.Replace(doc, "door: closed ", "door: open ", 1)
	doc = strings.Replace(doc, "kind: host  ", "kind: rootfs", 1)
	p, err := Parse("template with its examples", []byte(doc))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	if len(p.Services) != 1 || len(p.Egress.Allow) != 2 || len(p.Checks) != 1 || len(p.Agent.Mounts) != 1 || p.Packages.Registry == "" ||
		p.Agent.Image.Kind != ImageRootfs || len(p.Agent.EnvPass) != 1 || len(p.Agent.Command) != 1 {
		t.Errorf("an example was not read:\n%s", doc)
	}
	if left := regexp.MustCompile(`(?m)^ *#.*$`).FindAllString(doc, -1); len(left) > 16 {
		t.Errorf("%d comment lines are left: %q", len(left), left)
	}
}

func TestParseBounds(t *testing.T) {
	big := "version: 1\n# " + strings.Repeat("x", MaxSize)
	if _, err := Parse("FILE", []byte(big)); err == nil || err.Error() != "FILE: is larger than 1MiB" {
		t.Errorf("large file: %v", err)
	}
	deep := "version: 1\nagent: " + strings.Repeat("[", 20000)
	if _, err := Parse("FILE", []byte(deep)); err == nil {
		t.Error("a deep file was read")
	}
	var many strings.Builder
	many.WriteString("version: 1\n")
	for i := range 2000 {
		fmt.Fprintf(&many, "f%d: x\n", i)
	}
	_, err := Parse("FILE", []byte(many.String()))
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) != maxProblems {
		t.Errorf("%d problems are reported, want %d", len(e.Problems), maxProblems)
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range corpus() {
		f.Add([]byte(c.text()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("FILE", data)
		if (p == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", p, err)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || len(e.Problems) == 0 || len(e.Problems) > maxProblems {
				t.Fatalf("error %T %v", err, err)
			}
			return
		}
		checkValid(t, p)
	})
}

// checkValid states what every Policy promises.
func checkValid(t *testing.T, p *Policy) {
	t.Helper()
	a := p.Agent
	if a.Engine == "" || a.Runtime == "" || a.Image.Kind == "" || a.Limits.Memory <= 0 || a.Limits.PIDs <= 0 ||
		a.Limits.MilliCPUs <= 0 || a.Limits.OpenFiles == 0 || a.Output <= 0 || a.Timeout <= 0 || a.Grace <= 0 {
		t.Fatalf("agent %+v", a)
	}
	for _, c := range p.Checks {
		if c.Name == "" || len(c.Argv) == 0 || c.Argv[0] == "" || c.Image.Kind == "" || c.Dir == "" || c.Form == "" ||
			c.Expect < 0 || c.Expect > 255 || c.Timeout <= 0 || c.Output <= 0 || c.Limits.Memory <= 0 {
			t.Fatalf("check %+v", c)
		}
	}
	for _, s := range p.Sources() {
		if !strings.HasPrefix(s.Path, "/") || p.lines[s.Field] == 0 {
			t.Fatalf("source %+v in line %d", s, p.lines[s.Field])
		}
	}
	if p.Audit.MaxEntries <= 0 || p.Audit.MaxFileSize <= 0 || p.Audit.MaxTotalSize <= 0 || p.Audit.Timeout <= 0 {
		t.Fatalf("audit %+v", p.Audit)
	}
}

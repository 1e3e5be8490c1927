package sandboxtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// testEnvironment: what is asked for is all that there is, in both images.
func (s *suite) testEnvironment(t *testing.T) {
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleServe, sandbox.RoleCheck} {
		for _, env := range [][]string{
			{"HOME=/"},
			{"HOME=/home", "PATH=/bin", "EMPTY=", "WITH=equals=and space", "MULTI=a\nb"},
			{"HOME=/", "HOSTNAME=mine", "TERM=dumb"},
		} {
			spec := s.spec(role)
			spec.Env = env
			r := s.try(t, spec, op{"environ"})[0]
			var got []string
			r.into(t, &got)
			asked := slices.Sorted(slices.Values(env))
			if slices.Sort(got); !slices.Equal(got, asked) {
				t.Errorf("%s: the environment is %q, want %q", role, got, asked)
			}
		}
	}
	// The control: the canary is where a leak could take it from.
	spec := s.spec(sandbox.RoleAgent)
	spec.Env = append(spec.Env, canaryName+"="+s.canary)
	if r := s.try(t, spec, op{"environ"})[0]; !strings.Contains(string(r.Value), s.canary) {
		t.Errorf("an entry that was asked for is missing: %s", r.Value)
	}
}

// testProcess: arguments, directory and hostname as asked, and reported so.
func (s *suite) testProcess(t *testing.T) {
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleServe} {
		spec := s.spec(role, "try", "status", "--", "nothing", "$(touch /x)", "; &", "", "*", "ü\n")
		spec.Dir, spec.Hostname = "/", "some-host"
		if role == sandbox.RoleAgent {
			spec.Dir = "/home"
		}
		got := s.run(t, spec)
		if got.exit.Code != 0 {
			t.Fatalf("%s ended with %+v: %s", spec.Name, got.exit, got.stderr)
		}
		results := decode(t, got.stdout)
		var status struct {
			Argv     []string `json:"argv"`
			Dir      string   `json:"dir"`
			Hostname string   `json:"hostname"`
			Core     string   `json:"CoreDumping"`
		}
		results[0].into(t, &status)
		if !slices.Equal(status.Argv, spec.Argv) || status.Dir != spec.Dir || status.Hostname != spec.Hostname {
			t.Errorf("%s: argv %q, directory %q, hostname %q", role, status.Argv, status.Dir, status.Hostname)
		}
		if problems := sandbox.Compare(spec, got.report); len(problems) > 0 {
			t.Errorf("%s: the report differs from the spec: %q", role, problems)
		}
	}
}

// testNames: a name that is taken is refused, and its holder stays.
func (s *suite) testNames(t *testing.T) {
	spec := s.spec(sandbox.RoleAgent, "wait")
	c, _ := s.ready(t, spec, sandbox.Streams{})
	if second, err := s.engine.Create(testContext(t), spec, sandbox.Streams{}); err == nil {
		t.Error("a second container of the same name was made")
		remove(t, second)
	}
	if err := c.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
	if exit, err := c.Wait(testContext(t)); err != nil || exit.Code != 7 {
		t.Errorf("the first one ended with %+v, %v", exit, err)
	}
}

// testInvalidSpec: an engine refuses what Validate refuses, before it makes
// anything.
func (s *suite) testInvalidSpec(t *testing.T) {
	before := s.leftovers(t)
	for name, change := range map[string]func(*sandbox.Spec){
		"no digest":       func(p *sandbox.Spec) { p.Image.Digest = "" },
		"unknown digest":  func(p *sandbox.Spec) { p.Image.Digest = "sha256:" + strings.Repeat("0", 64) },
		"no command":      func(p *sandbox.Spec) { p.Argv = nil },
		"host root":       func(p *sandbox.Spec) { p.Identity = sandbox.Identity{} },
		"no limits":       func(p *sandbox.Spec) { p.Limits = sandbox.Limits{} },
		"network":         func(p *sandbox.Spec) { p.Network = sandbox.NetworkHost },
		"unknown network": func(p *sandbox.Spec) { p.Network = "bridge" },
		"unknown runtime": func(p *sandbox.Spec) { p.Runtime = "no-such-runtime" },
		"bare variable":   func(p *sandbox.Spec) { p.Env = append(p.Env, "PATH") },
		"relative dir":    func(p *sandbox.Spec) { p.Dir = "home" },
		"other session":   func(p *sandbox.Spec) { p.Name = "proctor-other-agent" },
		"keys":            func(p *sandbox.Spec) { p.Mounts = []sandbox.Mount{s.engine.Part(sandbox.PartRootKeys, "")} },
		"unlimited tmpfs": func(p *sandbox.Spec) {
			p.Mounts = []sandbox.Mount{{Kind: sandbox.MountTmpfs, Target: "/tmp", Writable: true}}
		},
	} {
		spec := s.spec(sandbox.RoleAgent, "exit", "0")
		change(&spec)
		if c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{}); err == nil {
			t.Errorf("%s: was made", name)
			remove(t, c)
		}
	}
	for name := range s.leftovers(t) {
		if !before[name] {
			t.Errorf("a refused container left %s", name)
		}
	}
	if got := s.run(t, s.spec(sandbox.RoleAgent, "exit", "0")); got.exit.Code != 0 {
		t.Errorf("the good spec ended with %+v", got.exit)
	}
}

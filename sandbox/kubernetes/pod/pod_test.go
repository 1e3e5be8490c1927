package pod_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/kubernetes/pod"
)

func config() pod.Config {
	return pod.Config{Name: "site", Image: "proctor:1", Secret: "proctor-root", Claim: "site"}
}

func session() chain.Session {
	limits := chain.Limits{Memory: 1 << 30, PIDs: 64, Milli: 500, Files: 64, Output: 1 << 20, Temp: 1 << 20}
	return chain.Session{
		Product: "/srv/site", Policy: []byte("# costs $(HOME) and $$\nversion: 1\n"),
		Agent:  chain.Process{Image: "agent:1", Argv: []string{"sh", "-c", "echo $(PATH) $$"}, Env: []string{"PATH=/bin", "X=$(PATH)"}, Limits: limits, Timeout: time.Hour},
		Checks: []chain.Check{{Name: "unit", Process: chain.Process{Image: "agent:1", Argv: []string{"sh"}, Limits: limits, Timeout: time.Minute}}},
	}
}

func build(t *testing.T, c pod.Config, s chain.Session) *corev1.Pod {
	t.Helper()
	p, err := pod.New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func containers(p *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range p.Spec.InitContainers {
		all = append(all, &p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		all = append(all, &p.Spec.Containers[i])
	}
	return all
}

// restricted is what the API server's own admission says.
func restricted(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	r := policy.AggregateCheckResults(e.EvaluatePod(level, &p.ObjectMeta, &p.Spec))
	if r.Allowed {
		return ""
	}
	return r.ForbiddenDetail()
}

// TestRestricted: every container passes the restricted Pod Security Standard;
// one that is weaker by a single field does not.
func TestRestricted(t *testing.T) {
	for name, change := range map[string]func(*pod.Config){
		"plain": func(*pod.Config) {}, "own users": func(c *pod.Config) { c.Users = pod.OwnUsers },
		"claims": func(c *pod.Config) { c.Keep = pod.Keep{Ledger: "l", Seals: "s", Stage: "t"} },
	} {
		c := config()
		change(&c)
		if why := restricted(t, build(t, c, session())); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
	launched := session()
	launched.Launched = &chain.Launched{StreamSHA256: "ab"}
	brought := config()
	brought.Claim = ""
	p := build(t, brought, launched)
	if why := restricted(t, p); why != "" || len(p.Spec.Containers) != 2 || !p.Spec.InitContainers[1].StdinOnce {
		t.Errorf("with a launcher: %s, %d containers", why, len(p.Spec.Containers))
	}
	yes, root := true, int64(0)
	for name, weaken := range map[string]func(*corev1.Container){
		"root":       func(c *corev1.Container) { c.SecurityContext.RunAsUser = &root },
		"escalation": func(c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = &yes },
		"capability": func(c *corev1.Container) { c.SecurityContext.Capabilities.Add = []corev1.Capability{"CHOWN"} },
		"kept":       func(c *corev1.Container) { c.SecurityContext.Capabilities = nil },
		"privileged": func(c *corev1.Container) { c.SecurityContext.Privileged = &yes },
		"unconfined": func(c *corev1.Container) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		},
	} {
		for i := range containers(build(t, config(), session())) {
			p := build(t, config(), session())
			weaken(containers(p)[i])
			if restricted(t, p) == "" {
				t.Errorf("%s in container %d is restricted", name, i)
			}
		}
	}
}

// TestPod: order, identities, and what a Pod would otherwise be given.
func TestPod(t *testing.T) {
	p := build(t, config(), session())
	var names []string
	for _, c := range containers(p) {
		names = append(names, c.Name)
		sec := c.SecurityContext
		want := int64(chain.GuestID)
		if slices.Contains([]string{"prepare", "open", "serve", "seal"}, c.Name) {
			want = chain.SupervisorID
		}
		if *sec.RunAsUser != want || *sec.RunAsGroup != want || !*sec.ReadOnlyRootFilesystem {
			t.Errorf("%s: %+v", c.Name, sec)
		}
		if always := c.RestartPolicy != nil; always != (c.Name == "serve") || always != (c.StartupProbe != nil) {
			t.Errorf("%s: restart %v, probe %v", c.Name, c.RestartPolicy, c.StartupProbe)
		}
		for _, r := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
			if c.Resources.Limits[r] == (resource.Quantity{}) || c.Resources.Requests[r] == (resource.Quantity{}) {
				t.Errorf("%s: %s is not bounded", c.Name, r)
			}
		}
		if c.TerminationMessagePath == "" || c.LivenessProbe != nil || c.Lifecycle != nil || len(c.EnvFrom) > 0 || len(c.Ports) > 0 {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	if want := []string{"prepare", "stage", "open", "serve", "agent", "before", "check-unit", "read", "seal"}; !slices.Equal(names, want) {
		t.Errorf("order %q", names)
	}
	spec := p.Spec
	if *spec.AutomountServiceAccountToken || *spec.EnableServiceLinks || *spec.ShareProcessNamespace || spec.HostNetwork || spec.HostPID || spec.HostIPC ||
		spec.HostUsers != nil || spec.RestartPolicy != corev1.RestartPolicyNever || *spec.ActiveDeadlineSeconds != 3600+60+1800 {
		t.Errorf("%+v", spec)
	}
	c := config()
	c.Users, c.RuntimeClass, c.Deadline = pod.OwnUsers, "gvisor", time.Minute
	if spec := build(t, c, session()).Spec; *spec.HostUsers || *spec.RuntimeClassName != "gvisor" || *spec.ActiveDeadlineSeconds != 60 {
		t.Errorf("%+v", spec)
	}
	n := pod.Policy(config(), session())
	if len(n.Spec.PolicyTypes) != 2 || n.Spec.Ingress != nil || n.Spec.Egress != nil || n.Spec.PodSelector.MatchLabels[pod.LabelSession] != p.Labels[pod.LabelSession] {
		t.Errorf("%+v", n.Spec)
	}
}

// TestMounts: the Secret is in open and seal alone, what others may not see is in
// the supervisor's containers alone, and the stage is writable in the stage step
// and the agent alone.
func TestMounts(t *testing.T) {
	p := build(t, config(), session())
	secrets := map[string]bool{}
	for _, v := range p.Spec.Volumes {
		if v.Secret != nil {
			secrets[v.Name] = true
			if *v.Secret.DefaultMode != 0o440 || v.Secret.SecretName != "proctor-root" || *v.Secret.Optional {
				t.Errorf("%+v", v.Secret)
			}
		}
		if v.HostPath != nil || v.Projected != nil || v.DownwardAPI != nil {
			t.Errorf("volume %s: %+v", v.Name, v)
		}
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit.IsZero() {
			t.Errorf("volume %s has no size", v.Name)
		}
	}
	if len(secrets) != 1 {
		t.Fatalf("secrets %v", secrets)
	}
	temps := map[string]string{}
	for _, c := range containers(p) {
		for _, m := range c.VolumeMounts {
			switch {
			case secrets[m.Name]:
				if c.Name != "open" && c.Name != "seal" || !m.ReadOnly {
					t.Errorf("%s has the Secret", c.Name)
				}
			case slices.Contains([]string{chain.Ledger, chain.Part, chain.Seals}, m.Name):
				if *c.SecurityContext.RunAsUser != chain.SupervisorID {
					t.Errorf("%s has %s", c.Name, m.Name)
				}
			case m.Name == chain.Stage:
				if writes := c.Name == "stage" || c.Name == "agent"; writes == m.ReadOnly || (c.Name == "stage") == (m.SubPath != "") {
					t.Errorf("%s has the stage: %+v", c.Name, m)
				}
			case m.Name == chain.Original && (c.Name != "stage" || !m.ReadOnly):
				t.Errorf("%s has the original", c.Name)
			case strings.HasPrefix(m.Name, "tmp-"):
				if temps[m.Name] != "" {
					t.Errorf("%s and %s share /tmp", c.Name, temps[m.Name])
				}
				temps[m.Name] = c.Name
			}
			if m.ReadOnly == (m.RecursiveReadOnly == nil) || m.MountPropagation != nil {
				t.Errorf("%s: %+v", c.Name, m)
			}
		}
	}
}

// TestNothingIsExpanded: Kubernetes puts $(NAME) into arguments and values.
func TestNothingIsExpanded(t *testing.T) {
	for _, c := range containers(build(t, config(), session())) {
		for _, text := range append(slices.Clone(c.Args), c.Command...) {
			if rest := strings.ReplaceAll(text, "$$", ""); strings.Contains(rest, "$") {
				t.Errorf("%s: %q", c.Name, text)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil || strings.Contains(strings.ReplaceAll(e.Value, "$$", ""), "$") {
				t.Errorf("%s: %+v", c.Name, e)
			}
		}
		if c.Name == "agent" && !slices.Contains(c.Args, "echo $$(PATH) $$$$") {
			t.Errorf("%q", c.Args)
		}
	}
}

// TestRefused: what a Pod cannot give.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*pod.Config, *chain.Session){
		"needs a name":             func(c *pod.Config, _ *chain.Session) { c.Name = "" },
		"needs an image":           func(c *pod.Config, _ *chain.Session) { c.Image = "" },
		"needs a Secret":           func(c *pod.Config, _ *chain.Session) { c.Secret = "" },
		"one source":               func(_ *pod.Config, s *chain.Session) { s.Launched = &chain.Launched{} },
		"a claim, or a launcher":   func(c *pod.Config, _ *chain.Session) { c.Claim = "" },
		"one runtime for all":      func(_ *pod.Config, s *chain.Session) { s.Agent.Runtime = "runsc" },
		"has no environment":       func(_ *pod.Config, s *chain.Session) { s.Agent.Env = []string{"HOME"} },
		"no path of the product":   func(_ *pod.Config, s *chain.Session) { s.Product = "" },
		"no command of the agent":  func(_ *pod.Config, s *chain.Session) { s.Agent.Argv = nil },
		"not the name of a volume": func(_ *pod.Config, s *chain.Session) { s.Checks[0].Name = strings.Repeat("n", 63) },
	} {
		c, s := config(), session()
		change(&c, &s)
		if _, err := pod.New(c, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestPure: building twice gives the same, and changes nothing of what was given.
func TestPure(t *testing.T) {
	c, s := config(), session()
	before, _ := json.Marshal(s)
	if !reflect.DeepEqual(build(t, c, s), build(t, c, s)) {
		t.Error("two Pods differ")
	}
	if after, _ := json.Marshal(s); string(after) != string(before) {
		t.Error("the session was changed")
	}
}

// TestDoors: with the waiver serve alone has what its doors need, and the
// NetworkPolicy lets out and nothing in; without it nothing is made.
func TestDoors(t *testing.T) {
	s, c := session(), config()
	s.Doors, s.Bridges, c.Doors = true, []string{"4100=services.sock"}, "proctor-doors"
	if _, err := pod.New(c, s); err == nil || !strings.Contains(err.Error(), "share one network") {
		t.Errorf("without the waiver: %v", err)
	}
	if n := pod.Policy(c, s); n.Spec.Egress != nil {
		t.Errorf("without the waiver: %+v", n.Spec)
	}
	c.Network = pod.SharedNetwork
	p := build(t, c, s)
	for _, k := range containers(p) {
		for _, m := range k.VolumeMounts {
			if (m.Name == chain.Secrets || m.Name == chain.Cache) && k.Name != "serve" || m.Name == chain.Secrets && !m.ReadOnly {
				t.Errorf("%s has %+v", k.Name, m)
			}
		}
	}
	given := 0
	for _, v := range p.Spec.Volumes {
		if v.Name == chain.Secrets {
			given++
			if v.Secret == nil || v.Secret.SecretName != "proctor-doors" || *v.Secret.DefaultMode != 0o440 {
				t.Errorf("%+v", v)
			}
		}
	}
	if why := restricted(t, p); why != "" || given != 1 {
		t.Errorf("%s, %d Secrets", why, given)
	}
	n := pod.Policy(c, s)
	if len(n.Spec.PolicyTypes) != 2 || n.Spec.Ingress != nil || len(n.Spec.Egress) != 1 {
		t.Errorf("%+v", n.Spec)
	}
	c.Doors = ""
	if _, err := pod.New(c, s); err == nil {
		t.Error("doors without a Secret were taken")
	}
	s.Doors = false
	if n := pod.Policy(c, s); n.Spec.Egress != nil {
		t.Errorf("waived, without doors: %+v", n.Spec)
	}
}

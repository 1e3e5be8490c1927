package compose_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/compose"
)

func session() chain.Session {
	limits := chain.Limits{Memory: 1 << 30, PIDs: 64, Milli: 500, Files: 1024, Output: 1 << 20, Temp: 1 << 20}
	process := chain.Process{Image: "a:1", Argv: []string{"agent", "$HOME"}, Limits: limits}
	return chain.Session{
		Product: "/srv/a$b", Policy: []byte("version: 1\n"), Agent: process, Doors: true, Remedies: "docker compose run",
		Checks: []chain.Check{{Name: "unit", Dir: ".", Process: process}},
	}
}

type file struct {
	Services map[string]map[string]any
	Volumes  map[string]any
	Networks map[string]any
	Step     map[string]any `yaml:"x-step"`
}

func rendered(t *testing.T, s chain.Session) file {
	t.Helper()
	var out bytes.Buffer
	if err := compose.Write(&out, s); err != nil {
		t.Fatal(err)
	}
	var f file
	d := yaml.NewDecoder(&out)
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEveryServiceIsHardened: each field of each service is what its step is
// given, and there is no other. A field that the template loses, or gains, fails.
func TestEveryServiceIsHardened(t *testing.T) {
	s := session()
	f := rendered(t, s)
	steps, err := s.Steps()
	if err != nil {
		t.Fatal(err)
	}
	all := append(steps, s.Tools()...)
	if len(f.Services) != len(all) || len(f.Networks) != 1 {
		t.Errorf("services %v, networks %v", slices.Sorted(maps.Keys(f.Services)), f.Networks)
	}
	for _, step := range all {
		got := f.Services[step.Name]
		want := map[string]any{
			"read_only": true, "cap_drop": []any{"ALL"}, "security_opt": []any{"no-new-privileges:true"}, "restart": "no", "working_dir": "/",
			"user":    map[chain.Who]string{chain.Supervisor: "64003:64003", chain.Reader: "64001:64001", chain.Guest: "64001:64001", chain.Stager: "0:0"}[step.Who],
			"volumes": mounts(step, s.Product), "mem_limit": int(step.Memory), "memswap_limit": int(step.Memory), "pids_limit": int(step.PIDs),
		}
		for key, is := range map[string]any{"cap_add": []any{"CHOWN", "DAC_OVERRIDE", "FOWNER"}, "tmpfs": []any{"/tmp:size=1m,mode=1777,uid=64001,gid=64001"}, "cpus": 0.5} {
			if key == "cap_add" && step.Who == chain.Stager || key != "cap_add" && step.Who == chain.Guest {
				want[key] = is
			}
		}
		if step.Network == chain.Outside {
			want["networks"] = []any{"doors"}
		} else {
			want["network_mode"] = "none"
		}
		if len(step.After) > 0 {
			want["depends_on"] = after(step)
		}
		for _, key := range []string{"image", "entrypoint", "command", "logging", "profiles", "healthcheck", "ulimits"} {
			delete(got, key) // the line, and what bounds no reach
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%v\nwant\n%v", step.Name, got, want)
		}
	}
}

func mounts(step chain.Step, product string) []any {
	var all []any
	for _, m := range step.Mounts {
		v := map[string]any{"type": "volume", "source": m.Volume, "target": escaped(m.Target)}
		if m.Volume == chain.Original {
			v["type"], v["source"] = "bind", escaped(product)
		} else if m.How != chain.Own {
			v["volume"] = map[string]any{"nocopy": true}
		}
		if m.How == chain.ReadOnly {
			v["read_only"] = true
		}
		all = append(all, v)
	}
	return all
}

func after(step chain.Step) map[string]any {
	all := map[string]any{}
	for _, a := range step.After {
		condition := "service_completed_successfully"
		if a.Until == chain.IsReady {
			condition = "service_healthy"
		}
		all[a.Step] = map[string]any{"condition": condition}
	}
	return all
}

// escaped is what compose reads as s.
func escaped(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// TestCommandLines: a service runs its step's line, word for word.
func TestCommandLines(t *testing.T) {
	s := session()
	f := rendered(t, s)
	steps, err := s.Steps()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range append(steps, s.Tools()...) {
		var got []string
		for _, key := range []string{"entrypoint", "command"} {
			words, _ := f.Services[step.Name][key].([]any)
			for _, w := range words {
				got = append(got, fmt.Sprint(w))
			}
		}
		want := make([]string, 0, len(step.Argv))
		for _, w := range step.Argv {
			want = append(want, escaped(w))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", step.Name, got, want)
		}
		if profile := f.Services[step.Name]["profiles"] != nil; profile == slices.ContainsFunc(steps, func(s chain.Step) bool { return s.Name == step.Name }) {
			t.Errorf("%s: in a profile: %v", step.Name, profile)
		}
	}
}

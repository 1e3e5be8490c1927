package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestComposePage: each command that docs/compose.md has a stack run is of a
// service that the stack has, waits for others where that one does, and says what
// its program understands.
func TestComposePage(t *testing.T) {
	d := newDesk(t)
	page, err := os.ReadFile("../../docs/compose.md")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := filepath.Abs("../../compose/coding-agent.policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Entrypoint []string
			After      map[string]any `yaml:"depends_on"`
			Profiles   []string
		}
	}
	if err := yaml.Unmarshal([]byte(d.output(exitOK, "render", "compose", "--policy", policy)), &file); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("docker compose run [^|`\n]*").FindAllString(string(page), -1)
	if len(commands) < 15 {
		t.Fatalf("the page has %d commands", len(commands))
	}
	for _, command := range commands {
		words := strings.Fields(strings.NewReplacer("…", "", ")", "").Replace(command))[3:]
		flags := 0
		for flags < len(words) && strings.HasPrefix(words[flags], "-") {
			flags++
		}
		if flags == len(words) {
			continue // a sentence about how they begin
		}
		service, known := file.Services[words[flags]]
		if !known {
			t.Errorf("%s: no such service", command)
			continue
		}
		if alone := slices.Contains(words[:flags], "--no-deps"); alone != (len(service.After) == 0) {
			t.Errorf("%s: the service comes after %v", command, service.After)
		}
		said := words[flags+1:]
		if n := slices.IndexFunc(said, func(w string) bool { return w == "<" || w == ">" }); n >= 0 {
			said = said[:n]
		}
		if len(service.Profiles) == 0 {
			if len(said) > 0 {
				t.Errorf("%s: a step takes no words", command)
			}
			continue
		}
		argv := slices.Concat(service.Entrypoint[1:], said)
		out, err := exec.Command(filepath.Join(d.dir, "bin", "proctor-sidecar"), append(argv, "--help")...).CombinedOutput()
		verb := slices.DeleteFunc(slices.Clone(said), func(w string) bool {
			return !regexp.MustCompile(`^[a-z-]+$`).MatchString(w) || strings.HasPrefix(w, "-")
		})
		usage := "proctor-sidecar chain " + words[flags]
		if words[flags] == "trust" || words[flags] == "give" {
			usage += " " + strings.Join(verb[:min(len(verb), 1)], "")
		}
		if err != nil || !strings.Contains(string(out), "Usage:\n  "+usage) {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
}

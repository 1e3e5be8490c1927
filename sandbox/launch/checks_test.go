package launch_test

import (
	"os"
	"strings"
	"testing"
)

// TestChecks (cases C1, C2, C3, C5, C6): what a check does stays in its own
// layer and ends with it; tools and the operator's files are not the agent's;
// arguments are literal; nothing of the launcher's environment is there.
func TestChecks(t *testing.T) {
	d := newDesk(t)
	d.write("operators.sh", "echo the operators own; [ \"$(cat a.txt)\" = one ]\n")
	d.policy(strings.Replace(goodPolicy, "  - name: unit\n    argv: [sh, test.sh]\n", `  - name: c1-writes
    argv: [sh, -c, "echo two > a.txt && rm -r src && echo new > new && ln -s / root && cat a.txt"]
  - name: c1-sees-no-writes
    argv: [sh, -c, "cat a.txt; ls; test -d src -a ! -e new"]
  - name: c2-leaves-a-daemon
    argv: [sh, -c, "setsid sh -c ': left-behind; trap \"\" TERM HUP; while :; do echo x > a.txt; done' & echo left"]
  - name: c3-operators-file
    argv: [sh, sub/dir/test.sh]
    files:
      - {from: DIR/operators.sh, to: sub/dir/test.sh}
  - name: c3-operators-tools
    argv: [cat, a.txt]
  - name: c5-literal
    argv: [echo, ";", "&&", "|", "$(id)", "`+"`id`"+`", "&", ">", "a.txt"]
  - name: c6-environment
    argv: [env]
`, 1))
	d.env = append(d.env, "GITHUB_TOKEN=canary-1", "PROCTOR_HMAC_KEY=canary-2", "HMAC=canary-3")
	// The agent puts links where the operator's file goes, and tools of its own.
	v := d.run(0, "sh", "-c", `
		mkdir -p /tmp/evil && ln -s /tmp/evil sub && printf 'exit 0\n' > conftest.py
		for tool in sh cat env; do printf '#!/bin/sh\necho planted\n' > $tool; chmod 755 $tool; done`)
	if v.Verdict != "PASS" {
		t.Errorf("%s %q", v.Verdict, v.Reasons)
	}
	want := map[string]string{
		"c1-writes":          "two\n",
		"c2-leaves-a-daemon": "left\n",
		"c3-operators-file":  "the operators own\n",
		"c3-operators-tools": "one\n",
		"c5-literal":         "; && | $(id) `id` & > a.txt\n",
	}
	for _, c := range v.Checks {
		text, known := want[c.Name]
		if !c.Passed || known && c.Output != text {
			t.Errorf("%s: %s %d %q, want %q", c.Name, c.Outcome, c.Exit, c.Output, text)
		}
		if strings.Contains(c.Output, "canary") || strings.Contains(c.Output, "planted") {
			t.Errorf("%s printed %q", c.Name, c.Output)
		}
	}
	if len(v.Checks) != 7 {
		t.Errorf("%d checks", len(v.Checks))
	}
	if left := d.withText("left-behind"); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
	if b, err := os.ReadFile(d.path("home/host/stages/" + v.Session + "/tree/a.txt")); err != nil || string(b) != "one\n" {
		t.Errorf("the stage has %q, %v", b, err)
	}
}

// TestChecksThatAreNoPass (case C4, invariant 5): what ended a check early comes
// before the status that it ended with.
func TestChecksThatAreNoPass(t *testing.T) {
	d := newDesk(t)
	cases := []struct {
		name, check string
		exit        int
		reason      string
	}{
		{"137 is expected and comes from the check", "argv: [sh, -c, \"exit 137\"]\n    expect: 137\n", 0, ""},
		{"137 is expected and comes from want of memory", "argv: [tail, /dev/zero]\n    expect: 137\n    limits: {memory: 64MiB}\n", 1, "check unit failed: oom"},
		{"143 is expected and comes from want of time", "argv: [sh, -c, \"mkfifo /tmp/f; read x < /tmp/f\"]\n    expect: 143\n    timeout: 1s\n", 1, "check unit failed: timeout"},
		{"0 is expected, and too much is printed", "argv: [sh, -c, \"yes | head -c 20000; exit 0\"]\n    output: 10KiB\n", 1, "check unit failed: overflow"},
		{"a command that is not there", "argv: [no-such-command]\n", 3, "check unit could not be run: start-failed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := *d
			d.T = t
			d.policy(strings.Replace(goodPolicy, "argv: [sh, test.sh]\n", c.check, 1))
			v := d.run(c.exit, "true")
			if c.reason != "" && (len(v.Reasons) == 0 || v.Reasons[0] != c.reason) {
				t.Errorf("%s %q, want %q", v.Verdict, v.Reasons, c.reason)
			}
		})
	}
}

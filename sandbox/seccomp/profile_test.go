package seccomp

import (
	"encoding/json"
	"slices"
	"testing"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
)

func rulesFor(p *specs.LinuxSeccomp, name string) []specs.LinuxSyscall {
	var out []specs.LinuxSyscall
	for _, s := range p.Syscalls {
		if slices.Contains(s.Names, name) {
			out = append(out, s)
		}
	}
	return out
}

// A rule without conditions, left anywhere, would allow the call whatever the
// conditional ones say.
func TestHostileModeCallsHaveOnlyConditionalRules(t *testing.T) {
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleCheck} {
		p, err := Linux(role)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range modeCalls() {
			rules := rulesFor(p, c.name)
			want := 1
			if c.flags >= 0 {
				want = 2
			}
			if len(rules) != want {
				t.Errorf("%s: %s has %d rules, want %d", role, c.name, len(rules), want)
			}
			for _, r := range rules {
				if r.Action != specs.ActAllow || len(r.Args) != 1 {
					t.Errorf("%s: rule for %s is %+v, want one condition", role, c.name, r)
				}
			}
		}
		for _, n := range unseen() {
			rules := rulesFor(p, n)
			if len(rules) != 1 || rules[0].Action != specs.ActErrno || *rules[0].ErrnoRet != 38 {
				t.Errorf("%s: rules for %s are %+v, want one ENOSYS", role, n, rules)
			}
		}
	}
}

// The positive control: the roles of the supervisor keep the calls.
func TestSupervisorRolesHaveMobysDefault(t *testing.T) {
	p, err := Linux(sandbox.RoleSeal)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range modeCalls() {
		rules := rulesFor(p, c.name)
		if len(rules) != 1 || len(rules[0].Args) != 0 {
			t.Errorf("rules for %s are %+v, want one without conditions", c.name, rules)
		}
	}
}

func TestCallsThatNoRoleHas(t *testing.T) {
	refused := []string{
		"io_uring_setup", "io_uring_enter", "io_uring_register", "unshare", "setns", "mount", "umount2", "pivot_root",
		"move_mount", "open_tree", "fsopen", "fsmount", "mount_setattr", "keyctl", "add_key", "request_key", "bpf",
		"perf_event_open", "userfaultfd", "kexec_load", "init_module", "finit_module", "open_by_handle_at", "reboot",
		"swapon", "chroot", "quotactl", "acct", "settimeofday", "ioperm", "iopl", "syslog", "fanotify_init",
	}
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleCheck, sandbox.RoleServe, sandbox.RoleSeal} {
		p, err := Linux(role)
		if err != nil {
			t.Fatal(err)
		}
		if p.DefaultAction != specs.ActErrno {
			t.Errorf("%s: default action is %s", role, p.DefaultAction)
		}
		for _, n := range refused {
			for _, r := range rulesFor(p, n) {
				if r.Action == specs.ActAllow {
					t.Errorf("%s: %s is allowed", role, n)
				}
			}
		}
		if len(p.Architectures) != 1 {
			t.Errorf("%s: architectures are %v, want this machine's own", role, p.Architectures)
		}
		if len(rulesFor(p, "read")) == 0 {
			t.Errorf("%s: read is not allowed", role)
		}
		for _, r := range rulesFor(p, "clone") {
			if len(r.Args) != 1 || r.Args[0].Op != specs.OpMaskedEqual || r.Args[0].Value != 0x7E020000 || r.Args[0].ValueTwo != 0 {
				t.Errorf("%s: clone may make namespaces: %+v", role, r)
			}
		}
	}
}

// Docker must be able to read what Moby writes.
func TestMobyIsAProfile(t *testing.T) {
	body, err := Moby(sandbox.RoleAgent)
	if err != nil {
		t.Fatal(err)
	}
	var p moby.Seccomp
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.ArchMap) == 0 || len(p.Syscalls) == 0 {
		t.Fatalf("profile has %d architectures and %d rules", len(p.ArchMap), len(p.Syscalls))
	}
}

package sandbox

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const goodDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func goodSpec() Spec {
	return Spec{
		Session: "abc", Role: RoleAgent, Name: "proctor-abc-agent",
		Image: Image{Kind: ImageDir, Ref: "/img", Digest: goodDigest}, Argv: []string{"/bin/true"}, Env: []string{"HOME=/"}, Dir: "/",
		Identity: Identity{Inside: 64001, Host: 700001, HostRoot: 700000},
		Mounts: []Mount{
			{Kind: MountBind, Source: "/stage", Target: "/job", Writable: true},
			{Kind: MountTmpfs, Target: "/tmp", Writable: true, Size: 1 << 20},
			{Kind: MountVolume, Source: "vol", Target: "/vol"},
			{Kind: MountLayer, Source: "/lower", Target: "/layer", Writable: true, Size: 1 << 20},
		},
		Limits: Limits{Memory: 1 << 30, PIDs: 100, MilliCPUs: 1000, OpenFiles: 1024},
		Grace:  time.Second,
	}
}

// row changes one field of a good spec: each of bad must be refused, each of
// good (controls) accepted.
type row struct{ bad, good map[string]func(*Spec) }

func specRows() map[string]row {
	return map[string]row{
		"Session": {
			bad: map[string]func(*Spec){
				"empty": func(s *Spec) { setSession(s, "") }, "upper": func(s *Spec) { setSession(s, "Abc") },
				"dots": func(s *Spec) { setSession(s, "..") }, "slash": func(s *Spec) { setSession(s, "a/b") },
				"dash": func(s *Spec) { setSession(s, "-a") }, "long": func(s *Spec) { setSession(s, strings.Repeat("a", 64)) },
			},
			good: map[string]func(*Spec){"longest": func(s *Spec) { setSession(s, strings.Repeat("a", 63)) }},
		},
		"Role": {
			bad: map[string]func(*Spec){
				"empty": func(s *Spec) { s.Role, s.Name = "", "proctor-abc-" }, "unknown": func(s *Spec) { s.Role, s.Name = "root", "proctor-abc-root" },
				"unknown, in the supervisor's image": func(s *Spec) {
					s.Role, s.Name, s.Image.Kind, s.Image.Ref = "root", "proctor-abc-root", ImageSupervisor, "/bin/proctor-sidecar"
				},
				"hostile code as the supervisor": func(s *Spec) { s.Role, s.Name = RoleSeal, "proctor-abc-seal" },
			},
			good: map[string]func(*Spec){"check": func(s *Spec) {
				s.Role, s.Name, s.Mounts = RoleCheck, "proctor-abc-check-1", s.Mounts[1:]
			}},
		},
		"Name": {
			bad: map[string]func(*Spec){
				"empty": func(s *Spec) { s.Name = "" }, "another session": func(s *Spec) { s.Name = "proctor-other-agent" },
				"another role": func(s *Spec) { s.Name = "proctor-abc-check" }, "glued": func(s *Spec) { s.Name = "proctor-abc-agentx" },
				"path": func(s *Spec) { s.Name = "proctor-abc-agent-../x" }, "empty suffix": func(s *Spec) { s.Name = "proctor-abc-agent-" },
			},
			good: map[string]func(*Spec){"suffix": func(s *Spec) { s.Name = "proctor-abc-agent-2" }},
		},
		"Image": {
			bad: map[string]func(*Spec){
				"no kind": func(s *Spec) { s.Image.Kind = "" }, "unknown kind": func(s *Spec) { s.Image.Kind = "vm" },
				"unresolved": func(s *Spec) { s.Image.Digest = "" }, "tag for a digest": func(s *Spec) { s.Image.Digest = "sha256:latest" },
				"upper case": func(s *Spec) { s.Image.Digest = strings.ToUpper(goodDigest) }, "relative": func(s *Spec) { s.Image.Ref = "img" },
				"option":                       func(s *Spec) { s.Image.Kind, s.Image.Ref = ImageRef, "--privileged" },
				"supervisor's for the agent":   func(s *Spec) { s.Image.Kind, s.Image.Ref = ImageSupervisor, "/x" },
				"host for the supervisor":      func(s *Spec) { *s = supervisorSpec(); s.Image.Kind = ImageHost },
				"reference for the supervisor": func(s *Spec) { *s = supervisorSpec(); s.Image.Kind, s.Image.Ref = ImageRef, "x" },
			},
			good: map[string]func(*Spec){
				"host": func(s *Spec) { s.Image.Kind, s.Image.Ref = ImageHost, "" }, "reference": func(s *Spec) { s.Image.Kind, s.Image.Ref = ImageRef, "x:1" },
				"supervisor": func(s *Spec) { *s = supervisorSpec() },
			},
		},
		"Argv": {
			bad: map[string]func(*Spec){
				"none": func(s *Spec) { s.Argv = nil }, "empty": func(s *Spec) { s.Argv = []string{""} }, "zero byte": func(s *Spec) { s.Argv = []string{"a", "b\x00"} },
			},
			good: map[string]func(*Spec){"odd": func(s *Spec) { s.Argv = []string{"a", "", "\n"} }},
		},
		"Env": {
			bad: map[string]func(*Spec){
				"no value": func(s *Spec) { s.Env = []string{"PATH"} }, "no name": func(s *Spec) { s.Env = []string{"=x"} },
				"twice": func(s *Spec) { s.Env = []string{"A=1", "A=2"} }, "zero byte": func(s *Spec) { s.Env = []string{"A=\x00"} },
			},
			good: map[string]func(*Spec){"none": func(s *Spec) { s.Env = nil }, "empty value": func(s *Spec) { s.Env = []string{"A="} }},
		},
		"Dir": {
			bad: map[string]func(*Spec){
				"empty": func(s *Spec) { s.Dir = "" }, "relative": func(s *Spec) { s.Dir = "x" }, "dots": func(s *Spec) { s.Dir = "/x/../y" },
			},
			good: map[string]func(*Spec){"deep": func(s *Spec) { s.Dir = "/job/x" }},
		},
		"Identity": {
			bad: map[string]func(*Spec){
				"host root": func(s *Spec) { s.Identity.Host = 0 }, "namespace's root": func(s *Spec) { s.Identity.Inside = 0 },
				"host root as namespace's root": func(s *Spec) { s.Identity.HostRoot = 0 }, "its own root": func(s *Spec) { s.Identity.HostRoot = s.Identity.Host },
			},
			good: map[string]func(*Spec){
				"no namespace": func(s *Spec) { s.Identity = Identity{Inside: 64001, Host: 64001} },
				"one identity": func(s *Spec) { s.Identity = Identity{Host: 1000, HostRoot: 1000}; s.Waive = []Waiver{WaiveOneIdentity} },
			},
		},
		"Mounts": {bad: badMounts(), good: map[string]func(*Spec){
			"none": func(s *Spec) { s.Mounts = nil },
			"control": func(s *Spec) {
				*s = supervisorSpec()
				s.Mounts = []Mount{{Kind: MountBind, Source: "/k", Target: "/keys/root"}}
			},
		}},
		"Limits": {
			bad: map[string]func(*Spec){
				"memory": func(s *Spec) { s.Limits.Memory = 0 }, "processes": func(s *Spec) { s.Limits.PIDs = 0 }, "cpu": func(s *Spec) { s.Limits.MilliCPUs = 0 },
				"files": func(s *Spec) { s.Limits.OpenFiles = 0 }, "negative": func(s *Spec) { s.Limits.Memory = -1 },
			},
			good: map[string]func(*Spec){"least": func(s *Spec) { s.Limits = Limits{1 << 20, 1, 10, 3} }},
		},
		"Network": {
			bad: map[string]func(*Spec){
				"host for the agent": func(s *Spec) { s.Network = NetworkHost }, "unknown": func(s *Spec) { s.Network = "bridge" },
				"host for the seal": func(s *Spec) { *s = supervisorSpec(); s.Network = NetworkHost },
			},
			good: map[string]func(*Spec){"host for serve": func(s *Spec) {
				*s = supervisorSpec()
				s.Role, s.Name, s.Network = RoleServe, "proctor-abc-serve", NetworkHost
			}},
		},
		"Runtime": {
			bad:  map[string]func(*Spec){"path": func(s *Spec) { s.Runtime = "/bin/sh" }, "option": func(s *Spec) { s.Runtime = "-x" }},
			good: map[string]func(*Spec){"gvisor": func(s *Spec) { s.Runtime = "runsc" }, "class": func(s *Spec) { s.Runtime = "io.containerd.runsc.v1" }},
		},
		"Terminal": {
			bad:  map[string]func(*Spec){"of the seal": func(s *Spec) { *s = supervisorSpec(); s.Terminal = true }},
			good: map[string]func(*Spec){"of the agent": func(s *Spec) { s.Terminal = true }},
		},
		"Waive": {
			bad: map[string]func(*Spec){
				"unknown": func(s *Spec) { s.Waive = []Waiver{"everything"} }, "twice": func(s *Spec) { s.Waive = []Waiver{WaiveNoLimits, WaiveNoLimits} },
			},
			good: map[string]func(*Spec){"all": func(s *Spec) {
				s.Waive = []Waiver{WaiveRuntimeFloor, WaiveOneIdentity, WaiveNoLimits, WaiveSharedNetwork}
			}},
		},
		"Hostname": {
			bad:  map[string]func(*Spec){"dots": func(s *Spec) { s.Hostname = "a.b" }, "space": func(s *Spec) { s.Hostname = "a b" }},
			good: map[string]func(*Spec){"one": func(s *Spec) { s.Hostname = "build-1" }},
		},
		"Grace": {
			bad:  map[string]func(*Spec){"negative": func(s *Spec) { s.Grace = -1 }, "long": func(s *Spec) { s.Grace = time.Hour }},
			good: map[string]func(*Spec){"none": func(s *Spec) { s.Grace = 0 }},
		},
	}
}

func setSession(s *Spec, id string) { s.Session, s.Name = id, "proctor-"+id+"-agent" }

func supervisorSpec() Spec {
	s := goodSpec()
	s.Role, s.Name, s.Mounts = RoleSeal, "proctor-abc-seal", nil
	s.Image = Image{Kind: ImageSupervisor, Ref: "/bin/proctor-sidecar", Digest: goodDigest}
	return s
}

func badMounts() map[string]func(*Spec) {
	bad := map[string]func(*Spec){
		"twice":              func(s *Spec) { s.Mounts = append(s.Mounts, s.Mounts[0]) },
		"written by a check": func(s *Spec) { s.Role, s.Name = RoleCheck, "proctor-abc-check" },
		"keys for the reader": func(s *Spec) {
			*s = supervisorSpec()
			s.Role, s.Name, s.Mounts = RoleRead, "proctor-abc-read", []Mount{{Kind: MountBind, Source: "/k", Target: "/keys/root"}}
		},
		"root key for serve": func(s *Spec) {
			*s = supervisorSpec()
			s.Role, s.Name, s.Mounts = RoleServe, "proctor-abc-serve", []Mount{{Kind: MountBind, Source: "/k", Target: "/keys/root"}}
		},
	}
	for name, m := range map[string]Mount{
		"unknown kind":    {Kind: "nfs", Source: "/x", Target: "/x"},
		"relative source": {Kind: MountBind, Source: "x", Target: "/x"}, "dotted source": {Kind: MountBind, Source: "/a/../x", Target: "/x"},
		"the host": {Kind: MountBind, Source: "/", Target: "/x"}, "proc": {Kind: MountBind, Source: "/proc/1", Target: "/x"},
		"a device": {Kind: MountBind, Source: "/dev/kmsg", Target: "/x"}, "sys": {Kind: MountLayer, Source: "/sys", Target: "/x", Size: 1},
		"relative target": {Kind: MountBind, Source: "/x", Target: "x"}, "over the root": {Kind: MountBind, Source: "/x", Target: "/"},
		"over proc": {Kind: MountBind, Source: "/x", Target: "/proc"}, "in dev": {Kind: MountBind, Source: "/x", Target: "/dev/x"},
		"unlimited tmpfs": {Kind: MountTmpfs, Target: "/x"}, "unlimited layer": {Kind: MountLayer, Source: "/x", Target: "/x"},
		"sized bind": {Kind: MountBind, Source: "/x", Target: "/x", Size: 1}, "negative size": {Kind: MountTmpfs, Target: "/x", Size: -1},
		"sourced tmpfs": {Kind: MountTmpfs, Source: "/x", Target: "/x", Size: 1}, "path for a volume": {Kind: MountVolume, Source: "/x", Target: "/x"},
		"unnamed volume": {Kind: MountVolume, Target: "/x"}, "keys": {Kind: MountBind, Source: "/x", Target: "/keys/root"},
		"over the keys": {Kind: MountBind, Source: "/x", Target: "/keys"}, "in control": {Kind: MountBind, Source: "/x", Target: "/control/ledger/x"},
		"the session": {Kind: MountBind, Source: "/x", Target: "/control/session"},
	} {
		bad[name] = func(s *Spec) { s.Mounts = append(s.Mounts, m) }
	}
	return bad
}

func TestValidate(t *testing.T) {
	if err := Validate(goodSpec()); err != nil {
		t.Fatalf("the good spec: %v", err)
	}
	rows := specRows()
	for field := range reflect.TypeFor[Spec]().Fields() {
		if _, ok := rows[field.Name]; !ok {
			t.Errorf("Spec.%s has no row", field.Name)
		}
	}
	for field, r := range rows {
		for name, change := range r.bad {
			s := goodSpec()
			change(&s)
			if err := Validate(s); err == nil {
				t.Errorf("%s: %s: accepted", field, name)
			}
		}
		for name, change := range r.good {
			s := goodSpec()
			change(&s)
			if err := Validate(s); err != nil {
				t.Errorf("%s: %s (control): %v", field, name, err)
			}
		}
	}
}

func TestValidateReportsEverything(t *testing.T) {
	s := goodSpec()
	s.Argv, s.Dir, s.Limits.PIDs, s.Mounts[0].Source = nil, "x", 0, "x"
	err := Validate(s)
	for _, want := range []string{"argv", "working directory", "limits", `mount at "/job"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not speak of %s", err, want)
		}
	}
}

func goodReport() Report {
	s := goodSpec()
	return Report{
		Name: s.Name, Role: s.Role, ImageDigest: goodDigest, HostUID: 700001, HostGID: 700001, NoNewPrivs: true, Seccomp: true, ReadOnlyRoot: true,
		Namespaces: []string{"pid", "ipc", "net", "uts", "mnt", "user"},
		Mounts: []MountReport{
			{Kind: MountBind, Source: "/stage", Target: "/job", Writable: true},
			{Kind: MountTmpfs, Target: "/tmp", Writable: true, NoSuid: true, NoDev: true},
			{Kind: MountVolume, Source: "vol", Target: "/vol"},
			{Kind: MountLayer, Source: "/lower", Target: "/layer", Writable: true},
		},
		Env: s.Env, Argv: s.Argv, Dir: s.Dir, Limits: s.Limits,
	}
}

func reportRows() map[string][]func(*Report) {
	without := func(name string) func(*Report) {
		return func(r *Report) {
			r.Namespaces = slices.DeleteFunc(r.Namespaces, func(n string) bool { return n == name })
		}
	}
	return map[string][]func(*Report){
		"Name":         {func(r *Report) { r.Name = "other" }},
		"Role":         {func(r *Report) { r.Role = RoleSeal }},
		"ImageDigest":  {func(r *Report) { r.ImageDigest = "" }},
		"HostUID":      {func(r *Report) { r.HostUID = 0 }, func(r *Report) { r.HostUID = 700000 }},
		"HostGID":      {func(r *Report) { r.HostGID = 0 }, func(r *Report) { r.HostGID = 700000 }},
		"Groups":       {func(r *Report) { r.Groups = []uint32{0} }, func(r *Report) { r.Groups = []uint32{700001, 27} }},
		"Capabilities": {func(r *Report) { r.Capabilities = []string{"CAP_CHOWN"} }},
		"NoNewPrivs":   {func(r *Report) { r.NoNewPrivs = false }},
		"Seccomp":      {func(r *Report) { r.Seccomp = false }},
		"ReadOnlyRoot": {func(r *Report) { r.ReadOnlyRoot = false }},
		"Namespaces":   {without("pid"), without("ipc"), without("net"), without("uts"), without("mnt"), without("user")},
		"Network":      {func(r *Report) { r.Network = NetworkHost }},
		"Mounts": {
			func(r *Report) { r.Mounts[0].Kind = MountLayer }, func(r *Report) { r.Mounts[0].Source = "/other" }, func(r *Report) { r.Mounts[0].Target = "/other" },
			func(r *Report) { r.Mounts[0].Writable = false }, func(r *Report) { r.Mounts[2].Writable = true }, func(r *Report) { r.Mounts[3].Writable = false },
			func(r *Report) { r.Mounts[1].NoSuid = false }, func(r *Report) { r.Mounts[1].NoDev = false }, func(r *Report) { r.Mounts[2].OpenBelow = true }, func(r *Report) { r.Mounts = r.Mounts[1:] },
			func(r *Report) {
				r.Mounts = append(r.Mounts, MountReport{Kind: MountBind, Source: "/", Target: "/host"})
			},
			func(r *Report) { r.Mounts = append(r.Mounts, r.Mounts[0]) },
		},
		"Env":     {func(r *Report) { r.Env = nil }, func(r *Report) { r.Env = []string{"HOME=/", "SECRET=1"} }, func(r *Report) { r.Env = []string{"HOME=/x"} }},
		"Argv":    {func(r *Report) { r.Argv = nil }, func(r *Report) { r.Argv = []string{"/bin/true", "x"} }},
		"Dir":     {func(r *Report) { r.Dir = "/x" }},
		"Limits":  {func(r *Report) { r.Limits.Memory = 0 }, func(r *Report) { r.Limits.PIDs++ }, func(r *Report) { r.Limits.MilliCPUs = 0 }, func(r *Report) { r.Limits.OpenFiles = 0 }},
		"Devices": {func(r *Report) { r.Devices = []string{"/dev/kvm"} }},
		"Runtime": {func(r *Report) { r.Runtime = "runsc" }},
	}
}

func TestCompare(t *testing.T) {
	if p := Compare(goodSpec(), goodReport()); len(p) > 0 {
		t.Fatalf("the good report: %q", p)
	}
	rows := reportRows()
	for field := range reflect.TypeFor[Report]().Fields() {
		if len(rows[field.Name]) == 0 {
			t.Errorf("Report.%s has no row", field.Name)
		}
	}
	for field, changes := range rows {
		for i, change := range changes {
			r := goodReport()
			change(&r)
			if p := Compare(goodSpec(), r); len(p) == 0 {
				t.Errorf("%s, change %d: not noticed", field, i)
			}
		}
	}
}

// Every field of a mount must be judged, or named here as an engine's own matter.
func TestCompareMountFields(t *testing.T) {
	judged := map[string]bool{"Kind": true, "Source": true, "Target": true, "Writable": true, "NoSuid": true, "NoDev": true, "OpenBelow": true}
	for field := range reflect.TypeFor[MountReport]().Fields() {
		if !judged[field.Name] {
			t.Errorf("MountReport.%s is not judged", field.Name)
		}
	}
}

func TestCompareAccepts(t *testing.T) {
	for name, change := range map[string]func(*Spec, *Report){
		"runtime by name":      func(_ *Spec, r *Report) { r.Runtime = "runc" },
		"the identity's group": func(_ *Spec, r *Report) { r.Groups = []uint32{700001} },
		"environment's order":  func(s *Spec, r *Report) { s.Env, r.Env = []string{"A=1", "B=2"}, []string{"B=2", "A=1"} },
		"mounts' order":        func(_ *Spec, r *Report) { slices.Reverse(r.Mounts) },
		"more namespaces":      func(_ *Spec, r *Report) { r.Namespaces = append(r.Namespaces, "cgroup", "time") },
		"no limit, waived":     func(s *Spec, r *Report) { s.Waive, r.Limits = []Waiver{WaiveNoLimits}, Limits{} },
		"shared network, waived": func(s *Spec, r *Report) {
			s.Waive, r.Namespaces = []Waiver{WaiveSharedNetwork}, []string{"pid", "ipc", "uts", "mnt", "user"}
		},
		"the operator's groups, waived": func(s *Spec, r *Report) {
			s.Identity, s.Waive = Identity{Host: 1000, HostRoot: 1000}, []Waiver{WaiveOneIdentity}
			r.HostUID, r.HostGID, r.Groups = 1000, 1000, []uint32{27}
		},
		"no user namespace": func(s *Spec, r *Report) {
			s.Identity.Inside, r.Namespaces = s.Identity.Host, []string{"pid", "ipc", "net", "uts", "mnt"}
		},
	} {
		s, r := goodSpec(), goodReport()
		change(&s, &r)
		if p := Compare(s, r); len(p) > 0 {
			t.Errorf("%s: %q", name, p)
		}
	}
	s, r := goodSpec(), goodReport()
	s.Waive, r.Limits.Memory = []Waiver{WaiveNoLimits}, 2<<30
	if p := Compare(s, r); len(p) == 0 {
		t.Error("another limit than the asked one passes with the waiver")
	}
	r = goodReport()
	r.Env = []string{"TOKEN=canary"}
	if p := Compare(goodSpec(), r); len(p) == 0 || strings.Contains(strings.Join(p, ""), "canary") {
		t.Errorf("a difference in the environment is told as %q", p)
	}
}

// Every check is needed: some bad spec is refused by it alone, so that a check
// that is gone is noticed by TestValidate.
func TestEveryCheckIsNeeded(t *testing.T) {
	alone := map[string]bool{}
	for _, r := range specRows() {
		for _, change := range r.bad {
			s := goodSpec()
			change(&s)
			if by := refusedBy(s); len(by) == 1 {
				alone[by[0]] = true
			}
		}
	}
	for _, check := range specChecks() {
		if name := nameOf(check); !alone[name] {
			t.Errorf("no bad spec is refused by %s alone", name)
		}
	}
	for _, check := range mountChecks() {
		if name := nameOf(check); !alone[name] {
			t.Errorf("no bad spec is refused by %s alone", name)
		}
	}
}

func refusedBy(s Spec) []string {
	var by []string
	for _, check := range specChecks() {
		if check(s) != nil {
			by = append(by, nameOf(check))
		}
	}
	for _, check := range mountChecks() {
		if slices.ContainsFunc(s.Mounts, func(m Mount) bool { return check(s, m) != nil }) {
			by = append(by, nameOf(check))
		}
	}
	return by
}

func nameOf(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

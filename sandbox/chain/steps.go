package chain

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
)

// Steps is the session, in an order that keeps every After.
func (s Session) Steps() ([]Step, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	all := []Step{s.prepare()}
	if s.Place == Stack {
		all = append(all, s.init())
	}
	all = append(all, s.stage(), s.open(), s.serve(), s.agent())
	last := "agent"
	if len(s.Checks) > 0 {
		all = append(all, s.before())
		last = "before"
	}
	for _, c := range s.Checks {
		check := s.check(c, last)
		all = append(all, check)
		last = check.Name
	}
	all = append(all, s.read(last), s.seal())
	if s.Launched != nil {
		all = append(all, s.send())
	}
	return all, nil
}

// Tools are run by hand, over what sessions left. The operator's words follow
// Argv.
func (s Session) Tools() []Step {
	verb := func(name string, who Who, mounts []Mount, argv ...string) Step {
		return s.own(Step{Name: name, Who: who, Argv: append([]string{Sidecar, s.Place.verb()}, argv...), Mounts: mounts})
	}
	trust := []string{"trust"}
	if s.Registry != "" {
		trust = append(trust, "--registry", s.Registry)
	}
	all := []Step{
		verb("rotate", Supervisor, []Mount{{Root, rootKeys, ReadWrite}, {LedgerKeys, ledgerKeys, ReadWrite}, {Ledger, ledger, ReadWrite}}, "rotate"),
		verb("export", Supervisor, []Mount{{Seals, seals, ReadOnly}}, "export"),
		verb("public-key", Supervisor, []Mount{{LedgerKeys, ledgerKeys, ReadOnly}, {Ledger, ledger, ReadOnly}}, "public-key"),
		verb("content", Reader, []Mount{{Stage, s.Product, ReadOnly}}, "content", "--dir", s.Product),
		verb("trust", Supervisor, []Mount{{LedgerKeys, ledgerKeys, ReadOnly}, {Ledger, ledger, ReadWrite}, {Part, part, ReadOnly}}, trust...),
		verb("release", Supervisor, []Mount{
			{LedgerKeys, ledgerKeys, ReadOnly}, {Ledger, ledger, ReadOnly}, {Part, part, ReadOnly}, {Seals, seals, ReadOnly}, {Release, release, Own},
		}, "release"),
		verb("apply", Stager, []Mount{{Original, original, ReadWrite}, {Stage, stage, ReadOnly}, {Release, release, ReadOnly}}, "apply", original, stage),
	}
	all[len(all)-1].After = []After{{"release", Ended}}
	if s.Doors {
		all = append(all, verb("give", Supervisor, []Mount{{Secrets, secrets, Own}}, "give"))
	}
	return all
}

// own is a step of Proctor's own image, with bounds that its work does not need.
func (s Session) own(step Step) Step {
	step.Limits = Limits{Memory: 1 << 30, PIDs: 128, Output: 16 << 20}
	return step
}

func (s Session) prepare() Step {
	step := Step{
		Name: "prepare", Who: Supervisor, Argv: []string{Sidecar, s.Place.verb(), "prepare"},
		Note:   "Nothing of these volumes is a secret: sockets, handoffs, the agent's first process.",
		Mounts: []Mount{{Programs, programs, Own}},
	}
	if s.Place == Stack { // they take owner and mode from the image's directories
		step.Mounts = append(step.Mounts, Mount{Sockets, sockets, Own}, Mount{Checks, checks, Own},
			Mount{ReaderDoor, readerDoor, Own}, Mount{Facts, facts, Own}, Mount{Baseline, baseline, Own})
	}
	return s.own(step)
}

func (s Session) init() Step {
	return s.own(Step{
		Name: "init", Who: Supervisor, Argv: []string{Sidecar, s.Place.verb(), "init"},
		Note:   "The key is made in its volume, once, and is never anywhere else.",
		Mounts: []Mount{{Root, rootKeys, Own}, {LedgerKeys, ledgerKeys, Own}, {Ledger, ledger, Own}, {Part, part, Own}},
	})
}

func (s Session) stage() Step {
	if s.Launched != nil {
		return s.receive()
	}
	argv := append([]string{Sidecar, s.Place.verb(), "stage", "--owner", fmt.Sprint(GuestID), "--group", fmt.Sprint(GuestID)}, s.Limits...)
	for _, e := range s.Exclude {
		argv = append(argv, "--exclude", e)
	}
	return s.own(Step{
		Name: "stage", Who: Stager, Argv: append(argv, original, stage),
		Note:   "Reads the product and gives a copy of it to the agent; has no key.",
		Mounts: []Mount{{Original, original, ReadOnly}, {Stage, stage, ReadWrite}, {Baseline, baseline, ReadWrite}},
		After:  []After{{"prepare", Ended}},
	})
}

// receive is stage of a product that a launcher brings: nothing of the host is
// mounted, and the copy is the reader's from the beginning.
func (s Session) receive() Step {
	argv := append([]string{Sidecar, s.Place.verb(), "receive", "--stream-sha256", s.Launched.StreamSHA256}, s.Limits...)
	return s.own(Step{
		Name: "stage", Who: Stager, Argv: append(argv, stage), Input: InputOnce,
		Note:   "Takes the product off its standard input; has no key.",
		Mounts: []Mount{{Stage, stage, ReadWrite}, {Baseline, baseline, ReadWrite}},
		After:  []After{{"prepare", Ended}},
	})
}

// send runs beside seal, and gives a launcher the bytes that seal names.
func (s Session) send() Step {
	return s.own(Step{
		Name: "send", Who: Reader, Argv: []string{Sidecar, s.Place.verb(), "send", s.Product}, Input: InputOnce,
		Mounts: []Mount{{Stage, s.Product, ReadOnly}, {Facts, facts, ReadOnly}},
		After:  []After{{"read", Ended}},
	})
}

func (s Session) open() Step {
	argv := []string{Sidecar, s.Place.verb(), "open", "--policy-text", string(s.Policy)}
	images := map[string]string{"agent": s.Agent.Image, "supervisor": "proctor"}
	for _, c := range s.Checks {
		images["check "+c.Name] = c.Image
	}
	names := make([]string, 0, len(images))
	for name := range images {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		argv = append(argv, "--image", name+"="+images[name])
	}
	step := Step{
		Name: "open", Who: Supervisor,
		Mounts: []Mount{{Root, rootKeys, ReadOnly}, {Ledger, ledger, ReadWrite}, {Part, part, ReadWrite}, {Baseline, baseline, ReadOnly}},
		After:  []After{{"stage", Ended}},
	}
	if s.Place == Stack {
		step.After = append(step.After, After{"init", Ended})
	}
	if s.Launched != nil {
		argv = append(argv, s.Launched.Open...)
	}
	if s.Doors {
		argv = append(argv, "--doors")
	}
	for _, w := range s.Waive {
		argv = append(argv, "--allow", w)
	}
	step.Argv = append(append(argv, "--product", s.Product, "--"), s.Agent.Argv...)
	return s.own(step)
}

// input is a launcher's, where there is one.
func (s Session) input(how Input) Input {
	if s.Launched == nil {
		return NoInput
	}
	return how
}

// doorFiles is serve's limit of open files with doors: a connection of the agent's
// and one to a host, a thousand times.
const doorFiles = 8192

func (s Session) serve() Step {
	step := s.own(Step{
		Name: "serve", Who: Supervisor, Argv: []string{Sidecar, s.Place.verb(), "serve"}, Input: s.input(InputOpen),
		Mounts: []Mount{
			{Ledger, ledger, ReadOnly},
			{Part, part, ReadWrite},
			{Sockets, sockets, ReadWrite},
			{Checks, checks, ReadWrite},
			{ReaderDoor, readerDoor, ReadWrite},
		},
		Ready: []string{Sidecar, s.Place.verb(), "ready"},
		After: []After{{"open", Ended}},
	})
	if s.Doors {
		step.Network, step.Files = Outside, doorFiles
		step.Mounts = append(step.Mounts, Mount{Secrets, secrets, ReadOnly}, Mount{Cache, cache, Own})
	}
	return step
}

func (s Session) agent() Step {
	step := s.guest("agent", s.Agent, sockets+"/supervisor.sock", "--writable", ".")
	for _, b := range s.Bridges {
		step.Argv = slices.Insert(step.Argv, 2, "--bridge", strings.Replace(b, "=", "="+sockets+"/", 1))
	}
	step.Mounts = []Mount{{Programs, binaries, ReadOnly}, {Sockets, sockets, ReadOnly}, {Stage, s.Product, ReadWrite}}
	step.After = []After{{"serve", IsReady}}
	return step
}

func (s Session) check(c Check, after string) Step {
	step := s.guest("check-"+c.Name, c.Process, checks+"/"+c.Name+".sock", "--read-only", c.Dir)
	step.Mounts = []Mount{{Programs, binaries, ReadOnly}, {Checks, checks, ReadOnly}, {Stage, s.Product, ReadOnly}}
	step.After = []After{{after, Ended}}
	return step
}

func (s Session) guest(name string, p Process, socket, mount, dir string) Step {
	argv := []string{
		firstOfAll, "init", "--report", socket, "--timeout", p.Timeout.String(), "--grace", p.Grace.String(),
		mount, s.Product, "--dir", path.Join(s.Product, dir), "--",
	}
	return Step{
		Name: name, Who: Guest, Image: p.Image, Runtime: p.Runtime, Argv: append(argv, p.Argv...),
		Env: p.Env, Limits: p.Limits, Timeout: p.Timeout + p.Grace,
	}
}

func (s Session) before() Step { return s.walk("before", "agent") }

func (s Session) read(after string) Step {
	step := s.walk("read", after)
	step.Mounts = append(step.Mounts, Mount{Facts, facts, ReadWrite})
	return step
}

func (s Session) walk(name, after string) Step {
	argv := append([]string{Sidecar, s.Place.verb(), name}, s.Limits...)
	if s.Walk > 0 {
		argv = append(argv, "--timeout", s.Walk.String())
	}
	return s.own(Step{
		Name: name, Who: Reader, Argv: append(argv, s.Product),
		Mounts: []Mount{{ReaderDoor, readerDoor, ReadOnly}, {Stage, s.Product, ReadOnly}},
		After:  []After{{after, Ended}},
	})
}

// seal is told what was meant: an orchestrator may have kept containers of an
// older policy.
func (s Session) seal() Step {
	argv := []string{Sidecar, s.Place.verb(), "seal", "--policy-sha256", fmt.Sprintf("%x", sha256.Sum256(s.Policy)), "--product", s.Product}
	if s.Remedies != "" {
		argv = append(argv, "--remedies", s.Remedies)
	}
	return s.own(Step{
		Name: "seal", Who: Supervisor, Input: s.input(InputOnce),
		Argv: argv,
		Mounts: []Mount{
			{Root, rootKeys, ReadOnly},
			{Ledger, ledger, ReadWrite},
			{Part, part, ReadWrite},
			{Facts, facts, ReadOnly},
			{Seals, seals, Own},
		},
		After: []After{{"read", Ended}},
	})
}

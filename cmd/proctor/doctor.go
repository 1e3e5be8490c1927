package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/display"
)

func newDoctorCommand(a *app) *cobra.Command {
	var engine, runtime string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can and cannot guarantee, and the remedy for each",
		Example: `  proctor doctor
  proctor doctor --engine docker --json`,
		Annotations: schema("proctor/doctor/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), engine, runtime) },
	}
	cmd.Flags().StringVar(&engine, "engine", "", "ask about one engine")
	cmd.Flags().StringVar(&runtime, "runtime", "", "runtime of the agent and the checks: runc or runsc")
	return cmd
}

// finding is one row of doctor.
type finding struct {
	Level  string `json:"level"` // ok, warn, FAIL
	What   string `json:"what"`
	Means  string `json:"means"`
	Remedy string `json:"remedy"`
}

type engineFindings struct {
	Engine   string    `json:"engine"`
	Usable   bool      `json:"usable"`
	Findings []finding `json:"findings"`
}

func (a *app) doctor(ctx context.Context, engine, runtime string) error {
	if engine != "" {
		if err := checkEngine(engine); err != nil {
			return err
		}
	}
	h, err := a.home()
	if err != nil {
		return err
	}
	names := engineNames()
	chosen := "local"
	if engine != "" {
		names, chosen = []string{engine}, engine
	} else if _, pol, err := readPolicy(a.policyPath(h)); err == nil {
		chosen = string(pol.Agent.Engine)
	}
	var all []engineFindings
	usable := false
	for _, name := range names {
		f := a.examine(ctx, h, name, runtime)
		all = append(all, f)
		if name == chosen {
			usable = f.Usable
		}
	}
	if a.asJSON {
		a.printJSON(struct {
			Schema  string           `json:"schema"`
			Chosen  string           `json:"chosen"`
			Usable  bool             `json:"usable"`
			Engines []engineFindings `json:"engines"`
		}{"proctor/doctor/v1", chosen, usable, all})
	} else {
		a.printDoctor(h, chosen, all)
	}
	if !usable {
		return outcomeError(exitFail)
	}
	return nil
}

func (a *app) printDoctor(h *home.Home, chosen string, all []engineFindings) {
	for _, e := range all {
		_, _ = fmt.Fprintf(a.out, "engine %s\n", e.Engine)
		for _, f := range e.Findings {
			_, _ = fmt.Fprintf(a.out, "  %-4s  %-32s  %s\n", f.Level, display.Escape(f.What), display.Escape(f.Means))
			if f.Remedy != "" {
				_, _ = fmt.Fprintf(a.out, "        remedy: %s\n", f.Remedy)
			}
		}
	}
	_, _ = fmt.Fprintf(a.out, "control   %s\n", display.Escape(h.Dir()))
	for _, e := range all {
		if e.Engine == chosen {
			word := "yes"
			if !e.Usable {
				word = "refused until the FAIL rows are fixed"
			}
			_, _ = fmt.Fprintf(a.out, "run here  %s: %s\n", e.Engine, word)
		}
	}
	_, _ = fmt.Fprintln(a.out, "not promised by any of these: a kernel exploit (use --runtime runsc)")
}

func (a *app) examine(ctx context.Context, h *home.Home, name, runtime string) engineFindings {
	out := engineFindings{Engine: name, Findings: []finding{}}
	add := func(level, what, means, remedy string) {
		out.Findings = append(out.Findings, finding{level, what, means, remedy})
	}
	place, err := h.Config(name)
	switch {
	case errors.Is(err, home.ErrNotInitialised):
		add("FAIL", "no keys and control", "proctor run has nothing to sign with", "proctor init --engine "+name)
	case err != nil:
		add("FAIL", "keys and control", err.Error(), "")
	case place.IDs == 0:
		add("warn", "one identity", "agent and supervisor are the operator's own id: needs the waiver one-identity", "--allow one-identity")
	default:
		add("ok", fmt.Sprintf("%s subordinate ids", display.Count(int64(place.IDs))), "every session has an owner of its own", "")
	}
	info, err := a.probe(ctx, h, name, runtime)
	if err != nil {
		remedy := ""
		var unavailable *sandbox.UnavailableError
		if errors.As(err, &unavailable) {
			remedy = unavailable.Remedy
		}
		add("FAIL", "not usable", err.Error(), remedy)
		return out
	}
	out.Findings = append(out.Findings, infoFindings(info)...)
	out.Usable = true
	for _, f := range out.Findings {
		out.Usable = out.Usable && f.Level != "FAIL"
	}
	return out
}

func infoFindings(i sandbox.Info) []finding {
	var all []finding
	add := func(good bool, what, means, remedy string) {
		level := "ok"
		if !good {
			level = "warn"
		} else {
			remedy = ""
		}
		all = append(all, finding{level, what, means, remedy})
	}
	what := strings.TrimSpace(i.Runtime + " " + i.RuntimeVersion)
	if i.RuntimeFloor == "ok" {
		add(true, what, "not under a known CVE floor", "")
	} else {
		add(false, what, i.RuntimeFloor+": needs the waiver runtime-floor", "make, or --allow runtime-floor")
	}
	add(i.Seccomp, "seccomp", "system calls are filtered", "use a kernel and a runtime with seccomp")
	add(i.UserNamespace, "user namespaces", "root inside is nobody outside", "use the local engine")
	add(i.RecursiveRO, "recursive read-only mounts", "a submount cannot be writable under a read-only mount", "use the local engine")
	add(len(i.LimitsMissing) == 0, "cgroup "+i.Cgroup, limitsText(i.LimitsMissing), "run as root or delegate a cgroup, or --allow no-limits")
	for _, n := range i.Notes {
		all = append(all, finding{Level: "ok", What: "note", Means: n})
	}
	return all
}

func limitsText(missing []string) string {
	if len(missing) == 0 {
		return "memory, processes and cpu are limited"
	}
	return "not enforced here: " + strings.Join(missing, ", ")
}

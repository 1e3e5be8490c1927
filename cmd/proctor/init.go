package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/kubernetes"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sandbox/subid"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newInitCommand(a *app) *cobra.Command {
	engine := "local"
	var at clusterOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make keys, control and a commented policy",
		Long: `Claims subordinate ids for the sessions and the supervisor, makes the root key and the
ledger inside the supervisor's boundary, and writes a policy if there is none.`,
		Example: `  proctor init
  proctor init --engine docker
  proctor init --engine kubernetes --namespace agents --image registry.example/proctor:1`,
		Annotations: schema("proctor/keys/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.init(cmd.Context(), engine, at) },
	}
	cmd.Flags().StringVar(&engine, "engine", engine, "engine that keys and control are made for: local, docker, containerd or kubernetes")
	at.add(cmd.Flags())
	return cmd
}

func (a *app) init(ctx context.Context, engine string, at clusterOptions) error {
	if err := errors.Join(checkEngine(engine), at.check(engine)); err != nil {
		return err
	}
	h, err := a.home()
	if err != nil {
		return err
	}
	if _, err := h.Config(engine); !errors.Is(err, home.ErrNotInitialised) {
		if err == nil {
			err = fmt.Errorf("%s is already initialised for engine %s", h.Dir(), engine)
		}
		return &hintError{err, "proctor doctor --engine " + engine}
	}
	path := a.policyPath(h)
	if err := a.outside("", h.Dir(), path); err != nil {
		return err
	}
	if err := h.Make(); err != nil {
		return err
	}
	place, err := claim(ctx, h, engine)
	if err != nil {
		return err
	}
	at.into(&place)
	cfg, e, err := a.engineOver(ctx, h, place, engineOptions{name: engine})
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	var reply wire.KeysReply
	if cluster, ok := e.engine.(*kubernetes.Client); ok {
		err = a.initCluster(ctx, h, cluster, cfg, place, at.join, &reply)
	} else {
		_, err = launch.Init(ctx, cfg, place, &reply)
	}
	if err != nil {
		return err
	}
	text, registry := a.newPolicy(ctx)
	wrote, err := writePolicy(path, text)
	if err != nil {
		return err
	}
	if a.asJSON {
		a.printJSON(reply)
		return nil
	}
	_, _ = fmt.Fprintf(a.out, "keys and control   %s, engine %s, key %s\n", display.Escape(h.Dir()), engine, reply.Epochs[0].KeyID)
	if place.IDs > 0 {
		_, _ = fmt.Fprintf(a.out, "subordinate ids    %d to %d\n", place.FirstID, place.FirstID+place.IDs-1)
	} else {
		_, _ = fmt.Fprintln(a.out, "subordinate ids    none: every run needs the waiver one-identity")
	}
	word := "kept"
	if wrote {
		word = "written"
	}
	_, _ = fmt.Fprintf(a.out, "policy             %s (%s)\n", display.Escape(path), word)
	switch {
	case wrote && registry != "":
		_, _ = fmt.Fprintf(a.out, "package registry   %s (of the host's npm)\n", display.Escape(registry))
	case wrote:
		_, _ = fmt.Fprintf(a.out, "package registry   none: set packages.registry to what npm config get registry prints\n")
	}
	a.complain("hint: " + a.pasteable("proctor run -- COMMAND"))
	return nil
}

// newPolicy is the template, with the registry that the host's npm uses.
func (a *app) newPolicy(ctx context.Context) (text, registry string) {
	registry = npmRegistry(ctx)
	if text, err := policy.TemplateWith(registry); err == nil {
		return text, registry
	}
	return policy.Template(), ""
}

// npmRegistry asks the host's npm which registry it uses; "" is that it does not
// say. It is asked in the root directory: what lies in a product is not the
// operator's configuration.
func npmRegistry(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "config", "get", "registry")
	npm.Dir = "/"
	out, err := npm.Output()
	if err != nil || len(out) > 4096 {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// claim finds the ids that the supervisor and the sessions will have.
func claim(ctx context.Context, h *home.Home, engine string) (home.Config, error) {
	c := home.Config{Schema: "proctor/home/v1", Engine: engine, Place: strings.ToLower(rand.Text()[:12])}
	for _, other := range engineNames() {
		if have, err := h.Config(other); err == nil {
			have.Engine, have.Place = engine, c.Place
			have.Context, have.Namespace, have.Image = "", "", ""
			return have, nil
		}
	}
	u, err := user.Current()
	if err != nil {
		return c, err
	}
	r, err := subid.Claim(subid.Account{UID: uint32(os.Geteuid()), Name: u.Username, Etc: "/etc", Proc: "/proc/self"})
	if errors.Is(err, subid.ErrNone) {
		c.Supervisor, c.SupervisorRoot = uint32(os.Geteuid()), uint32(os.Geteuid())
		return c, nil
	}
	if err != nil {
		return c, err
	}
	c.FirstID, c.IDs = r.First, r.Count
	dir, err := leasesDir()
	if err != nil {
		return c, err
	}
	// The supervisor's block is home's for as long as home exists.
	b, err := subid.Lease(ctx, dir, r, h.Dir())
	if err != nil {
		return c, err
	}
	c.SupervisorRoot, c.Supervisor = b.First, b.First+1
	return c, nil
}

// writePolicy writes the commented template where there is no policy yet.
func writePolicy(path, text string) (bool, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(text)
	return true, errors.Join(err, f.Close())
}

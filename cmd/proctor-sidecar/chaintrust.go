package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// stackUser is who a stack's ledger says did it: no step knows the host's user.
const stackUser = "the stack's operator"

// onePath is what a verb about a path takes.
type onePath struct{ raw []byte }

func (p *onePath) add(cmd *cobra.Command) {
	cmd.Flags().BytesBase64Var(&p.raw, "path-base64", nil, "the path's bytes in base64, instead of PATH")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if (len(args) == 1) == (len(p.raw) > 0) || len(args) > 1 {
			return &steps.RefusedError{Err: errors.New("one path is needed: PATH, or --path-base64")}
		}
		return nil
	}
}

func (p *onePath) of(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return string(p.raw)
}

func newChainContentCommand(stdout io.Writer) *cobra.Command {
	var path onePath
	var dir string
	cmd := &cobra.Command{
		Use: "content PATH", Short: "Write a file of the stage",
		RunE: func(_ *cobra.Command, args []string) error { return steps.ChainContent(dir, path.of(args), stdout) },
	}
	path.add(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "where the stage is mounted")
	return cmd
}

// newChainTrustCommand are the operator's verbs of a stack. They have no root
// key, and no product: bytes come on standard input.
func newChainTrustCommand(c steps.ChainLayout, stdin io.Reader, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{Use: "trust", Short: "Say what files and hosts may be, and answer requests"}
	for _, act := range []string{"approve", "deny", "revoke"} {
		cmd.AddCommand(newChainPathCommand(c, act, stdin, stdout))
	}
	list := step("list", "List what was decided about paths", func(cmd *cobra.Command) error {
		reply, err := steps.ChainTrust(cmd.Context(), c, wire.TrustRequest{Act: "list", By: stackUser}, nil)
		return errors.Join(err, sayRecords(stdout, reply))
	})
	replace := false
	imported := step("import", "Enter what proctor trust export wrote, from standard input", func(cmd *cobra.Command) error {
		reply, err := steps.ChainTrust(cmd.Context(), c, wire.TrustRequest{Act: "import", By: stackUser, Replace: replace}, stdin)
		return errors.Join(err, sayRecords(stdout, reply))
	})
	imported.Flags().BoolVar(&replace, "replace", false, "replace records that say something else")
	cmd.AddCommand(list, imported)
	cmd.AddCommand(newChainHostCommands(c, stdout)...)
	cmd.AddCommand(newChainRequestCommands(c, stdout)...)
	registry := cmd.PersistentFlags().String("registry", "", "the registry that packages are of, as the policy names it")
	cmd.AddCommand(newChainPackageCommands(c, registry, stdin, stdout)...)
	return cmd
}

func newChainPathCommand(c steps.ChainLayout, act string, stdin io.Reader, stdout io.Writer) *cobra.Command {
	var path onePath
	var expires time.Duration
	req := wire.TrustRequest{Act: act, By: stackUser}
	cmd := &cobra.Command{
		Use: act + " PATH", Short: "What was decided about exactly these bytes of a path, on standard input",
		RunE: func(cmd *cobra.Command, args []string) error {
			p := wire.NewPath(path.of(args))
			req.Path, req.Expires = &p, after(expires)
			reply, err := steps.ChainTrust(cmd.Context(), c, req, stdin)
			return errors.Join(err, sayRecords(stdout, reply))
		},
	}
	path.add(cmd)
	if act == "revoke" {
		return cmd
	}
	cmd.Flags().StringVar(&req.Expect, "expect-sha256", "", "the content's digest: any other is refused")
	cmd.Flags().BoolVar(&req.Kept, "kept", false, "the content is what serve kept of it, while its session runs")
	cmd.Flags().StringVar(&req.Note, "note", "", "why, for the record")
	cmd.Flags().DurationVar(&expires, "expires", 0, "when it ends: a time from now, as 12h")
	return cmd
}

func after(d time.Duration) *time.Time {
	if d <= 0 {
		return nil
	}
	end := time.Now().UTC().Add(d)
	return &end
}

func sayRecords(w io.Writer, r wire.TrustReply) error {
	var errs []error
	for _, rec := range r.Records {
		until := "for good"
		if rec.Expires != nil {
			until = "until " + rec.Expires.UTC().Format(time.RFC3339)
		}
		_, err := fmt.Fprintf(w, "%s\tsha256:%s\t%s\t%s\n", rec.Decision, rec.SHA256, until, display.Escape(rec.Path.Raw()))
		errs = append(errs, err)
	}
	for _, ref := range r.References {
		_, err := fmt.Fprintf(w, "  refers to %s: not covered by this\n", display.Escape(ref))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func newChainHostCommands(c steps.ChainLayout, stdout io.Writer) []*cobra.Command {
	var all []*cobra.Command
	for use, act := range map[string]string{"allow-host": "approve", "deny-host": "deny", "revoke-host": "revoke", "list-hosts": "list"} {
		req := wire.HostsRequest{Act: act, User: stackUser}
		var expires time.Duration
		cmd := &cobra.Command{Use: use + " HOST:PORT", Short: "What was decided about a host", Args: cobra.ExactArgs(1)}
		if act == "list" {
			cmd.Use, cmd.Args = use, cobra.NoArgs
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				p, err := hosts.ParsePattern(args[0])
				if err != nil {
					return &steps.RefusedError{Err: fmt.Errorf("%s %w", display.Quote(display.Escape(args[0])), err)}
				}
				req.Host, req.Port = p.Host(), p.Port()
			}
			req.Expires = after(expires)
			reply, err := steps.ChainHosts(cmd.Context(), c, req)
			for _, r := range reply.Records {
				_, e := fmt.Fprintf(stdout, "%s\t%s\n", r.Decision, display.Escape(r.Host+":"+strconv.Itoa(r.Port)))
				err = errors.Join(err, e)
			}
			return err
		}
		if act == "approve" {
			cmd.Flags().DurationVar(&expires, "expires", 0, "when it ends: a time from now, as 12h")
		}
		all = append(all, cmd)
	}
	return all
}

// newChainPackageCommands take identities: nothing is asked of a registry here.
func newChainPackageCommands(c steps.ChainLayout, registry *string, stdin io.Reader, stdout io.Writer) []*cobra.Command {
	ask := func(cmd *cobra.Command, req wire.PackagesRequest, all ...packages.Identity) error {
		for _, p := range all {
			req.Packages = append(req.Packages, wire.Package{Registry: p.Registry, Name: p.Name, Version: p.Version, Integrity: p.Integrity})
		}
		req.User = stackUser
		reply, err := steps.ChainPackages(cmd.Context(), c, req)
		for _, r := range reply.Records {
			_, e := fmt.Fprintf(stdout, "%s\t%s\t%s\t%s\n", r.Decision, cmp.Or(r.Integrity, "-"), display.Escape(r.Registry), display.Escape(r.Name+"@"+cmp.Or(r.Version, "*")))
			err = errors.Join(err, e)
		}
		return err
	}
	var integrity string
	var expires time.Duration
	var lock bool
	approve := &cobra.Command{
		Use: "approve-package NAME@VERSION", Short: "Approve exactly these bytes of a package, or what the lock file on standard input names",
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []packages.Identity
			var err error
			switch {
			case lock && len(args) == 0 && integrity == "":
				all, err = lockedPackages(*registry, stdin)
			case !lock && len(args) == 1 && integrity != "":
				all = make([]packages.Identity, 1)
				all[0], err = named(args[0], false)
				err = errors.Join(err, needRegistry(*registry))
				all[0].Registry, all[0].Integrity = *registry, integrity
			default:
				err = errors.New("one package is needed: NAME@VERSION with --integrity, or --from-lockfile and the file on standard input")
			}
			if err != nil {
				return &steps.RefusedError{Err: err}
			}
			return ask(cmd, wire.PackagesRequest{Act: "approve", Expires: after(expires)}, all...)
		},
	}
	approve.Flags().StringVar(&integrity, "integrity", "", "the bytes, sha512-…")
	approve.Flags().BoolVar(&lock, "from-lockfile", false, "every package of the package-lock.json on standard input (versions 2 and 3)")
	approve.Flags().DurationVar(&expires, "expires", 0, "when it ends: a time from now, as 12h")
	commands := []*cobra.Command{approve, step("list-packages", "List what was decided about packages", func(cmd *cobra.Command) error {
		return ask(cmd, wire.PackagesRequest{Act: "list"})
	})}
	for use, act := range map[string]string{"deny-package": "deny", "revoke-package": "revoke"} {
		commands = append(commands, &cobra.Command{
			Use: use + " NAME[@VERSION]", Short: "What was decided about a package", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				p, err := named(args[0], true)
				if act == "deny" { // what is revoked is revoked in whatever registry
					p.Registry = *registry
					err = errors.Join(err, needRegistry(*registry))
				}
				if err != nil {
					return &steps.RefusedError{Err: err}
				}
				return ask(cmd, wire.PackagesRequest{Act: act}, p)
			},
		})
	}
	return commands
}

func needRegistry(registry string) error {
	if registry == "" {
		return errors.New("packages.registry is not in the policy that this stack was rendered from")
	}
	return nil
}

// named takes NAME@VERSION and, where every version may be meant, NAME.
func named(text string, alone bool) (packages.Identity, error) {
	s, err := packages.ParseSpec(text)
	switch {
	case err != nil:
		return packages.Identity{}, err
	case s.Version == "" && (!alone || strings.Contains(strings.TrimPrefix(text, "@"), "@")):
		return packages.Identity{}, fmt.Errorf("%s: one exact version is needed", display.Quote(display.Escape(text)))
	}
	return packages.Identity{Name: s.Name, Version: s.Version}, nil
}

func lockedPackages(registry string, stdin io.Reader) ([]packages.Identity, error) {
	if err := needRegistry(registry); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(stdin, packages.MaxLock+1))
	if err != nil {
		return nil, err
	}
	all, err := packages.LockIdentities(registry, data)
	if err == nil && len(all) == 0 {
		err = errors.New("the lock file names no package")
	}
	return all, err
}

func newChainRequestCommands(c steps.ChainLayout, stdout io.Writer) []*cobra.Command {
	ask := func(cmd *cobra.Command, req wire.RequestsRequest) error {
		req.By = stackUser
		reply, err := steps.ChainRequests(cmd.Context(), c, req)
		for _, r := range reply.Requests {
			_, e := fmt.Fprintf(stdout, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.State, r.SHA256, r.Subject.Kind, display.Escape(r.Subject.Name()))
			err = errors.Join(err, e)
		}
		return err
	}
	list := step("requests", "List what the last session's agent asked for", func(cmd *cobra.Command) error {
		return ask(cmd, wire.RequestsRequest{Act: "list"})
	})
	all := []*cobra.Command{list}
	for use, act := range map[string]string{"approve-request": "approve", "deny-request": "deny"} {
		req := wire.RequestsRequest{Act: act}
		cmd := &cobra.Command{
			Use: use + " ID", Short: "Answer a request, as it was shown", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				req.ID = args[0]
				return ask(cmd, req)
			},
		}
		cmd.Flags().StringVar(&req.Expect, "expect", "", "the request's digest")
		cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for the agent")
		all = append(all, cmd)
	}
	return all
}

func newChainRotateCommand(c steps.ChainLayout, stdout io.Writer) *cobra.Command {
	compromised := false
	cmd := step("rotate", "Make a new root key; the old one only verifies from now on", func(cmd *cobra.Command) error {
		reason := keys.Routine
		if compromised {
			reason = keys.Leaked
		}
		reply, err := steps.ChainRotate(cmd.Context(), c, reason, stackUser)
		for _, e := range reply.Epochs {
			_, failed := fmt.Fprintf(stdout, "%d\t%s\t%s\n", e.Epoch, e.State, e.KeyID)
			err = errors.Join(err, failed)
		}
		return err
	})
	cmd.Flags().BoolVar(&compromised, "compromised", false, "end all trust in the old key")
	return cmd
}

func newChainGiveCommand(c steps.ChainLayout, stdin io.Reader) *cobra.Command {
	cmd := &cobra.Command{Use: "give", Short: "Keep what the doors need, from standard input, for serve alone"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "secret SERVICE", Short: "The secret of a service", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return steps.ChainGiveSecret(c, args[0], stdin) },
		},
		step("roots", "The certificates that hosts are verified by", func(*cobra.Command) error { return steps.ChainGiveRoots(c, stdin) }),
	)
	return cmd
}

func newChainApplyCommands(c steps.ChainLayout, stdout io.Writer) []*cobra.Command {
	return []*cobra.Command{
		step("release", "Hold the last session's seal against the ledger, and hand over what apply goes by", func(cmd *cobra.Command) error {
			return steps.ChainRelease(cmd.Context(), c)
		}),
		{
			Use: "apply PRODUCT STAGE", Short: "Write the sealed bytes of the stage into the product", Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				reply, session, err := steps.ChainApply(cmd.Context(), c, args[0], args[1])
				if err != nil {
					return err
				}
				if lines := steps.Complain(reply); len(lines) > 0 {
					for _, line := range lines {
						_, err = fmt.Fprintln(stdout, line)
					}
					if len(reply.Missing) > 0 || reply.Written+reply.Removed > 0 {
						return errors.Join(err, verdictError(exitInternal))
					}
					return errors.Join(err, verdictError(exitRefused))
				}
				_, err = fmt.Fprintf(stdout, "applied session %s: %d written, %d removed\n", session, reply.Written, reply.Removed)
				return err
			},
		},
	}
}

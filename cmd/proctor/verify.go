package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

type verifyOptions struct {
	publicKey    string
	control      bool
	engine       string
	product      string
	exact        bool
	noUnreviewed bool
	commit       string
	repo         string
	manifest     string
	require      []string
}

func newVerifyCommand(a *app) *cobra.Command {
	var opts verifyOptions
	cmd := &cobra.Command{
		Use:   "verify SEAL",
		Short: "Verify a seal offline, with a public key or with control",
		Long: `Says, row by row, what was checked and what was not. A key found in the seal itself is never
trusted. With --commit, every file of the commit is compared with what was sealed, so that
a CI job lets only sealed commits through.`,
		Example: `  proctor verify --public-key public.json --product . seal.json
  proctor verify --public-key public.json --commit HEAD --repo . --require signature,commit seal.json`,
		Annotations: schema("proctor/verify/v1"),
		Args:        cobra.ExactArgs(1),
		RunE:        func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), opts, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&opts.publicKey, "public-key", "", "file that proctor keys export-public printed")
	f.BoolVar(&opts.control, "control", false, "use this home's keys and ledger: both signatures, and whether it is the newest seal")
	f.StringVar(&opts.engine, "engine", "", "engine whose keys are meant with --control")
	f.StringVar(&opts.product, "product", "", "directory to compare with what was sealed")
	f.BoolVar(&opts.exact, "exact", false, "a git index that differs in stat fields only is a difference, too")
	f.BoolVar(&opts.noUnreviewed, "no-unreviewed", false, "a seal that lists reviews is not verified")
	f.StringVar(&opts.commit, "commit", "", "revision to compare with what was sealed")
	f.StringVar(&opts.repo, "repo", "", "your own clone that holds the revision")
	f.StringVar(&opts.manifest, "manifest", "", "the seal's manifest (default: beside the seal)")
	f.StringSliceVar(&opts.require, "require", nil, "rows that must be ok: signature, hmac, ledger, manifest, product, commit")
	return cmd
}

func (a *app) verify(ctx context.Context, opts verifyOptions, path string) error {
	o, closers, err := a.verifyInputs(ctx, opts, path)
	defer func() {
		for _, c := range closers {
			_ = c.Close()
		}
	}()
	if err != nil {
		return err
	}
	report, err := seal.Verify(o)
	if errors.Is(err, seal.ErrNoKey) {
		return &hintError{err, verifyCommand(path)}
	}
	if err != nil {
		return &usageError{err}
	}
	if opts.noUnreviewed && report.Statement != nil {
		report = withReviews(report)
	}
	if slices.Contains(opts.require, "commit") && opts.commit == "" {
		report = withRow(report, seal.Row{Status: seal.NO, Name: "commit", Detail: "required, and no --commit given", Lines: []string{}})
	}
	if opts.commit != "" {
		if report, err = withCommit(ctx, report, opts, manifestPath(opts, path)); err != nil {
			return err
		}
	}
	a.printReport(path, report)
	return outcomeOf(report.Exit)
}

// verifyCommand is what to type for a seal, whatever its path is made of.
func verifyCommand(path string) string {
	words := []string{"proctor", "verify", "--public-key", "FILE"}
	if !display.Printable(path) || strings.HasPrefix(path, "-") {
		words = append(words, "--")
	}
	return display.Command(append(words, path)...)
}

func manifestPath(opts verifyOptions, path string) string {
	if opts.manifest != "" {
		return opts.manifest
	}
	ext := filepath.Ext(path)
	return path[:len(path)-len(ext)] + ".manifest"
}

// verifyInputs opens everything that the flags name.
func (a *app) verifyInputs(ctx context.Context, opts verifyOptions, path string) (seal.Options, []io.Closer, error) {
	var o seal.Options
	var closers []io.Closer
	if (opts.commit == "") != (opts.repo == "") {
		return o, nil, &usageError{errors.New("--commit and --repo belong together")}
	}
	f, err := os.Open(path)
	if err != nil {
		return o, nil, err
	}
	closers = append(closers, f)
	if o.Seal, err = readAtMost(f, seal.MaxSize); err != nil {
		return o, closers, fmt.Errorf("read %s: %w", path, err)
	}
	if opts.publicKey != "" {
		k, err := os.Open(opts.publicKey)
		if err != nil {
			return o, closers, err
		}
		closers = append(closers, k)
		data, err := readAtMost(k, 8<<20)
		if err != nil {
			return o, closers, fmt.Errorf("read %s: %w", opts.publicKey, err)
		}
		if o.PublicKey, err = seal.ParsePublicKey(data); err != nil {
			return o, closers, err
		}
	}
	m, err := os.Open(manifestPath(opts, path))
	switch {
	case err == nil:
		closers = append(closers, m)
		o.Manifest = m
	case !errors.Is(err, os.ErrNotExist) || opts.manifest != "":
		return o, closers, err
	}
	if opts.control {
		if err := a.askControl(ctx, opts, &o); err != nil {
			return o, closers, err
		}
	}
	o.Exact = opts.exact
	for _, r := range opts.require {
		if r != "commit" {
			o.Require = append(o.Require, r)
		}
	}
	if opts.product != "" {
		stream, err := readProduct(ctx, opts.product)
		if err != nil {
			return o, closers, err
		}
		closers = append(closers, stream)
		o.Product = stream
	}
	return o, closers, nil
}

// askControl lets the supervisor say what its key and its ledger know. Without
// --public-key, the public keys are the ones that the launcher remembers.
func (a *app) askControl(ctx context.Context, opts verifyOptions, o *seal.Options) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: opts.engine})
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	var reply wire.SealCheck
	needs := launch.Needs{RootKeys: true, Ledger: launch.LedgerRead}
	if err := e.launcher.Verb(ctx, []string{"check-seal"}, needs, bytes.NewReader(o.Seal), &reply); err != nil {
		return err
	}
	for _, row := range reply.Rows {
		o.Answered = append(o.Answered, seal.Row{Status: seal.Status(row.Status), Name: row.Name, Detail: row.Detail})
	}
	if len(o.Answered) == 0 {
		return errors.New("the supervisor's answer is empty")
	}
	if opts.publicKey != "" {
		return nil
	}
	anchor, err := h.Anchor(e.name)
	if err != nil || anchor == nil {
		return errors.Join(err, home.ErrNotInitialised)
	}
	o.KeyFrom = "as this home remembers it"
	o.PublicKey, err = seal.ParsePublicKey(anchor.Chain)
	return err
}

// readProduct starts the reader over a directory, as a process of its own
// without environment; its stream is all that comes back.
func readProduct(ctx context.Context, dir string) (io.ReadCloser, error) {
	tools, err := toolsDir()
	if err != nil {
		return nil, err
	}
	if dir, err = productDir(dir); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(tools, "proctor-sidecar"), "read", "--", dir)
	cmd.Env = []string{}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the reader: %w", err)
	}
	return &childStream{out, cmd}, nil
}

// childStream ends its process when it is closed.
type childStream struct {
	io.ReadCloser
	cmd *exec.Cmd
}

func (c *childStream) Close() error {
	_ = c.ReadCloser.Close()
	_ = c.cmd.Process.Kill()
	return c.cmd.Wait()
}

// withReviews makes listed reviews a difference.
func withReviews(r seal.Report) seal.Report {
	row := seal.Row{Status: seal.OK, Name: "reviews", Detail: "none listed", Lines: []string{}}
	if n := len(r.Statement.Predicate.Reviews); n > 0 {
		row.Status, row.Detail = seal.NO, display.Plural(int64(n), "change")+" to review"
		for _, v := range r.Statement.Predicate.Reviews {
			row.Lines = append(row.Lines, v.Kind+" "+v.RawPath())
		}
	}
	return withRow(r, row)
}

// withRow adds a row and what it means for the outcome.
func withRow(r seal.Report, row seal.Row) seal.Report {
	r.Rows = append(r.Rows, row)
	if row.Status == seal.NO {
		if r.Verified {
			r.Outcome = "NOT VERIFIED"
		}
		r.Verified = false
		r.Outcome += ": " + row.Name + ": " + row.Detail
		r.Exit = max(r.Exit, exitFail)
	}
	return r
}

func (a *app) printReport(path string, r seal.Report) {
	if a.asJSON {
		a.printJSON(struct {
			Schema   string          `json:"schema"`
			Seal     string          `json:"seal"`
			Digest   string          `json:"digest"`
			Verified bool            `json:"verified"`
			Exit     int             `json:"exit"`
			Outcome  string          `json:"outcome"`
			Rows     []seal.Row      `json:"rows"`
			Signed   *seal.Statement `json:"signed"`
		}{"proctor/verify/v1", path, r.Digest, r.Verified, r.Exit, r.Outcome, r.Rows, r.Statement})
		return
	}
	head := filepath.Base(path)
	if r.Statement != nil {
		p := r.Statement.Predicate
		head += fmt.Sprintf(", session %s, %s, verdict %s", p.Session, p.Sealed.Format("2006-01-02T15:04:05Z"), p.Verdict)
	}
	_, _ = fmt.Fprintf(a.out, "seal       %s\n", display.Escape(head))
	for _, row := range r.Rows {
		_, _ = fmt.Fprintf(a.out, "  %-3s  %-10s %s\n", row.Status, row.Name, display.Escape(row.Detail))
		for _, l := range row.Lines {
			_, _ = fmt.Fprintf(a.out, "       %s\n", display.Escape(l))
		}
	}
	_, _ = fmt.Fprintf(a.out, "%s (exit %d)\n", display.Escape(r.Outcome), r.Exit)
}

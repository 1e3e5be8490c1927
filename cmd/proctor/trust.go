package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newTrustCommand(a *app) *cobra.Command {
	engine := ""
	cmd := &cobra.Command{
		Use: "trust", Short: "Approve, deny, list and revoke what a product's files and packages may be",
		Long: `An approval is for exactly one content of one absolute path, or for exactly one version of
one package from one registry. A change of one byte ends it.`,
	}
	cmd.PersistentFlags().StringVar(&engine, "engine", "", "engine whose ledger is meant (default: the session's, or the only one)")
	cmd.AddCommand(
		newTrustApproveCommand(a, &engine), newTrustDenyCommand(a, &engine), newTrustShowCommand(a, &engine),
		newTrustListCommand(a, &engine), newTrustRevokeCommand(a, &engine),
		newTrustExportCommand(a, &engine), newTrustImportCommand(a, &engine),
	)
	cmd.AddCommand(packageVerbs(a, &engine)...)
	return cmd
}

// pathFlags are what every verb that names one path takes.
type pathFlags struct {
	base64  []byte
	session string
	expect  string
}

func (p *pathFlags) add(cmd *cobra.Command) {
	cmd.Flags().BytesBase64Var(&p.base64, "path-base64", nil, "the path's bytes in base64, instead of PATH")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if (len(args) == 1) == (len(p.base64) > 0) || len(args) > 1 {
			return errors.New("one path is needed: PATH, or --path-base64")
		}
		return nil
	}
}

func (p *pathFlags) addContent(cmd *cobra.Command) {
	p.add(cmd)
	cmd.Flags().StringVar(&p.session, "session", "", "the bytes are those that this session's agent made; the path stays the operator's")
	cmd.Flags().StringVar(&p.expect, "expect-sha256", "", "refuse any other content than this")
}

func (p *pathFlags) raw(args []string) string {
	if len(p.base64) > 0 {
		return string(p.base64)
	}
	return args[0]
}

func (p *pathFlags) check() error {
	if p.expect != "" && !isSHA256(p.expect) {
		return &usageError{fmt.Errorf("--expect-sha256 %q is not 64 hexadecimal digits in lower case", p.expect)}
	}
	return nil
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// absolute makes an operator's path absolute and clean.
func absolute(raw string) (string, error) {
	if strings.Contains(raw, "\x00") || raw == "" {
		return "", &usageError{fmt.Errorf("path %q is none", raw)}
	}
	return filepath.Abs(raw)
}

// resolved follows every link on the way; what does not exist is resolved as far
// as it does.
func resolved(abs string) (string, error) {
	real, err := filepath.EvalSymlinks(abs)
	if !errors.Is(err, fs.ErrNotExist) || abs == "/" {
		return real, err
	}
	dir, err := resolved(filepath.Dir(abs))
	return filepath.Join(dir, filepath.Base(abs)), err
}

// inProduct is the path as a session's product has it. A link inside the
// product is the agent's, and stays what it is.
func inProduct(abs, product string) (string, error) {
	for _, p := range []func(string) (string, error){func(s string) (string, error) { return s, nil }, resolved} {
		path, err := p(abs)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(path, strings.TrimSuffix(product, "/")+"/") {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in the session's product, %s", display.Escape(abs), display.Escape(product))
}

// trusted is an engine's ledger, opened for one verb.
type trusted struct {
	*engine
	state home.State // of the session that is meant; empty without one
}

func (a *app) openTrust(ctx context.Context, engineName, session string) (*trusted, error) {
	h, err := a.home()
	if err != nil {
		return nil, err
	}
	t := &trusted{}
	if session != "" {
		if _, t.state, err = a.known(session); err != nil {
			return nil, err
		}
		if engineName != "" && engineName != t.state.Engine {
			return nil, &usageError{fmt.Errorf("session %s ran on engine %s", session, t.state.Engine)}
		}
		engineName = t.state.Engine
	}
	if err := a.outside(string(t.state.Product), h.Dir()); err != nil {
		return nil, err
	}
	t.engine, err = a.openEngine(ctx, h, engineOptions{name: engineName})
	return t, err
}

// aboutContent asks about a content: the session's, or what the path has now.
func (t *trusted) aboutContent(ctx context.Context, req wire.TrustRequest, abs string) (wire.TrustReply, string, error) {
	var reply wire.TrustReply
	if t.state.Session != "" {
		path, err := inProduct(abs, string(t.state.Product))
		if err != nil {
			return reply, "", err
		}
		req.Path = pathIn(path)
		reply, err = t.launcher.TrustSession(ctx, t.state.Session, req)
		return reply, path, about(path, err)
	}
	path, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return reply, "", err
	}
	content, err := openContent(path)
	if err != nil {
		return reply, "", err
	}
	defer func() { _ = content.Close() }()
	req.Path = pathIn(path)
	reply, err = t.launcher.Trust(ctx, req, content)
	return reply, path, about(path, err)
}

// about names the path that something went wrong with.
func about(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", display.Escape(path), err)
}

func pathIn(path string) *wire.Path {
	p := wire.NewPath(path)
	return &p
}

// trustRow is a record in --json.
type trustRow struct {
	Path       string     `json:"path,omitempty"`
	PathBase64 []byte     `json:"path_base64,omitempty"`
	Decision   string     `json:"decision"`
	SHA256     string     `json:"content_sha256"`
	Scope      string     `json:"scope"`
	Recorded   time.Time  `json:"recorded_at"`
	By         string     `json:"recorded_by"`
	Expires    *time.Time `json:"expires,omitempty"`
	Note       string     `json:"note"`
	Now        string     `json:"now,omitempty"` // same, changed, missing, unreadable
}

func rowOfRecord(r wire.TrustRecord) trustRow {
	return trustRow{
		Path: r.Path.Path, PathBase64: r.Path.Base64, Decision: r.Decision, SHA256: r.SHA256, Scope: r.Scope,
		Recorded: r.Recorded, By: r.By, Expires: r.Expires, Note: r.Note,
	}
}

type trustDocument struct {
	Schema     string     `json:"schema"` // "proctor/trust/v1"
	Done       string     `json:"done"`   // approved, denied, revoked, imported, nothing; "" for a list
	Records    []trustRow `json:"records"`
	References []string   `json:"references"` // what the content refers to, not covered
}

func (a *app) printTrust(done string, reply wire.TrustReply) {
	doc := trustDocument{Schema: "proctor/trust/v1", Done: done, Records: []trustRow{}, References: reply.References}
	for _, r := range reply.Records {
		doc.Records = append(doc.Records, rowOfRecord(r))
	}
	a.printJSON(doc)
}

// until says when a record ends.
func until(expires *time.Time) string {
	if expires == nil {
		return ""
	}
	return " until " + expires.UTC().Format("2006-01-02 15:04 MST")
}

// openContent opens a host's file as the supervisor takes one: a wire.Content,
// then its bytes. It follows no link and waits for no FIFO.
func openContent(path string) (*hostContent, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	return newHostContent(f)
}

func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file; only one can be approved", display.Escape(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

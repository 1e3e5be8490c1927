package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newTrustShowCommand(a *app, engine *string) *cobra.Command {
	var path pathFlags
	cmd := &cobra.Command{
		Use:   "show PATH",
		Short: "Show a path's record, its content of now or of a session, and how that is decided",
		Example: `  proctor trust show /home/me/site/.envrc
  proctor trust show /home/me/site/.envrc --session 7f3k2q9abcde`,
		Annotations: schema("proctor/trust-show/v1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.trustShow(cmd.Context(), *engine, path, args)
		},
	}
	path.addContent(cmd)
	return cmd
}

// trustShown is what show knows of one path.
type trustShown struct {
	Schema     string    `json:"schema"` // "proctor/trust-show/v1"
	Path       string    `json:"path,omitempty"`
	PathBase64 []byte    `json:"path_base64,omitempty"`
	Session    string    `json:"session,omitempty"`
	Record     *trustRow `json:"record,omitempty"`
	Allowed    bool      `json:"allowed"`
	Reason     string    `json:"reason"`
	SHA256     string    `json:"content_sha256,omitempty"`
	Size       int64     `json:"size"`
	References []string  `json:"references"`
	Content    []byte    `json:"content,omitempty"` // its first 64 KiB
	Problem    string    `json:"problem,omitempty"` // why there is no content
	Approve    string    `json:"approve,omitempty"` // the command that approves exactly this content
}

func (a *app) trustShow(ctx context.Context, engine string, flags pathFlags, args []string) error {
	if err := flags.check(); err != nil {
		return err
	}
	abs, err := absolute(flags.raw(args))
	if err != nil {
		return err
	}
	t, err := a.openTrust(ctx, engine, flags.session)
	if err != nil {
		return err
	}
	defer func() { _ = t.close() }()
	req := wire.TrustRequest{Schema: "proctor/trust/v1", Act: "show", By: hostUser(), Expect: flags.expect}
	reply, path, err := t.aboutContent(ctx, req, abs)
	if path == "" {
		// There is no content to hash; what is recorded is still worth showing.
		if reply, path, err = t.recordOnly(ctx, req, abs, err); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	a.printShown(shownOf(path, flags.session, reply), t)
	return nil
}

// recordOnly shows a path that has no readable content of now.
func (t *trusted) recordOnly(ctx context.Context, req wire.TrustRequest, abs string, why error) (wire.TrustReply, string, error) {
	path, err := resolved(abs)
	if err != nil || t.state.Session != "" {
		return wire.TrustReply{}, "", why
	}
	req.Path = pathIn(path)
	none, err := noContent(why)
	if err != nil {
		return wire.TrustReply{}, "", err
	}
	reply, err := t.launcher.Trust(ctx, req, none)
	if err == nil && len(reply.Records) == 0 {
		err = why
	}
	return reply, path, err
}

func shownOf(path, session string, reply wire.TrustReply) trustShown {
	p := wire.NewPath(path)
	s := trustShown{
		Schema: "proctor/trust-show/v1", Path: p.Path, PathBase64: p.Base64, Session: session,
		Allowed: reply.Decision.Allowed, Reason: reply.Decision.Reason, SHA256: reply.SHA256, Size: reply.Size,
		References: reply.References, Content: reply.Head,
	}
	if len(reply.Records) > 0 {
		row := rowOfRecord(reply.Records[0])
		s.Record = &row
	}
	if reply.SHA256 == "" {
		s.Problem = reply.Decision.Note
	}
	return s
}

// command is the one that records exactly this content.
func (s trustShown) command(verb, path string) string {
	words := []string{"proctor", "trust", verb, path}
	if s.Session != "" {
		words = append(words, "--session", s.Session)
	}
	return display.Command(append(words, "--expect-sha256", s.SHA256)...)
}

func (a *app) printShown(s trustShown, t *trusted) {
	path := wire.Path{Path: s.Path, Base64: s.PathBase64}.Raw()
	if s.SHA256 != "" && !s.Allowed {
		s.Approve = a.pasteable(s.command("approve", path))
	}
	if a.asJSON {
		a.printJSON(s)
		return
	}
	_, _ = fmt.Fprintf(a.out, "path       %s\n", display.Escape(path))
	if r := s.Record; r != nil {
		_, _ = fmt.Fprintf(a.out, "record     %s sha256:%s, %s by %s%s\n", r.Decision, r.SHA256, display.Age(r.Recorded, time.Now()), display.Escape(r.By), until(r.Expires))
		if r.Note != "" {
			_, _ = fmt.Fprintf(a.out, "           note: %s\n", display.Escape(r.Note))
		}
	} else {
		_, _ = fmt.Fprintln(a.out, "record     none")
	}
	if s.SHA256 == "" {
		_, _ = fmt.Fprintf(a.out, "content    none: %s\n", display.Escape(s.Problem))
	} else {
		_, _ = fmt.Fprintf(a.out, "content    sha256:%s, %s, %s\n", s.SHA256, display.Size(s.Size), whose(t, s.Session))
	}
	for _, ref := range s.References {
		_, _ = fmt.Fprintf(a.out, "refers to  %s (an approval of this does not cover it)\n", display.Escape(ref))
	}
	_, _ = fmt.Fprintf(a.out, "decision   %s\n", decisionText(s.Allowed, s.Reason))
	a.printContent(s)
	if s.Approve != "" {
		_, _ = fmt.Fprintf(a.out, "approve    %s\n", s.Approve)
		_, _ = fmt.Fprintf(a.out, "deny       %s\n", a.pasteable(s.command("deny", path)))
	}
}

func whose(t *trusted, session string) string {
	if session == "" {
		return "of now"
	}
	if t.state.Verdict == "" {
		return "as session " + session + " showed it"
	}
	return "as session " + session + " left it"
}

// decisionText has its own words for every reason.
func decisionText(allowed bool, reason string) string {
	if allowed {
		return "approved"
	}
	words := map[string]string{
		"no_record":       "not approved: nothing is recorded for this path",
		"denied":          "denied by the operator, whatever the content",
		"content_changed": "not approved: the content changed since it was approved",
		"expired":         "not approved any longer: the approval expired",
		"unreadable":      "not approved: the content could not be read",
	}
	if text, ok := words[reason]; ok {
		return text
	}
	return "not approved: " + display.Escape(reason)
}

// maxShownLines is how much of a content is printed.
const maxShownLines = 60

func (a *app) printContent(s trustShown) {
	if len(s.Content) == 0 {
		return
	}
	lines := bytes.SplitAfter(s.Content, []byte("\n"))
	shown := display.NewLines(a.out, "  | ")
	for i, line := range lines {
		if i == maxShownLines {
			break
		}
		_, _ = shown.Write(line)
	}
	shown.Flush()
	if len(lines) > maxShownLines || s.Size > int64(len(s.Content)) {
		_, _ = fmt.Fprintf(a.out, "  (only the beginning is shown; --json has the first 64 KiB)\n")
	}
}

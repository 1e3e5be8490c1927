package steps

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/trust"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Open starts a session: it judges the request, keeps the baseline, signs the
// session, derives serve's subkey and writes the ledger's act. Standard input
// is one line with the request, then the baseline's stream.
func Open(ctx context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReaderSize(stdin, 256<<10)
	var req wire.OpenRequest
	if err := request(in, &req); err != nil {
		return &RefusedError{Err: err}
	}
	if err := judgeRequest(req); err != nil {
		return err
	}
	root, err := openRoot(layout, req.Anchor)
	if err != nil {
		return err
	}
	l, err := openLedger(layout, root, req.Anchor)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	part, err := safedir.Open(layout.Session, layout.Rules)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	baseline, rootEntries, err := keepBaseline(layout, in)
	if err != nil {
		return &RefusedError{Err: err}
	}
	o := opening{layout: layout, req: req, root: root, ledger: l, part: part, baseline: baseline}
	reply, err := o.open(ctx)
	if err != nil {
		return err
	}
	reply.RootEntries = rootEntries
	return answer(stdout, reply)
}

type opening struct {
	layout   Layout
	req      wire.OpenRequest
	root     *keys.Root
	ledger   *ledger.Ledger
	part     *safedir.Dir
	baseline Baseline
}

func (o opening) open(ctx context.Context) (wire.OpenReply, error) {
	var reply wire.OpenReply
	epoch := o.root.Current()
	s := Session{
		Schema: "proctor/session/v1", Session: o.req.Session, ControlID: o.root.ControlID(), Epoch: epoch,
		Opened: time.Now().UTC(), Request: o.req, PolicySHA256: hexSHA256(o.req.Policy), Baseline: o.baseline,
	}
	s.Request.Policy, s.Request.Anchor = []byte{}, nil
	if err := o.productPolicy(&s); err != nil {
		return reply, err
	}
	if err := o.part.CreateFile(policyFile, o.req.Policy); err != nil {
		return reply, err
	}
	digest, err := writeSession(ctx, o.part, o.root, s)
	if err != nil {
		return reply, err
	}
	head, err := o.startRecord(s, digest)
	if err != nil {
		return reply, err
	}
	if err := o.shareChain(); err != nil {
		return reply, err
	}
	signer, err := o.root.Signer(keys.DomainLedger, epoch, "")
	if err != nil {
		return reply, err
	}
	acted, err := o.ledger.Act(ctx, signer, ledger.Entry{
		Time: s.Opened, By: byline(o.req.User), Kind: ledger.KindOpen,
		Open: &ledger.OpenAct{Session: s.Session, SessionDigest: digest, Epoch: epoch},
	})
	if err != nil {
		return reply, err
	}
	anchor, err := anchorOf(acted.Anchor, o.root.Chain())
	if err != nil {
		return reply, err
	}
	return wire.OpenReply{
		Schema: "proctor/open-reply/v1", SessionDigest: digest, PolicyDigest: s.PolicySHA256,
		Baseline: o.baseline.Summary.Tree, Record: head, Anchor: anchor, FirstUse: o.req.Anchor == nil,
	}, nil
}

// productPolicy keeps the policy that the product brought along: the launcher had
// it gated, and it counts here by the ledger of now.
func (o opening) productPolicy(s *Session) error {
	data := o.req.ProductPolicy
	s.Request.ProductPolicy = nil
	if data == nil {
		return nil
	}
	if _, err := policy.ParseProduct(policy.ProductFile, data); err != nil {
		return &RefusedError{Err: err}
	}
	path := filepath.Join(o.req.Product.Raw(), policy.ProductFile)
	if d := (trust.Store{View: o.ledger.View}).Decide(path, sha256.Sum256(data)); !d.Allowed {
		return &RefusedError{Err: fmt.Errorf("%s is not approved any longer: %s", display.Escape(path), d.Reason), Hint: display.Command("proctor", "trust", "approve", path)}
	}
	s.ProductPolicySHA256 = hexSHA256(data)
	return o.part.CreateFile(productPolicyFile, data)
}

// shareChain leaves the public keys where serve, which has no key of its own to
// check the ledger with, finds them.
func (o opening) shareChain() error {
	chain, err := o.root.Chain().MarshalJSON()
	if err != nil {
		return err
	}
	return o.part.CreateFile(chainFile, chain)
}

// startRecord reserves the record, writes its first row and hands serve the one
// subkey that it needs.
func (o opening) startRecord(s Session, digest string) (wire.RecordHead, error) {
	forServe, err := o.root.RecordKey(s.Epoch, s.Session, stepServe)
	if err != nil {
		return wire.RecordHead{}, err
	}
	if err := o.part.CreateFile(serveKeyFile, forServe.Reveal()); err != nil {
		return wire.RecordHead{}, err
	}
	own, err := o.root.RecordKey(s.Epoch, s.Session, stepOpen)
	if err != nil {
		return wire.RecordHead{}, err
	}
	rec, err := record.Create(o.layout.Session, o.layout.Rules, record.Config{Session: s.Session, Step: stepOpen, Key: own})
	if err != nil {
		return wire.RecordHead{}, err
	}
	head, err := rec.Phase("opened", struct {
		SessionDigest string `json:"session_digest"`
		Policy        string `json:"policy_sha256"`
		Baseline      string `json:"baseline"`
	}{digest, s.PolicySHA256, s.Baseline.Summary.Tree})
	return wireHead(head), errors.Join(err, rec.Close())
}

func wireHead(h record.Head) wire.RecordHead { return wire.RecordHead{Count: h.Count, MAC: h.MAC} }

// byline is who the ledger says did it.
func byline(user string) string {
	if user == "" || len(user) > 256 {
		return "unknown"
	}
	return user
}

// judgeRequest is a list of checks; all failures are reported together.
func judgeRequest(req wire.OpenRequest) error {
	var errs []error
	for _, check := range []func(wire.OpenRequest) error{
		checkSchema, checkSession, checkProduct, checkPolicy, checkImages, checkWaivers, checkCommand,
	} {
		errs = append(errs, check(req))
	}
	if err := errors.Join(errs...); err != nil {
		return &RefusedError{Err: err}
	}
	return nil
}

func checkSchema(r wire.OpenRequest) error {
	if r.Schema != "proctor/open/v1" {
		return fmt.Errorf("schema %q", r.Schema)
	}
	switch r.Observer {
	case "stdin", "chain":
		return nil
	}
	return fmt.Errorf("observer %q", r.Observer)
}

func checkSession(r wire.OpenRequest) error {
	if !sessionPattern(r.Session) {
		return fmt.Errorf("session %q is not a session id", r.Session)
	}
	return nil
}

func sessionPattern(s string) bool {
	if len(s) != 12 {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func checkProduct(r wire.OpenRequest) error {
	p := r.Product.Path
	if p == "" {
		p = string(r.Product.Base64)
	}
	if p == "" || p[0] != '/' || (r.Product.Path == "") == (r.Product.Base64 == nil) {
		return errors.New("product is not an absolute path")
	}
	return nil
}

func checkPolicy(r wire.OpenRequest) error {
	_, err := policy.Parse(r.PolicyPath, r.Policy)
	return err
}

func checkImages(r wire.OpenRequest) error {
	if len(r.Images) < 2 {
		return errors.New("images: the supervisor's and the agent's are needed")
	}
	for _, img := range r.Images {
		if r.Observer == observerChain && img.Digest == "" {
			continue // no step can see what the orchestrator started
		}
		if len(img.Digest) != len("sha256:")+64 || img.Digest[:7] != "sha256:" {
			return fmt.Errorf("image of %s is not resolved to a digest", img.For)
		}
	}
	return nil
}

func checkWaivers(r wire.OpenRequest) error {
	given := map[string]bool{}
	for _, w := range r.Waivers {
		given[w] = true
	}
	var errs []error
	if r.Engine.RuntimeFloor != "ok" && !given["runtime-floor"] {
		errs = append(errs, fmt.Errorf("runtime %s %s: %s, and runtime-floor is not waived", r.Engine.Runtime, r.Engine.RuntimeVersion, r.Engine.RuntimeFloor))
	}
	if len(r.Engine.LimitsMissing) > 0 && !given["no-limits"] {
		errs = append(errs, fmt.Errorf("limits %v are not enforced here, and no-limits is not waived", r.Engine.LimitsMissing))
	}
	// What serve would reach through its doors, the agent would reach past them.
	if pol, err := policy.Parse(r.PolicyPath, r.Policy); err == nil && HasDoors(pol) && r.Engine.Network != "" && !given["shared-network"] {
		errs = append(errs, fmt.Errorf("doors to the outside (packages, egress, services) where the agent's network is %s, and shared-network is not waived", r.Engine.Network))
	}
	return errors.Join(errs...)
}

func checkCommand(r wire.OpenRequest) error {
	if len(r.Command) == 0 {
		return errors.New("no command")
	}
	return nil
}

// keepBaseline stores the stream as it comes and reads it on the way.
func keepBaseline(layout Layout, in io.Reader) (Baseline, int, error) {
	f, err := createIn(layout.Session, baselineFile)
	if err != nil {
		return Baseline{}, 0, err
	}
	sum := sha256.New()
	w := bufio.NewWriterSize(f, 256<<10)
	dec := product.NewDecoder(io.TeeReader(in, io.MultiWriter(w, sum)), product.StreamLimits{})
	entries := 0
	for {
		item, err := dec.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Baseline{}, 0, errors.Join(fmt.Errorf("baseline: %w", err), f.Close())
		}
		if item.Entry != nil && inRoot(item.Entry.Path) {
			entries++
		}
	}
	summary, err := dec.Summary()
	if err := errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return Baseline{}, 0, fmt.Errorf("baseline: %w", err)
	}
	if !summary.Complete {
		return Baseline{}, 0, errors.New("baseline: the product was not read in full")
	}
	return Baseline{StreamSHA256: hex.EncodeToString(sum.Sum(nil)), Summary: summary}, entries, nil
}

package steps

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// ChainLayout is where the steps of a session without a launcher hand over what
// a launcher would carry between them: an orchestrator gives the order alone.
type ChainLayout struct {
	Layout
	Programs string // the agent's first process, put there by init
	Baseline string // written by stage, read by open
	Facts    string // written by the reader, read by seal
	Checks   string // sockets of the checks
	Reader   string // the reader's socket
	Seals    string // what seal keeps
	pod      bool
	Release  string // written by release, read by apply
	Secrets  string // what the doors need: put there by the operator, read by serve
}

// ContainerChain is the fixed one.
func ContainerChain() ChainLayout {
	return ChainLayout{
		Layout: ContainerLayout(), Programs: "/programs", Baseline: "/handoff/baseline", Facts: "/handoff/facts",
		Checks: "/run/checks", Reader: "/run/reader", Seals: "/seals",
		Release: "/handoff/release", Secrets: "/keys/doors",
	}
}

// InPod is the layout of a Kubernetes Pod: the root key is a Secret, which
// nobody there makes, and containers share the Pod's network.
func (c ChainLayout) InPod() ChainLayout {
	c.pod, c.RootRules = true, safedir.Rules{Place: safedir.SecretMount}
	return c
}

// PodStage is the product's directory in a Pod's volume.
const PodStage = "product"

const (
	observerChain = "chain"
	// serveLock is held by serve for as long as it can write to the session's part.
	serveLock = "serve.lock"
	// serveOnce is there when serve has started: an orchestrator may start it again.
	serveOnce  = "serve.once"
	streamFile = "product.stream"
	// chainWait bounds how long open and seal wait for serve to be gone.
	chainWait = 30 * time.Second
)

// ChainInit makes keys and control where there are none.
func ChainInit(ctx context.Context, c ChainLayout) error {
	if root, err := openRoot(c.Layout, nil); err == nil {
		if l, err := openLedger(c.Layout, root, nil); err == nil {
			return l.Close() // there, and it verifies
		}
	}
	return Init(ctx, c.Layout, observerChain, io.Discard)
}

// ChainPrepare puts the first process of agents and checks where they find it.
func ChainPrepare(c ChainLayout, agent string) error {
	src, err := os.Open(agent)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	if err := empty(c.Programs); err != nil {
		return err
	}
	return writeWhole(c.Programs, filepath.Base(agent), 0o755, func(w io.Writer) error {
		_, err := io.Copy(w, src)
		return err
	})
}

// writeWhole makes a file of a handoff that is there whole or not at all.
func writeWhole(dir, name string, mode os.FileMode, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	err = errors.Join(fill(f), f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// empty removes everything in a directory, following no link.
func empty(dir string, but ...string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, name := range but {
		keep[name] = true
	}
	var errs []error
	for _, e := range all {
		if !keep[e.Name()] {
			errs = append(errs, product.RemoveAll(root, e.Name()))
		}
	}
	return errors.Join(errs...)
}

// ChainStage copies the product into the emptied stage; the baseline is the next
// step's.
func ChainStage(ctx context.Context, c ChainLayout, cfg StageConfig) error {
	if err := errors.Join(empty(c.Baseline), empty(cfg.Target.Name())); err != nil {
		return err
	}
	if c.pod {
		inner, err := podStage(cfg.Target)
		if err != nil {
			return err
		}
		defer func() { _ = inner.Close() }()
		cfg.Target = inner
	}
	err := writeWhole(c.Baseline, baselineFile, 0o644, func(w io.Writer) error { return Stage(ctx, cfg, w) })
	if err != nil {
		return err
	}
	return c.handPolicy(cfg.Target)
}

// podStage makes the directory that is the product in the others: the volume's
// own belongs to root, and its mode is not the product's.
func podStage(volume *os.File) (*os.File, error) {
	if err := unix.Mkdirat(int(volume.Fd()), PodStage, 0o700); err != nil {
		return nil, fmt.Errorf("make stage: %w", err)
	}
	return OpenStage(volume, PodStage)
}

// ChainOpening is what a launcher would have asked of open.
type ChainOpening struct {
	Product string
	Policy  []byte
	Images  []wire.Image
	Command []string
	// Launched is what the launcher says, where there is one.
	Launched *Launched
	Waivers  []string // beside the policy's own
	// Doors says that serve was given what doors to the outside need.
	Doors bool
	// Note is told what does not count; nil is nobody.
	Note func(string)
}

func (o ChainOpening) note(text string) {
	if o.Note != nil {
		o.Note(text)
	}
}

// ChainOpen opens a session in the emptied part.
func ChainOpen(ctx context.Context, c ChainLayout, o ChainOpening, stdout io.Writer) error {
	pol, err := policy.Parse("policy", o.Policy)
	if err != nil {
		return &RefusedError{Err: err}
	}
	if err := ChainCan(pol, o.Doors); err != nil {
		return &RefusedError{Err: err}
	}
	switch {
	case o.Launched != nil: // which ledger there has to be, the launcher remembers
		c.Known = o.Launched.Known
	case c.pod:
		if err := c.haveLedger(ctx); err != nil {
			return err
		}
	}
	part, err := safedir.Open(c.Session, c.Rules)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	unlock, err := serveIsGone(ctx, part)
	if err != nil {
		return &RefusedError{Err: errors.New("serve of an earlier run still runs: remove its container first")}
	}
	defer unlock()
	if err := empty(c.Session, serveLock); err != nil {
		return err
	}
	baseline, err := os.Open(filepath.Join(c.Baseline, baselineFile))
	if err != nil {
		return err
	}
	defer func() { _ = baseline.Close() }()
	req := wire.OpenRequest{
		Schema: "proctor/open/v1", Session: strings.ToLower(rand.Text()[:12]), Product: wire.NewPath(o.Product),
		PolicyPath: "policy", Policy: o.Policy, Observer: observerChain, User: observerChain, Started: time.Now().UTC(),
		Engine: c.engine(),
		Images: o.Images, Files: []wire.File{}, Waivers: []string{}, Command: o.Command,
	}
	for _, w := range pol.Allow {
		o.Waivers = append(o.Waivers, string(w))
	}
	for _, w := range o.Waivers {
		if !slices.Contains(req.Waivers, w) {
			req.Waivers = append(req.Waivers, w)
		}
	}
	if req.ProductPolicy, err = c.productPolicy(o, pol); err != nil {
		return err
	}
	if o.Launched != nil {
		o.Launched.ask(&req)
	}
	line, err := strictjson.Marshal(req)
	if err != nil {
		return err
	}
	return Open(ctx, c.Layout, io.MultiReader(strings.NewReader(string(line)+"\n"), baseline), stdout)
}

// engine is what can be said of the boundary from inside.
func (c ChainLayout) engine() wire.Engine {
	e := wire.Engine{Name: observerChain, RuntimeFloor: "unknown, as nobody outside of the containers looked", LimitsMissing: []string{}}
	if c.pod {
		// A Pod cannot say how many processes a container may have.
		e.Name, e.Network, e.LimitsMissing = "pod", "shared by the Pod's containers", []string{"pids"}
	}
	return e
}

// haveLedger makes the ledger of a key that was given, where there is none.
func (c ChainLayout) haveLedger(ctx context.Context) error {
	root, err := openRoot(c.Layout, nil)
	if err != nil {
		return err
	}
	l, err := openLedger(c.Layout, root, nil)
	if errors.Is(err, ledger.ErrNoLedger) {
		_, err = createLedger(ctx, c.Layout, root, observerChain)
		return err
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// ChainCan refuses a policy that asks for what only a launcher can give, or what
// this orchestrator does not.
func ChainCan(p *policy.Policy, doors bool) error {
	var errs []error
	if HasDoors(p) && !doors {
		errs = append(errs, errors.New("doors to the outside (packages, egress, services) need a launcher"))
	}
	if len(p.Agent.Mounts) > 0 {
		errs = append(errs, errors.New("mounts of the agent need a launcher"))
	}
	for _, c := range p.Checks {
		if len(c.Files) > 0 {
			errs = append(errs, fmt.Errorf("files of check %s need a launcher", c.Name))
		}
	}
	return errors.Join(errs...)
}

func serveIsGone(ctx context.Context, part *safedir.Dir) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, chainWait)
	defer cancel()
	return part.Lock(ctx, serveLock)
}

// ChainBefore tells serve what the tree is before the checks.
func ChainBefore(ctx context.Context, c ChainLayout, dir string, limits product.Limits) error {
	var out strings.Builder
	if err := ReadDigest(ctx, dir, limits, &out); err != nil {
		return err
	}
	return tell(ctx, c, "/v1/before", []byte(out.String()))
}

// ChainRead writes the product's stream for seal, and tells serve its digest:
// with that word serve closes its record.
func ChainRead(ctx context.Context, c ChainLayout, dir string, limits product.Limits) error {
	if err := empty(c.Facts); err != nil {
		return err
	}
	sum := sha256.New()
	err := writeWhole(c.Facts, streamFile, 0o644, func(w io.Writer) error {
		return Read(ctx, dir, limits, io.MultiWriter(w, sum))
	})
	if err != nil {
		return err
	}
	b, err := strictjson.Marshal(streamHanded{hex.EncodeToString(sum.Sum(nil))})
	if err != nil {
		return err
	}
	return tell(ctx, c, "/v1/close", b)
}

type streamHanded struct {
	SHA256 string `json:"sha256"`
}

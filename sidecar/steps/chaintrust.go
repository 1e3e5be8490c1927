package steps

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/trust"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// ChainTrust does what the operator of a stack says about a path. What it is
// about comes as plain bytes: a content, or, to import, an exchange file. A
// content has to be named by its digest as well: an input that somebody forgot to
// redirect is empty, and not what was meant.
func ChainTrust(ctx context.Context, c ChainLayout, req wire.TrustRequest, input io.Reader) (wire.TrustReply, error) {
	var reply wire.TrustReply
	var more []byte
	switch req.Act {
	case "approve", "deny":
		if req.Expect == "" {
			return reply, &RefusedError{Err: errors.New("a content is named by its digest, too: --expect-sha256"), Hint: "sha256sum FILE"}
		}
		if req.Kept {
			break
		}
		b, err := readAll(input, MaxContent)
		if err != nil {
			return reply, err
		}
		head, err := strictjson.Marshal(wire.Content{Schema: contentSchema, Size: int64(len(b))})
		if err != nil {
			return reply, err
		}
		more = append(append(head, '\n'), b...)
	case "import":
		var err error
		if more, err = readAll(input, trust.MaxExchange); err != nil {
			return reply, err
		}
	}
	req.Schema = "proctor/trust/v1"
	return reply, c.ask(ctx, Trust, req, more, &reply)
}

// ChainHosts is ChainTrust for hosts.
func ChainHosts(ctx context.Context, c ChainLayout, req wire.HostsRequest) (wire.HostsReply, error) {
	var reply wire.HostsReply
	req.Schema = "proctor/hosts/v1"
	return reply, c.ask(ctx, Hosts, req, nil, &reply)
}

// ChainPackages is ChainTrust for packages.
func ChainPackages(ctx context.Context, c ChainLayout, req wire.PackagesRequest) (wire.PackagesReply, error) {
	var reply wire.PackagesReply
	req.Schema = "proctor/packages/v1"
	if req.Packages == nil {
		req.Packages = []wire.Package{}
	}
	return reply, c.ask(ctx, Packages, req, nil, &reply)
}

// ChainRequests shows what the agent asked for, or answers it.
func ChainRequests(ctx context.Context, c ChainLayout, req wire.RequestsRequest) (wire.RequestsReply, error) {
	var reply wire.RequestsReply
	req.Schema = "proctor/requests/v1"
	return reply, c.ask(ctx, Requests, req, nil, &reply)
}

// ChainRotate makes a new root key. A session that is open goes on, and is sealed
// with the new one.
func ChainRotate(ctx context.Context, c ChainLayout, reason keys.Reason, by string) (wire.KeysReply, error) {
	var reply wire.KeysReply
	var out bytes.Buffer
	if err := Rotate(ctx, c.Layout, reason, by, &out); err != nil {
		return reply, err
	}
	return reply, strictjson.Unmarshal(bytes.TrimSpace(out.Bytes()), &reply, strictjson.Limits{Size: wire.MaxAnswer})
}

// ask runs one of the operator's verbs, as a launcher does.
func (c ChainLayout) ask(ctx context.Context, verb func(context.Context, Layout, io.Reader, io.Writer) error, req any, more []byte, reply any) error {
	head, err := strictjson.Marshal(req)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	err = verb(ctx, c.Layout, io.MultiReader(bytes.NewReader(append(head, '\n')), bytes.NewReader(more)), &out)
	if err != nil {
		return err
	}
	return strictjson.Unmarshal(bytes.TrimSpace(out.Bytes()), reply, strictjson.Limits{Size: wire.MaxAnswer})
}

func readAll(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = &RefusedError{Err: fmt.Errorf("the input is larger than %d bytes", most)}
	}
	return b, err
}

// ChainContent writes the bytes of one file of the stage, which was the product
// at dir.
func ChainContent(dir, path string, stdout io.Writer) error {
	if rel, ok := insideOf(dir, path); ok {
		path = rel
	}
	f, size, err := openContent(dir, path)
	if err != nil {
		return &RefusedError{Err: fmt.Errorf("%s: %w", display.Escape(path), err)}
	}
	defer func() { _ = f.Close() }()
	_, err = io.CopyN(stdout, f, size)
	return err
}

// handPolicy hands over the policy that the product brings along, if it does: as
// the agent, too, will find it.
func (c ChainLayout) handPolicy(stage *os.File) error {
	fd, err := unix.Openat2(int(stage.Fd()), policy.ProductFile, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", policy.ProductFile, err)
	}
	f := os.NewFile(uintptr(fd), policy.ProductFile)
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > policy.MaxSize {
		return err // no policy of the product's
	}
	return writeWhole(c.Baseline, productPolicyFile, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, io.LimitReader(f, policy.MaxSize))
		return err
	})
}

// productPolicy is what stage handed over, if the operator approved it. What a
// stack cannot narrow any more, since it was rendered before, is refused.
func (c ChainLayout) productPolicy(o ChainOpening, pol *policy.Policy) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(c.Baseline, productPolicyFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	root, err := openRoot(c.Layout, nil)
	if err != nil {
		return nil, err
	}
	l, err := openLedger(c.Layout, root, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	path, sum := filepath.Join(o.Product, policy.ProductFile), sha256.Sum256(data)
	if d := (trust.Store{View: l.View}).Decide(path, sum); !d.Allowed {
		o.note(fmt.Sprintf("%s narrows nothing: %s, sha256:%x", display.Escape(path), d.Reason, sum))
		return nil, nil
	}
	by, err := policy.ParseProduct(policy.ProductFile, data)
	if err != nil {
		return nil, &RefusedError{Err: err}
	}
	n := pol.Narrow(by)
	if n.Agent.Limits != pol.Agent.Limits || n.Agent.Output != pol.Agent.Output || n.Agent.Timeout != pol.Agent.Timeout ||
		n.Audit != pol.Audit || len(n.Stage.Exclude) != len(pol.Stage.Exclude) {
		return nil, &RefusedError{Err: fmt.Errorf(
			"%s narrows agent, stage or audit, which are as they were rendered: write that into the policy, and render it again", display.Escape(path))}
	}
	return data, nil
}

package steps

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Launched is what a launcher says of a session whose containers an orchestrator
// starts: it brings the product, follows, and takes home what was sealed.
type Launched struct {
	Session string
	User    string
	Engine  wire.Engine
	Known   *wire.Anchor // what it remembers of the ledger
}

func (l *Launched) ask(req *wire.OpenRequest) {
	req.Launcher, req.Session, req.User = true, l.Session, l.User
	req.Engine.Name, req.Engine.Version = l.Engine.Name, l.Engine.Version
}

// wordWait bounds how long seal waits for the launcher's word.
const wordWait = 2 * time.Minute

// hear takes the launcher's word into what seal is told. A launcher that says
// nothing in time, or anything else, leaves a problem: the session cannot pass.
func hear(ctx context.Context, stdin io.Reader, req *wire.SealRequest) {
	ctx, cancel := context.WithTimeout(ctx, wordWait)
	defer cancel()
	type heard struct {
		word wire.PodWord
		err  error
	}
	said := make(chan heard, 1)
	go func() {
		var h heard
		h.err = request(bufio.NewReader(stdin), &h.word)
		said <- h
	}()
	var h heard
	select {
	case h = <-said:
	case <-ctx.Done():
		h.err = errors.New("it came too late")
	}
	if h.err == nil && (h.word.Schema != "proctor/pod-word/v1" || h.word.Session != req.Session) {
		h.err = errors.New("it is about something else")
	}
	if h.err != nil {
		req.Problems = append(req.Problems, "the launcher's word on what the orchestrator saw is missing: "+h.err.Error())
		return
	}
	req.Problems = append(req.Problems, h.word.Problems...)
	req.Containers = append(req.Containers, h.word.Containers...)
	if req.Agent != nil && slices.Contains(h.word.OOM, req.Agent.Name) {
		req.Agent.Outcome = "oom"
	}
	for i := range req.Checks {
		if slices.Contains(h.word.OOM, req.Checks[i].Name) {
			req.Checks[i].Outcome = "oom"
		}
	}
}

// answerLauncher writes seal's answer as every launcher gets it, the manifest,
// and the record.
func (c ChainLayout) answerLauncher(session string, sealed wire.SealReply, stdout io.Writer) error {
	if err := answer(stdout, sealed); err != nil {
		return err
	}
	for _, name := range []string{filepath.Join(c.Seals, session+".manifest"), filepath.Join(c.Session, record.FileName)} {
		if err := writeFileTo(stdout, name); err != nil {
			return err
		}
	}
	return nil
}

func writeFileTo(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(w, f)
	return err
}

// ChainReceive takes the product off stdin, as one parcel, into the emptied
// stage; the baseline is the next step's.
func ChainReceive(ctx context.Context, c ChainLayout, dir string, opts product.UnpackOptions, stdin io.Reader) error {
	if err := errors.Join(empty(c.Baseline), empty(dir)); err != nil {
		return err
	}
	stage, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = stage.Close() }()
	if c.pod {
		inner, err := podStage(stage)
		if err != nil {
			return err
		}
		defer func() { _ = inner.Close() }()
		stage = inner
	}
	return writeWhole(c.Baseline, baselineFile, 0o644, func(w io.Writer) error {
		f, ok := w.(*os.File)
		if !ok {
			return errors.New("the baseline is not a file")
		}
		_, err := product.Unpack(ctx, stdin, stage, f, opts)
		if err != nil {
			return &RefusedError{Err: err}
		}
		return nil
	})
}

// sendWord is the launcher's line that has the product sent: by then it listens.
const sendWord = "send\n"

// ChainSend writes the product, as the reader found it, as one parcel to a
// launcher that asked for it. A launcher that went away gets nothing.
func ChainSend(ctx context.Context, c ChainLayout, dir string, stdin io.Reader, stdout io.Writer) error {
	line, err := bufio.NewReader(io.LimitReader(stdin, int64(len(sendWord)))).ReadString('\n')
	if err != nil || line != sendWord {
		return &RefusedError{Err: errors.New("no launcher asked for the product")}
	}
	stream, err := os.Open(filepath.Join(c.Facts, streamFile))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	stage, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = stage.Close() }()
	return product.Pack(ctx, stage, stream, stdout)
}

// Pack writes a stage as one parcel.
func Pack(ctx context.Context, stage, stream *os.File, stdout io.Writer) error {
	return product.Pack(ctx, stage, stream, stdout)
}

// Unpack makes a stage of a parcel on standard input, and answers with its tree.
func Unpack(ctx context.Context, stage, stream *os.File, opts product.UnpackOptions, stdin io.Reader, stdout io.Writer) error {
	sum, err := product.Unpack(ctx, stdin, stage, stream, opts)
	if err != nil {
		return &RefusedError{Err: err}
	}
	return answer(stdout, wire.ReadDigest{Schema: "proctor/read-digest/v1", Tree: sum.Tree, Entries: sum.Entries})
}

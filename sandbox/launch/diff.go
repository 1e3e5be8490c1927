package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/proctor-project/proctor/sandbox"
)

// Diff writes what a session changed, in git's form, as the reader computes it:
// a child with the product owner's ids reads the original, the reader the stage,
// and this process only carries the bytes. They are hostile: escape them.
func (l *Launcher) Diff(ctx context.Context, id string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	if _, ok := l.cfg.Engine.(sandbox.Whole); ok {
		return &sandbox.RefusedError{Container: "of the diff", Problems: []string{"no container of an orchestrator's can read the copy on this host"}}
	}
	host, err := l.cfg.Home.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer func() { _ = host.Unlock() }()
	product := string(host.State.Product)
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	for _, p := range []string{product, host.Path("baseline.stream"), l.cfg.Home.ManifestPath(id)} {
		f, err := os.Open(p)
		if err != nil {
			return fmt.Errorf("diff: %w", err)
		}
		files = append(files, f)
	}
	owner, err := actorOver(files[0])
	if err != nil {
		return err
	}
	s := &session{l: l, host: host, block: Block{First: host.State.Block}, plan: Plan{Product: product}}
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = pr.Close() }()
	stderr := newTail(64 << 10)
	fed := make(chan error, 1)
	go l.cfg.Crash.Guard(func() {
		err := l.cfg.InUserNS(ctx, Child{
			Argv:  []string{filepath.Join(l.cfg.Tools, "proctor-sidecar"), "originals"},
			Owner: owner, Stage: IDs{owner.UID, owner.GID}, Stdout: pw, Stderr: stderr, Files: files,
		})
		fed <- errors.Join(childError("originals", err, stderr), pw.Close())
	})()
	spec := s.l.spec(id, sandbox.RoleRead, []string{"diff", "--", product},
		sandbox.Mount{Kind: sandbox.MountBind, Source: host.Stage(), Target: product, NoExec: l.cfg.Info.MountFlags})
	spec.Identity = l.identity(sandbox.RoleRead, host.State.Block)
	spec.Name += "-diff"
	_, err = l.runStep(ctx, spec, pr, w)
	_ = pr.Close()
	return errors.Join(err, <-fed)
}

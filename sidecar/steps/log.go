package steps

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/proctor-project/proctor/sidecar/record"
)

// followEvery is how often a followed record is looked at again.
const followEvery = 200 * time.Millisecond

// Log writes a record's rows, one line of JSON each, as they stand in the file:
// it has no key to verify them with; a seal binds them. Following ends when
// standard input does.
func Log(ctx context.Context, layout Layout, follow bool, stdin io.Reader, stdout io.Writer) error {
	f, err := os.Open(filepath.Join(layout.Session, record.FileName))
	if err != nil {
		return &RefusedError{Err: err}
	}
	defer func() { _ = f.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if follow {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	in := bufio.NewReaderSize(f, record.MaxLine)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			if payload, _, ok := bytes.Cut(line, []byte("\t")); ok {
				if _, err := stdout.Write(append(payload, '\n')); err != nil {
					return err
				}
			}
			line = line[:0]
			continue
		case !errors.Is(err, io.EOF):
			return err
		case !follow:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

package launch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// keptLog writes the rows of a record that came home with its seal, as the log
// step does: it has no key to verify them with; the seal binds them.
func (l *Launcher) keptLog(id string, w io.Writer) error {
	f, err := os.Open(l.cfg.Home.Path("sessions", id, "record"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("session %s: its record comes home with its seal, and it has none", id)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		payload, _, ok := bytes.Cut(in.Bytes(), []byte("\t"))
		if !ok {
			continue
		}
		if _, err := w.Write(append(bytes.Clone(payload), '\n')); err != nil {
			return err
		}
	}
	return in.Err()
}

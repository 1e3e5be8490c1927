package consent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/trust"
)

// Kind is what a file would change.
type Kind string

// ProductPolicy is the policy that a product brings along.
const ProductPolicy Kind = "product_policy"

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 1 << 20

// Decision says whether a file may be used, and why.
type Decision struct {
	Allowed bool
	Path    string
	Kind    Kind
	Reason  trust.Reason
	// Err is why the file, or the ledger, could not be read.
	Err error
}

// Remedy is the operator's command that would allow exactly this, or "" where
// none can help.
func (d Decision) Remedy() string {
	switch d.Reason {
	case trust.ReasonNoRecord, trust.ReasonChanged, trust.ReasonExpired:
		return display.Command("proctor", "trust", "approve", d.Path)
	}
	return ""
}

// Text says what happens to a file that is not used, in one line.
func (d Decision) Text() string {
	what := map[Kind]string{ProductPolicy: "the product's policy"}[d.Kind]
	why := map[trust.Reason]string{
		trust.ReasonNoRecord: "it has not been approved", trust.ReasonChanged: "it changed since it was approved",
		trust.ReasonDenied: "it is denied", trust.ReasonExpired: "its approval expired", trust.ReasonUnreadable: "it could not be read",
	}[d.Reason]
	if d.Err != nil {
		why += ": " + d.Err.Error()
	}
	return fmt.Sprintf("ignoring %s %s: %s", what, display.Escape(d.Path), why)
}

// Absent reports whether there is no such file, which needs no decision.
func (d Decision) Absent() bool { return errors.Is(d.Err, fs.ErrNotExist) }

// Gate reads files that a product brought along.
type Gate struct {
	// Judge asks the ledger about content that was read from the path.
	Judge func(ctx context.Context, path string, content []byte) (trust.Decision, error)
}

// ReadAndGate reads the file once and returns its bytes only with a yes. The path
// is absolute and resolved: a link on it is not followed.
func (g Gate) ReadAndGate(ctx context.Context, path string, kind Kind) ([]byte, Decision) {
	d := Decision{Path: path, Kind: kind, Reason: trust.ReasonUnreadable}
	content, err := readOnce(path)
	if err != nil {
		d.Err = err
		return nil, d
	}
	judged, err := g.Judge(ctx, path, content)
	if err != nil {
		d.Err = err
		return nil, d
	}
	d.Allowed, d.Reason = judged.Allowed, judged.Reason
	if !d.Allowed {
		return nil, d
	}
	return content, d
}

func readOnce(path string) ([]byte, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > MaxFile {
		return nil, fmt.Errorf("larger than %d bytes", MaxFile)
	}
	return content, nil
}

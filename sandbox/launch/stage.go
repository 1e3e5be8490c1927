package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// stageCopy makes the private copy, and keeps the baseline's stream beside it.
// The child that copies is the product's owner (an ordinary launcher itself) and
// the session's identity, and nobody else.
func (l *Launcher) stageCopy(ctx context.Context, host *home.Session, plan Plan, block uint32) error {
	src, err := os.Open(plan.Product)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	owner, err := actorOver(src)
	if err != nil {
		return err
	}
	id := l.identity(sandbox.RoleAgent, block)
	dst, err := makeStage(host, owner)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	baseline, err := os.OpenFile(host.Path("baseline.stream"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	argv := []string{filepath.Join(l.cfg.Tools, "proctor-sidecar"), "stage", "--source-fd", "3", "--target-fd", "4"}
	argv = append(argv, plan.Limits.args()...)
	if id.Host == owner.UID {
		argv = append(argv, "--own")
	}
	for _, x := range plan.Exclude {
		argv = append(argv, "--exclude", x)
	}
	stderr := newTail(64 << 10)
	err = l.cfg.InUserNS(ctx, Child{
		Argv: argv, Owner: owner, Stage: IDs{id.Host, id.Host},
		Stdout: baseline, Stderr: stderr, Files: []*os.File{src, dst},
	})
	return errors.Join(childError("copy", err, stderr), baseline.Close())
}

// makeStage makes the directory that the copy goes into, under a parent that
// nobody else can enter. It is the product owner's until it has been filled: a
// child of a root launcher can open nothing of root's.
func makeStage(host *home.Session, owner IDs) (*os.File, error) {
	if err := os.Mkdir(host.Stage(), 0o700); err != nil {
		return nil, err
	}
	dst, err := os.Open(host.Stage())
	if err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		err = dst.Chown(int(owner.UID), int(owner.GID))
	}
	if err != nil {
		return nil, errors.Join(err, dst.Close())
	}
	return dst, nil
}

func ownerOf(f *os.File) (IDs, error) {
	info, err := f.Stat()
	if err != nil {
		return IDs{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return IDs{}, fmt.Errorf("%s is not a directory", f.Name())
	}
	return IDs{st.Uid, st.Gid}, nil
}

// actorOver is who a child is that works on the directory: its owner, or an
// ordinary launcher itself, which can be nobody else.
func actorOver(dir *os.File) (IDs, error) {
	owner, err := ownerOf(dir)
	if err == nil && os.Geteuid() != 0 {
		owner = IDs{uint32(os.Geteuid()), uint32(os.Getegid())}
	}
	return owner, err
}

// childError prefers what the child said over how it ended.
func childError(what string, err error, stderr *tail) error {
	if err == nil {
		return nil
	}
	said := bytes.TrimSpace(stderr.bytes())
	lines := bytes.Split(said, []byte("\n"))
	var r wire.Refusal
	if jsonErr := strictjson.Unmarshal(lines[len(lines)-1], &r, strictjson.Limits{}); jsonErr == nil {
		return fmt.Errorf("%s: %s", what, r.Error)
	}
	return fmt.Errorf("%s: %w: %s", what, err, said)
}

// removeStage removes the session's copy. What the agent made may be owned by
// the session's identity and closed to everybody, so a child with that
// identity empties it. What is left of a copy that failed is the product
// owner's: the launcher's own, or within a root launcher's reach.
func (l *Launcher) removeStage(ctx context.Context, host *home.Session) error {
	if _, err := os.Lstat(host.Stage()); errors.Is(err, os.ErrNotExist) {
		return os.RemoveAll(host.StageParent())
	}
	err := l.emptyStage(ctx, host)
	if left := os.RemoveAll(host.StageParent()); left != nil {
		return errors.Join(err, left)
	}
	return nil
}

// emptyStage removes the copy alone.
func (l *Launcher) emptyStage(ctx context.Context, host *home.Session) error {
	dir, err := os.Open(host.StageParent())
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	owner, err := actorOver(dir)
	if err != nil {
		return err
	}
	id := l.identity(sandbox.RoleAgent, host.State.Block)
	stderr := newTail(64 << 10)
	err = l.cfg.InUserNS(ctx, Child{
		Argv:  []string{filepath.Join(l.cfg.Tools, "proctor-sidecar"), "unstage", "--parent-fd", "3", "--name", "tree"},
		Owner: owner, Stage: IDs{id.Host, id.Host}, Stderr: stderr, Files: []*os.File{dir},
	})
	return childError("remove stage", err, stderr)
}

// agentTools is the directory that is mounted into agents and checks: it holds
// a copy of proctor-agent and nothing else.
func (l *Launcher) agentTools() string { return l.cfg.Home.Path("engines", "tools") }

// PrepareTools makes the directory that agents and checks get their first
// process from. The copy is replaced when the launcher's own differs.
func (l *Launcher) PrepareTools() error {
	from := filepath.Join(l.cfg.Tools, "proctor-agent")
	dir := l.agentTools()
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	to := filepath.Join(dir, "proctor-agent")
	if same, err := sameFiles(from, to); err == nil && same {
		return nil
	}
	want, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("find proctor-agent beside the launcher: %w", err)
	}
	return replaceFile(to, want, 0o755)
}

// sameFiles compares the bytes of two files. It holds a little of each at a
// time: whole programs on the heap cost more than their comparison.
func sameFiles(a, b string) (bool, error) {
	x, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer func() { _ = x.Close() }()
	y, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer func() { _ = y.Close() }()
	bufX, bufY := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errX := io.ReadFull(x, bufX)
		m, errY := io.ReadFull(y, bufY)
		if !bytes.Equal(bufX[:n], bufY[:m]) {
			return false, nil
		}
		endX := errors.Is(errX, io.EOF) || errors.Is(errX, io.ErrUnexpectedEOF)
		endY := errors.Is(errY, io.EOF) || errors.Is(errY, io.ErrUnexpectedEOF)
		if endX && endY {
			return true, nil
		}
		if errX != nil || errY != nil {
			return false, errors.Join(errX, errY)
		}
	}
}

// limited is a writer that refuses more than most bytes.
type limited struct {
	w    *bytes.Buffer
	most int
}

func (l limited) Write(p []byte) (int, error) {
	if l.w.Len()+len(p) > l.most {
		return 0, fmt.Errorf("answer is longer than %d bytes", l.most)
	}
	return l.w.Write(p)
}

// lifeline is an input that stays open, and empty, until release.
func lifeline() (*os.File, func(), error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return pr, func() { _ = pw.Close(); _ = pr.Close() }, nil
}

// validProduct refuses a product path that a command or mount option of ours
// could not carry.
func validProduct(p string) error {
	if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsAny(p, "=\x00") {
		return fmt.Errorf("product %q: need a clean absolute path without \"=\"", p)
	}
	if !utf8.ValidString(p) {
		return fmt.Errorf("product %q: a path that is not UTF-8 cannot be said in a container's configuration", p)
	}
	return nil
}

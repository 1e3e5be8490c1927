package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/seal"
)

// maxShown bounds the paths that one row lists.
const maxShown = 50

// withCommit compares every file of a commit with the sealed manifest.
func withCommit(ctx context.Context, r seal.Report, opts verifyOptions, manifest string) (seal.Report, error) {
	row := seal.Row{Status: seal.NotChecked, Name: "commit", Detail: "the seal itself is not verified", Lines: []string{}}
	if r.Statement == nil {
		return withRow(r, row), nil
	}
	sealed, err := sealedFiles(manifest, r.Statement.Predicate.Manifest.SHA256)
	if err != nil {
		row.Status, row.Detail = seal.NO, "the manifest cannot be used: "+err.Error()
		return withRow(r, row), nil //nolint:nilerr // the row says it
	}
	c := commitCheck{sealed: sealed}
	if err := c.read(ctx, opts.repo, opts.commit); err != nil {
		return r, fmt.Errorf("commit %s of %s: %w", opts.commit, opts.repo, err)
	}
	for path := range sealed {
		if _, ok := c.seen[path]; !ok {
			c.beyond++
		}
	}
	if c.differs+c.added == 0 {
		row.Status = seal.OK
		row.Detail = fmt.Sprintf("%d of %d files are as sealed; the product holds %d beyond them", c.files, c.files, c.beyond)
	} else {
		row.Status = seal.NO
		row.Detail = fmt.Sprintf("%d of %d files differ, %d are not in the seal", c.differs, c.files, c.added)
	}
	row.Lines = c.lines
	return withRow(r, row), nil
}

// sealedFiles reads the manifest that the seal binds: its files and links
// outside of git's own directories.
func sealedFiles(path, want string) (map[string]product.Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	m := product.NewManifestReader(bufio.NewReaderSize(f, 256<<10))
	all := map[string]product.Entry{}
	for {
		e, err := m.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if (e.Type == product.TypeFile || e.Type == product.TypeSymlink) && !product.InGit(e.Path) {
			all[e.Path] = e
		}
	}
	if sum := m.Digest(); fmt.Sprintf("%x", sum) != want {
		return nil, errors.New("it is not the one that was sealed")
	}
	return all, nil
}

type commitCheck struct {
	sealed                        map[string]product.Entry
	seen                          map[string]bool
	files, differs, added, beyond int
	lines                         []string
}

func (c *commitCheck) note(format string, args ...any) {
	if len(c.lines) < maxShown {
		c.lines = append(c.lines, fmt.Sprintf(format, args...))
	}
}

// read asks git, in the operator's own clone, for the commit's files, and
// hashes each. Objects are read by their own ids; no attribute, filter or
// replacement of the repository changes a byte.
func (c *commitCheck) read(ctx context.Context, repo, rev string) error {
	c.seen = map[string]bool{}
	if strings.HasPrefix(rev, "-") {
		return errors.New("a revision does not begin with a dash")
	}
	git := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "git", append([]string{"--no-replace-objects", "-c", "core.fsmonitor=false", "-C", repo}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1")
		return cmd
	}
	var stderr bytes.Buffer
	list := git("ls-tree", "-r", "-z", "--full-tree", rev)
	list.Stderr = &stderr
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	batch := git("cat-file", "--batch")
	in, err := batch.StdinPipe()
	if err != nil {
		return err
	}
	out, err := batch.StdoutPipe()
	if err != nil {
		return err
	}
	if err := batch.Start(); err != nil {
		return err
	}
	objects := bufio.NewReaderSize(out, 256<<10)
	for _, item := range bytes.Split(bytes.TrimSuffix(names, []byte{0}), []byte{0}) {
		if len(item) == 0 {
			continue
		}
		if err = c.file(string(item), in, objects); err != nil {
			break
		}
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out)
	return errors.Join(err, batch.Wait())
}

// file compares one line of ls-tree: MODE SP TYPE SP ID TAB PATH.
func (c *commitCheck) file(item string, in io.Writer, objects *bufio.Reader) error {
	meta, path, ok := strings.Cut(item, "\t")
	f := strings.Fields(meta)
	if !ok || len(f) != 3 {
		return fmt.Errorf("git answered %q", item)
	}
	c.files++
	c.seen[path] = true
	if f[1] != "blob" {
		c.added++
		c.note("%s  a %s, which is not in the seal", path, f[1])
		return nil
	}
	sum, size, err := blob(f[2], in, objects)
	if err != nil {
		return err
	}
	e, ok := c.sealed[path]
	switch {
	case !ok:
		c.added++
		c.note("%s  in the commit only", path)
	case e.SHA256 != sum || e.Size != size:
		c.differs++
		c.note("%s  sealed %x, commit %x", path, e.SHA256[:6], sum[:6])
	case modeOf(e) != f[0]:
		c.differs++
		c.note("%s  sealed as %s, in the commit %s", path, modeOf(e), f[0])
	}
	return nil
}

// modeOf is git's mode of a sealed entry.
func modeOf(e product.Entry) string {
	switch {
	case e.Type == product.TypeSymlink:
		return "120000"
	case e.Mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// blob hashes one object by its id.
func blob(id string, in io.Writer, objects *bufio.Reader) (sum [32]byte, size int64, err error) {
	if _, err := fmt.Fprintln(in, id); err != nil {
		return sum, 0, err
	}
	head, err := objects.ReadString('\n')
	if err != nil {
		return sum, 0, err
	}
	f := strings.Fields(head)
	if len(f) != 3 || f[0] != id || f[1] != "blob" {
		return sum, 0, fmt.Errorf("git answered %q for %s", head, id)
	}
	if size, err = strconv.ParseInt(f[2], 10, 64); err != nil {
		return sum, 0, err
	}
	h := sha256.New()
	if _, err := io.CopyN(h, objects, size); err != nil {
		return sum, 0, err
	}
	if _, err := objects.Discard(1); err != nil {
		return sum, 0, err
	}
	h.Sum(sum[:0])
	return sum, size, nil
}

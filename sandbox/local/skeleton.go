package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox/ocispec"
)

// maxBinds bounds what one image may cost: an image that needs more single
// binds than this has a mount target deep in a huge directory.
const maxBinds = 512

// node is one entry of a container's root as it will be made: a directory of
// our own with children, a link, a file of our own, or a read-only bind of src.
type node struct {
	src      string // host path that is bound here, "" for our own
	dir      bool
	link     string // target of a symbolic link
	content  []byte // of a file of our own
	hardlink string // host file that a file of our own is a link to
	mode     fs.FileMode
	children map[string]*node
}

func ownDir() *node { return &node{dir: true, mode: 0o755, children: map[string]*node{}} }

// bound is the node for an existing host path, or an error for what cannot be
// bound: a socket, device or FIFO has no place in an image.
func bound(src string) (*node, error) {
	st, err := os.Lstat(src)
	if err != nil {
		return nil, err
	}
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(src)
		return &node{link: to}, err
	case st.IsDir():
		return &node{src: src, dir: true}, nil
	case st.Mode().IsRegular():
		return &node{src: src}, nil
	default:
		return nil, fmt.Errorf("%s is neither file, directory nor link", src)
	}
}

// expand turns a bound directory into one of our own whose children are bound,
// so that something can be added to it. Special files are left out.
func (n *node) expand() error {
	entries, err := os.ReadDir(n.src)
	if err != nil {
		return err
	}
	st, err := os.Stat(n.src)
	if err != nil {
		return err
	}
	children := map[string]*node{}
	for _, e := range entries {
		if e.Type()&(fs.ModeSocket|fs.ModeNamedPipe|fs.ModeDevice|fs.ModeIrregular) != 0 {
			continue
		}
		c, err := bound(filepath.Join(n.src, e.Name()))
		if err != nil {
			return err
		}
		children[e.Name()] = c
	}
	n.children, n.mode, n.src = children, st.Mode().Perm()|0o555, ""
	return nil
}

// require makes sure that a mount can be put at target: a directory or file
// stands there in the image, and no link leads to it.
func (n *node) require(target string, dir bool) error {
	at, err := n.find(target, dir)
	if err == nil && at != nil && at.src != "" {
		// Nothing of the image's is to be seen there: one mount is enough.
		*at = node{dir: dir, mode: 0o755, children: map[string]*node{}}
	}
	return err
}

// find returns the node of the target, which it makes where the image has
// nothing; nil when the target lies deep in something that is bound.
func (n *node) find(target string, dir bool) (*node, error) {
	rest := strings.Split(strings.Trim(target, "/"), "/")
	at := n
	for i, name := range rest {
		last := i == len(rest)-1
		if at.src != "" {
			ok, err := standsIn(at.src, rest[i:], dir)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", target, err)
			}
			if ok {
				return nil, nil
			}
			if err := at.expand(); err != nil {
				return nil, fmt.Errorf("%q: %w", target, err)
			}
		}
		next := at.children[name]
		if next == nil {
			next = ownDir()
			if last && !dir {
				next = &node{mode: 0o444, content: []byte{}}
			}
			at.children[name] = next
		}
		switch {
		case next.link != "":
			return nil, fmt.Errorf("%q: the image has a symbolic link on the way", target)
		case next.dir != (dir || !last):
			return nil, fmt.Errorf("%q: the image has something of another type there", target)
		}
		at = next
	}
	return at, nil
}

// standsIn reports whether the path is there below src, as the wanted type and
// without a link on the way. A link is an error: a mount would follow it.
func standsIn(src string, rest []string, dir bool) (bool, error) {
	for i, name := range rest {
		src = filepath.Join(src, name)
		st, err := os.Lstat(src)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err != nil:
			return false, err
		case st.Mode()&fs.ModeSymlink != 0:
			return false, errors.New("the image has a symbolic link on the way")
		case st.IsDir() != (dir || i < len(rest)-1):
			return false, errors.New("the image has something of another type there")
		}
	}
	return true, nil
}

// build makes the skeleton in the existing directory at and returns the binds
// of what is not our own, parents first. Everything of our own belongs to
// owner, or is left the launcher's when owner is negative.
func (n *node) build(at string, owner int) ([]specs.Mount, error) {
	var binds []specs.Mount
	err := n.make(at, "/", owner, &binds)
	return binds, err
}

func (n *node) make(at, inside string, owner int, binds *[]specs.Mount) error {
	if n.dir && n.src == "" {
		return n.makeChildren(at, inside, owner, binds)
	}
	*binds = append(*binds, specs.Mount{
		Destination: inside, Type: "bind", Source: n.src, Options: ocispec.BindOptions(false, false),
	})
	if len(*binds) > maxBinds {
		return fmt.Errorf("image needs more than %d mounts", maxBinds)
	}
	return nil
}

func (n *node) makeChildren(at, inside string, owner int, binds *[]specs.Mount) error {
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		c := n.children[name]
		path := filepath.Join(at, name)
		if err := c.place(path, owner); err != nil {
			return err
		}
		if c.src == "" && !c.dir {
			continue
		}
		if err := c.make(path, filepath.Join(inside, name), owner, binds); err != nil {
			return err
		}
	}
	return nil
}

// place makes what stands at the node's own path.
func (n *node) place(path string, owner int) error {
	var err error
	switch {
	case n.link != "":
		err = os.Symlink(n.link, path)
	case n.hardlink != "":
		return os.Link(n.hardlink, path)
	case n.dir:
		mode := n.mode
		if n.src != "" {
			mode = 0o555
		}
		if err = os.Mkdir(path, mode); err == nil && mode&^0o755 != 0 {
			err = os.Chmod(path, mode)
		}
	case n.src != "":
		err = os.WriteFile(path, nil, 0o444)
	default:
		err = os.WriteFile(path, n.content, n.mode)
	}
	if err != nil || owner < 0 {
		return err
	}
	return os.Lchown(path, owner, owner)
}

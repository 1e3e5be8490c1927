package safedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Outside says where keys, control and the operator's policy must not be.
type Outside struct {
	// Products are directories that an agent works on, or will.
	Products []string
	// Home is the one directory that may itself be a checkout, of dotfiles;
	// "" means none.
	Home string
}

// markers are what makes a directory a checkout.
func markers() []string {
	return []string{".git", ".mcp.json", "package.json", "pyproject.toml", "proctor.yaml"}
}

// ErrInside is wrapped by the refusal of a path that lies in a product or in a
// checkout, where what an agent or a pull brings could take its place.
var ErrInside = errors.New("lies inside")

// Check refuses an absolute path that resolves into a product or a checkout. It
// need not exist: its nearest existing parent is judged. Directories are
// compared by device and inode, so that neither links, nor bind mounts, nor
// spelling hide one.
func (o Outside) Check(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("place %q: not an absolute path", path)
	}
	real, err := resolve(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("place %q: %w", path, err)
	}
	home, err := inodeOf(o.Home)
	if err != nil {
		return fmt.Errorf("place %q: home: %w", path, err)
	}
	products := map[inode]string{}
	for _, p := range o.Products {
		id, err := inodeOf(p)
		if err != nil {
			return fmt.Errorf("place %q: product: %w", path, err)
		}
		products[id] = p
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		id, err := inodeOf(dir)
		if err != nil {
			return fmt.Errorf("place %q: %w", path, err)
		}
		if p, ok := products[id]; ok {
			return fmt.Errorf("place %q: %w the product %q", path, ErrInside, p)
		}
		if id != home || o.Home == "" {
			if err := checkMarkers(dir); err != nil {
				return fmt.Errorf("place %q: %w", path, err)
			}
		}
		if dir == "/" {
			return nil
		}
	}
}

func checkMarkers(dir string) error {
	for _, name := range markers() {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil {
			return fmt.Errorf("%w the checkout %q (it holds %s)", ErrInside, dir, name)
		}
		// A file where a directory was expected has no members.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	return nil
}

// resolve follows links in the part of the path that exists, and keeps the
// rest. A link that leads nowhere is refused: what it will lead to cannot be
// judged.
func resolve(path string) (string, error) {
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(dir)
	}
}

type inode struct{ dev, ino uint64 }

func inodeOf(path string) (inode, error) {
	if path == "" {
		return inode{}, nil
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return inode{}, fmt.Errorf("stat %q: %w", path, err)
	}
	return inode{dev: st.Dev, ino: st.Ino}, nil
}

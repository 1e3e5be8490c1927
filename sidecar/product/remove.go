package product

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// removeBatch is how many entries of a directory are looked at together.
const removeBatch = 4096

// RemoveAll removes what a hostile identity left below the directory, however
// deep it is, and whatever it closed to itself. Links are not followed. What an
// interrupted call leaves lies below name, for the next one.
func RemoveAll(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return flatten(root, name)
}

// flatten takes each directory of the second level up into the first and removes
// what is empty then: nothing is ever open, or named, deeper than that.
func flatten(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return errors.Join(err, root.Remove(name))
	}
	top, err := openUp(root, name)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	taken := 0
	err = drain(top, func(e fs.DirEntry) error {
		if !e.IsDir() {
			return top.Remove(e.Name())
		}
		dir, err := openUp(top, e.Name())
		if err != nil {
			return err
		}
		err = drain(dir, func(sub fs.DirEntry) error {
			if !sub.IsDir() {
				return dir.Remove(sub.Name())
			}
			if err := dir.Chmod(sub.Name(), 0o700); err != nil { // its parent is an entry of its own
				return err
			}
			free := ""
			for free == "" {
				taken++
				free = strconv.Itoa(taken)
				if _, err := top.Lstat(free); err == nil {
					free = ""
				}
			}
			return top.Rename(e.Name()+"/"+sub.Name(), free)
		})
		return errors.Join(err, dir.Close(), top.Remove(e.Name()))
	})
	return errors.Join(err, root.Remove(name))
}

// openUp opens a directory that may be closed to its owner, who this is.
func openUp(root *os.Root, name string) (*os.Root, error) {
	if err := root.Chmod(name, 0o700); err != nil {
		return nil, err
	}
	return root.OpenRoot(name)
}

// drain has each entry taken away until there is none, or until one stays.
func drain(dir *os.Root, take func(fs.DirEntry) error) error {
	for {
		f, err := dir.Open(".")
		if err != nil {
			return err
		}
		entries, err := f.ReadDir(removeBatch)
		_ = f.Close()
		if errors.Is(err, io.EOF) || err == nil && len(entries) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := take(e); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}

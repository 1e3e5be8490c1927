package product

import (
	"strings"

	"golang.org/x/sys/unix"
)

// dirs opens the directories of paths below a root, one component at a time and
// over no link, and keeps the last ones open because neighbours in a sorted list
// share them. It does not serve two goroutines.
type dirs struct {
	root  int
	stack []openedDir // nested: each is in the one before it
}

type openedDir struct {
	name string
	fd   int
}

// maxOpen bounds the descriptors that a dirs keeps.
const maxOpen = 64

func newDirs(root int) *dirs { return &dirs{root: root} }

func (d *dirs) close() { d.cut(0) }

func (d *dirs) cut(n int) {
	for len(d.stack) > n {
		unix.Close(d.stack[len(d.stack)-1].fd)
		d.stack = d.stack[:len(d.stack)-1]
	}
}

// parent returns the descriptor of the directory that holds path, valid until
// the next call, and the path's last component.
func (d *dirs) parent(path string) (fd int, name string, err error) {
	parts := strings.Split(path, "/")
	name, parts = parts[len(parts)-1], parts[:len(parts)-1]
	same := 0
	for same < len(d.stack) && same < len(parts) && d.stack[same].name == parts[same] {
		same++
	}
	d.cut(same)
	fd = d.root
	if same > 0 {
		fd = d.stack[same-1].fd
	}
	for i, p := range parts[same:] {
		next, err := openBeneath(fd, p, openDir, 0)
		// Above the limit, one slot of the stack is used again and again;
		// a name that no path has keeps it from being found.
		if same+i >= maxOpen {
			d.cut(maxOpen - 1)
			p = "/"
		}
		if err != nil {
			return -1, "", err
		}
		d.stack = append(d.stack, openedDir{name: p, fd: next})
		fd = next
	}
	return fd, name, nil
}

// forget closes what is at or below path, which is about to be replaced.
func (d *dirs) forget(path string) {
	parts := strings.Split(path, "/")
	for i, o := range d.stack {
		if i >= len(parts) || o.name != parts[i] {
			return
		}
		if i == len(parts)-1 {
			d.cut(i)
		}
	}
}

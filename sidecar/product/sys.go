package product

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// resolveStrict is how every name of a hostile tree is resolved: one component
// below its directory's descriptor, over no link and no mount point.
const resolveStrict = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS |
	unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

const (
	openDir  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	openFile = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
)

// openBeneath opens name, one component, in the directory dir.
func openBeneath(dir int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: resolveStrict}
	// EAGAIN means that a rename somewhere raced with the lookup (openat2(2));
	// an attacker can cause it for ever, so the retries are few.
	for range 32 {
		fd, err := unix.Openat2(dir, name, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		return fd, err
	}
	return -1, unix.EAGAIN
}

// fileID is a file's identity on this host.
type fileID struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), st.Ino} }

// typeOf is the type that a file's mode tells.
func typeOf(mode uint32) Type {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return TypeDir
	case unix.S_IFREG:
		return TypeFile
	case unix.S_IFLNK:
		return TypeSymlink
	case unix.S_IFIFO:
		return TypeFIFO
	case unix.S_IFSOCK:
		return TypeSocket
	case unix.S_IFBLK:
		return TypeBlock
	}
	return TypeChar
}

// statAt is fstatat without following a link.
func statAt(dir int, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := ignoringEINTR(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

func fstat(fd int) (st unix.Stat_t, err error) {
	err = unix.Fstat(fd, &st)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fstat(fd, &st)
	}
	return st, err
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// readWhole reads a file that is expected to hold want bytes, into a buffer that
// is larger. One system call tells its whole content when it holds exactly that.
func readWhole(fd int, buf []byte, want int) (n int, err error) {
	for {
		n, err = unix.Read(fd, buf)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || n == want || n == 0 {
		return max(n, 0), err
	}
	more, err := read(fd, buf[n:])
	return n + more, err
}

// read fills buf as far as the file goes; n < len(buf) means the end.
func read(fd int, buf []byte) (n int, err error) {
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, nil
		}
		n += m
	}
	return n, nil
}

// write writes all of buf.
func write(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := unix.Write(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

// maxTarget is the longest link target that is read; Linux has none longer than
// PATH_MAX.
const maxTarget = 16 << 10

// readLink returns the target of the link name in dir.
func readLink(dir int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
		if size > maxTarget {
			return "", unix.ENAMETOOLONG
		}
	}
}

// hasFileCapability reports whether the open file carries security.capability.
// Every answer but "there is none" counts: the kernel refuses to translate some.
func hasFileCapability(fd int) bool {
	_, err := unix.Fgetxattr(fd, "security.capability", nil)
	return !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP)
}

// dirent is one name of a directory, as getdents64(2) gives it.
type dirent struct {
	name string
	typ  byte // DT_*
}

var errDirent = errors.New("directory record is not well formed")

// readNames lists the directory fd, unsorted and without "." and "..". It stops
// with errTooMany after maxBytes bytes of names.
func readNames(fd int, maxBytes int64, buf []byte) ([]dirent, int64, error) {
	var list []dirent
	var held int64
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("list directory: %w", err)
		}
		if n == 0 {
			return list, held, nil
		}
		// One string holds the names of the whole block.
		block := string(buf[:n])
		for off := 0; off < n; {
			d, size, err := parseDirent(buf[off:n], block[off:n])
			if err != nil {
				return nil, 0, err
			}
			off += size
			if d.name == "." || d.name == ".." {
				continue
			}
			list = append(list, d)
			if held += int64(len(d.name)) + nameOverhead; held > maxBytes {
				return nil, 0, errTooMany
			}
		}
	}
}

// nameOverhead is about what a listed name costs beside its bytes.
const nameOverhead = 56

var errTooMany = errors.New("too many names")

// parseDirent reads one linux_dirent64: ino 8, off 8, reclen 2, type 1, name.
func parseDirent(b []byte, text string) (dirent, int, error) {
	if len(b) < 20 {
		return dirent{}, 0, errDirent
	}
	size := int(binary.NativeEndian.Uint16(b[16:]))
	if size < 20 || size > len(b) {
		return dirent{}, 0, errDirent
	}
	end := bytes.IndexByte(b[19:size], 0)
	if end < 0 {
		return dirent{}, 0, errDirent
	}
	return dirent{name: text[19 : 19+end], typ: b[18]}, size, nil
}

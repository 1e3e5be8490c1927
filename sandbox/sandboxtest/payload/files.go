package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

var errArguments = errors.New("wrong arguments")

// write PATH TEXT creates or replaces.
func write(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errArguments
	}
	return nil, os.WriteFile(args[0], []byte(args[1]), 0o644)
}

func read(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 1<<16))
	return string(b), err
}

// stat PATH follows no link.
func stat(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	var st unix.Stat_t
	if err := unix.Lstat(args[0], &st); err != nil {
		return nil, err
	}
	return map[string]any{"uid": st.Uid, "gid": st.Gid, "mode": st.Mode & 0o7777, "type": st.Mode & unix.S_IFMT}, nil
}

func list(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func remove(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	return nil, os.Remove(args[0])
}

func mkdir(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	return nil, os.Mkdir(args[0], 0o755)
}

func mode(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	return uint32(n), err
}

// chmod HOW PATH MODE uses the named system call.
func chmod(args []string) (any, error) {
	if len(args) != 3 {
		return nil, errArguments
	}
	m, err := mode(args[2])
	if err != nil {
		return nil, err
	}
	switch args[0] {
	case "chmod":
		return nil, unix.Chmod(args[1], m)
	case "fchmodat":
		return nil, unix.Fchmodat(unix.AT_FDCWD, args[1], m, 0)
	case "fchmodat2":
		return nil, unix.Fchmodat(unix.AT_FDCWD, args[1], m, unix.AT_SYMLINK_NOFOLLOW)
	case "fchmod":
		fd, err := unix.Open(args[1], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer func() { _ = unix.Close(fd) }()
		return nil, unix.Fchmod(fd, m)
	}
	return nil, errArguments
}

// creat HOW PATH MODE makes a file or directory with the mode at once.
func creat(args []string) (any, error) {
	if len(args) != 3 {
		return nil, errArguments
	}
	m, err := mode(args[2])
	if err != nil {
		return nil, err
	}
	unix.Umask(0)
	var fd int
	switch args[0] {
	case "openat":
		fd, err = unix.Openat(unix.AT_FDCWD, args[1], unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, m)
	case "openat2":
		fd, err = unix.Openat2(unix.AT_FDCWD, args[1], &unix.OpenHow{
			Flags: unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_CLOEXEC, Mode: uint64(m),
		})
	case "mknod":
		return nil, unix.Mknod(args[1], m|unix.S_IFREG, 0)
	case "mkdir":
		return nil, unix.Mkdir(args[1], m)
	default:
		return nil, errArguments
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return nil, err
}

func open(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	fd, err := unix.Open(args[0], unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return nil, err
}

// fill PATH N writes up to N bytes and tells how many it could.
func fill(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errArguments
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	f, err := os.Create(args[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 64<<10)
	done := 0
	for done < n {
		k, err := f.Write(block[:min(len(block), n-done)])
		done += k
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// exec PATH copies this program there and runs the copy, which must exit with 3.
func execute(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(args[0], self, 0o755); err != nil {
		return nil, err
	}
	err = exec.Command(args[0], "exit", "3").Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == 3 {
		return nil, nil
	}
	return nil, err
}

package main

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dial NETWORK ADDRESS connects, sends a line, and tells the answer.
func dial(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errArguments
	}
	conn, err := net.DialTimeout(args[0], args[1], 2*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1024))
	return string(answer), err
}

func interfaces([]string) (any, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names, nil
}

// terminal tells whether all three streams are one, and its size, which an
// engine may set a moment after the start.
func terminal([]string) (any, error) {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
			return nil, err
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 5000 {
		size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil || size.Row > 0 {
			return []uint16{size.Row, size.Col}, err
		}
		<-tick.C
	}
	return nil, errors.New("no size came")
}

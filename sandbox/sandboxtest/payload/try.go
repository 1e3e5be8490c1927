package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// result is one attempt. Err is the errno's name, or the error's text; "" is
// success.
type result struct {
	Op    string `json:"op"`
	Err   string `json:"err"`
	Value any    `json:"value,omitempty"`
}

type operation func(args []string) (any, error)

func try(args []string, stdout, stderr io.Writer) int {
	results := []result{}
	for len(args) > 0 {
		end := 0
		for end < len(args) && args[end] != "--" {
			end++
		}
		op := args[:end]
		args = args[min(end+1, len(args)):]
		if len(op) == 0 {
			continue
		}
		results = append(results, attempt(op))
	}
	if err := json.NewEncoder(stdout).Encode(results); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func attempt(op []string) result {
	do, known := operations()[op[0]]
	if !known {
		return result{Op: op[0], Err: "unknown operation"}
	}
	value, err := do(op[1:])
	return result{Op: op[0], Err: errorName(err), Value: value}
}

func errorName(err error) string {
	if err == nil {
		return ""
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func operations() map[string]operation {
	return map[string]operation{
		// files
		"write": write, "read": read, "stat": stat, "list": list, "remove": remove, "mkdir": mkdir,
		"chmod": chmod, "creat": creat, "open": open, "fill": fill, "exec": execute,
		// the kernel
		"status": status, "environ": environ, "killall": killall, "mount": mount, "unshare": unshare,
		"setns": setns, "mknod": mknod, "keyctl": keyctl, "userfaultfd": userfaultfd, "bpf": bpf,
		"io_uring": ioUring, "ptrace": ptrace, "setuid": setuid, "chroot": chroot, "sethostname": sethostname,
		"memory": memory, "child-memory": childMemory, "files": files,
		// the outside
		"dial": dial, "interfaces": interfaces, "terminal": terminal,
	}
}

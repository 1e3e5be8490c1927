package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/proctor-project/proctor/sandbox/kernel"
)

const (
	// execDeadline bounds how long the runtime may take from "started" to the
	// payload's exec: runc installs seccomp in between.
	execDeadline = 5 * time.Second
	execTick     = 2 * time.Millisecond
)

// errEnded says that the process ended before it could be looked at.
var errEnded = errors.New("the process has ended")

// checkProcess holds what the kernel says about the running payload against the
// spec. One that ended meanwhile has nothing left to check.
func (c *Container) checkProcess(ctx context.Context) error {
	if onRunsc(c.spec) {
		return nil // the payload is gVisor's, and no process of the host's
	}
	err := c.awaitExec(ctx)
	if err == nil {
		err = c.checkStatus()
	}
	if err == nil || errors.Is(err, errEnded) {
		return nil
	}
	return refused(c.spec, err)
}

// awaitExec returns when the runtime's own first process has become the payload.
func (c *Container) awaitExec(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, execDeadline)
	defer cancel()
	tick := time.NewTicker(execTick)
	defer tick.Stop()
	for {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.pid()), "cmdline"))
		switch {
		case err != nil || len(line) == 0:
			return errEnded
		case !bytes.Equal(line, c.before):
			return nil
		}
		select {
		case <-c.done:
			return errEnded
		case <-ctx.Done():
			return errors.New("the runtime did not run the payload")
		case <-tick.C:
		}
	}
}

func (c *Container) checkStatus() error {
	st, err := kernel.ReadStatus(c.pid())
	if err != nil || st.Ended {
		return errEnded
	}
	id := c.spec.Identity.Host
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if st.UID != id || st.GID != id {
		refuse("the kernel says that the payload is %d:%d, and it must be %d:%d", st.UID, st.GID, id, id)
	}
	for _, g := range st.Groups {
		if g != id {
			refuse("the kernel says that the payload has the groups %v", st.Groups)
		}
	}
	if len(st.Capabilities) > 0 || !st.NoNewPrivs || !st.Filtered {
		refuse("the kernel says that the payload has the capabilities %v, no-new-privileges %v, seccomp filter %v", st.Capabilities, st.NoNewPrivs, st.Filtered)
	}
	return errors.Join(errs...)
}

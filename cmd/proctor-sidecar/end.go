package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// terminationLog is where a container leaves its last word for the kubelet,
// which puts it into the Pod's status.
type terminationLog struct{}

func (terminationLog) Write(b []byte) (int, error) {
	f, err := os.OpenFile("/dev/termination-log", os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return 0, err
	}
	n, err := f.Write(b)
	return n, errors.Join(err, f.Close())
}

// maxReason bounds each of an end's reasons, and maxReasons their number: a
// Pod's status takes 4096 bytes of a container's message.
const maxReason, maxReasons = 160, 8

// podEnd leaves a seal where kubectl alone can get at it: in the log, as one
// line; and the verdict in the Pod's status.
func podEnd(stdout io.Writer) func(steps.ChainSealed) error {
	return func(s steps.ChainSealed) error {
		if !s.Told {
			if _, err := stdout.Write(append(bytes.TrimSpace(s.Seal), '\n')); err != nil {
				return err
			}
		}
		return sayEnd(terminationLog{}, s)
	}
}

// sayEnd says the verdict where an orchestrator shows it by itself.
func sayEnd(w io.Writer, s steps.ChainSealed) error {
	end := wire.ChainEnd{Schema: "proctor/end/v1", Session: s.Session, Verdict: s.Verdict, SealSHA256: s.SHA256, Reasons: []string{}, Waivers: append([]string{}, s.Waivers...)}
	reasons := slices.Clone(s.Reasons)
	for _, f := range s.Findings {
		reasons = append(reasons, f.String())
	}
	for _, reason := range reasons {
		if len(end.Reasons) == maxReasons {
			end.More++
			continue
		}
		end.Reasons = append(end.Reasons, cut(display.Escape(reason)))
	}
	b, err := strictjson.Marshal(end)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func cut(s string) string {
	if len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason], "") + "..."
}

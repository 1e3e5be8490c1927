package launch

import (
	"errors"
	"os"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// TestWholeCan: what an orchestrator's session cannot be given is refused, doors
// with the waiver that they need.
func TestWholeCan(t *testing.T) {
	doors := Plan{Doors: Doors{Bridges: []Bridge{{Port: 4100, Socket: "services.sock"}}}}
	var refused *sandbox.RefusedError
	if err := doors.wholeCan(); !errors.As(err, &refused) || refused.Waiver != sandbox.WaiveSharedNetwork {
		t.Errorf("doors: %v", err)
	}
	doors.Waive = []sandbox.Waiver{sandbox.WaiveNoLimits, sandbox.WaiveSharedNetwork}
	if err := doors.wholeCan(); err != nil {
		t.Errorf("doors, waived: %v", err)
	}
	for what, p := range map[string]Plan{
		"terminal": {Terminal: os.Stdin}, "product's policy": {ProductPolicy: []byte{}},
		"mounts": {Agent: Process{Mounts: []sandbox.Mount{{}}}}, "files": {Checks: []Check{{Lay: []Lay{{}}}}},
	} {
		p.Waive = doors.Waive
		if err := p.wholeCan(); !errors.As(err, &refused) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestFailed: the step after which nothing is sealed.
func TestFailed(t *testing.T) {
	step := func(name string, code int, reason string) sandbox.StepState {
		return sandbox.StepState{Name: name, Ended: true, Code: code, Reason: reason}
	}
	agent := sandbox.StepState{Name: stepAgent, Running: true}
	for name, c := range map[string]struct {
		steps []sandbox.StepState
		want  string
	}{
		"all is well":           {[]sandbox.StepState{step(stepStage, 0, ""), agent}, ""},
		"a step":                {[]sandbox.StepState{step(stepStage, 2, "")}, stepStage},
		"memory, with status 0": {[]sandbox.StepState{step("check-unit", 0, reasonOOM)}, "check-unit"},
		"serve before an agent": {[]sandbox.StepState{step(stepServe, 2, ""), {Name: stepAgent}}, stepServe},
		"serve after it":        {[]sandbox.StepState{step(stepServe, 2, ""), step(stepAgent, 0, "")}, ""},
		"seal: the verdict":     {[]sandbox.StepState{step(stepSeal, 1, "")}, ""},
	} {
		if got := failed(sandbox.Progress{Steps: c.steps}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

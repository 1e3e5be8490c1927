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

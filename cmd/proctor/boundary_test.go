package main

import (
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// TestBoundaryText: what is weaker is said, and nothing else is.
func TestBoundaryText(t *testing.T) {
	p := seal.Predicate{Engine: wire.Engine{Name: "kubernetes"}, Containers: []wire.Container{
		{Role: "agent", Mounts: []wire.Mount{{Target: "/p"}}}, {Role: "check", Mounts: []wire.Mount{{Target: "/p"}}},
	}}
	if text := boundaryText(p); strings.Contains(text, "below") || strings.Contains(text, "network") {
		t.Errorf("nothing is weaker: %s", text)
	}
	p.Engine.Network, p.Containers[1].Mounts[0].OpenBelow, p.Waivers = "shared", true, []string{"shared-network"}
	for _, want := range []string{"network shared", "may be written in check", "waived: shared-network"} {
		if text := boundaryText(p); !strings.Contains(text, want) || strings.Contains(text, "agent") {
			t.Errorf("%s: no %q", text, want)
		}
	}
}

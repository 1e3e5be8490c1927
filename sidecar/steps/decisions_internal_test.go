package steps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// TestDecisionsOfALoudAgent: however much an agent asks for, what stands in a
// seal can be signed, what was allowed is in it, and no two things are one.
func TestDecisionsOfALoudAgent(t *testing.T) {
	row := func(kind string, data any) record.Row {
		b, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		return record.Row{Step: stepServe, Kind: kind, Data: b}
	}
	var rows []record.Row
	const loud = 2*maxDecisions + 100
	for i := range loud {
		name := "/" + strings.Repeat("\x01", 4000) + fmt.Sprint(i)
		if p := wire.NewPath(name); i%2 == 0 {
			rows = append(rows, row("decided", wire.Decided{Subject: wire.Subject{Kind: wire.SubjectFile, Path: &p}, Reason: "outside_product"}))
		} else {
			rows = append(rows, row("npm-refused", door.Refusal{Door: "npm", What: name, Reason: "is not approved"}))
		}
	}
	p := wire.NewPath("/z")
	rows = append(rows, row("proxy-connect", map[string]any{"host": "z.example", "port": 443}),
		row("decided", wire.Decided{Subject: wire.Subject{Kind: wire.SubjectFile, Path: &p}, Allowed: true, Reason: "zz"}))
	all, leftOut := decisions(rows)
	if len(all) != maxDecisions || leftOut != loud+2-maxDecisions {
		t.Errorf("%d decisions, %d left out", len(all), leftOut)
	}
	for _, want := range []seal.Decision{{Door: "proxy", What: "z.example:443", Outcome: "allowed", Count: 1}, {Door: "trust", What: "file /z", Outcome: "allowed", Reason: "zz", Count: 1}} {
		if !slices.Contains(all, want) {
			t.Errorf("%+v is left out", want)
		}
	}
	if b, err := json.Marshal(all); err != nil || len(b) > 2<<20 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if !slices.IsSortedFunc(all, func(a, b seal.Decision) int { return strings.Compare(a.Door, b.Door) }) {
		t.Error("not by door")
	}
}

// TestSharedNetworkIsWaived: where the agent's network is serve's, doors need the
// operator's word; without doors, or with networks of their own, nothing does.
func TestSharedNetworkIsWaived(t *testing.T) {
	const plain, doors = "version: 1\n", "version: 1\negress: {door: open}\n"
	const shared = "shared by the Pod's containers"
	for _, c := range []struct {
		policy, network string
		waivers         []string
		ok              bool
	}{
		{plain, shared, nil, true},
		{doors, "", nil, true},
		{doors, shared, nil, false},
		{doors, shared, []string{"no-limits"}, false},
		{doors, shared, []string{"shared-network"}, true},
	} {
		err := checkWaivers(wire.OpenRequest{
			PolicyPath: "policy", Policy: []byte(c.policy), Waivers: c.waivers, Engine: wire.Engine{RuntimeFloor: "ok", Network: c.network},
		})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "shared-network is not waived") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

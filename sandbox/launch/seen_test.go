package launch_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// TestWhoSeesWhat: the containers of a session, as the engine reported them to
// the seal, are the documentation's table. TestDocker and TestContainerd hold
// theirs against the same rows.
func TestWhoSeesWhat(t *testing.T) {
	d := newDesk(t)
	d.run(0, "true")
	d.seenAsDocumented()
}

// seenAsDocumented holds the containers of the desk's first session against the
// documentation.
func (d *desk) seenAsDocumented() {
	d.Helper()
	page, err := os.ReadFile("../../docs/deployment-isolation.md")
	d.must(err)
	_, table, ok := strings.Cut(string(page), "| container | is | reads | writes | network |\n|---|---|---|---|---|\n")
	if !ok {
		d.Fatal("the page has no such table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	all := d.sealed()
	owners := map[uint32]string{}
	for _, c := range all { // open is the first, and the supervisor
		if _, known := owners[c.UID]; !known {
			owners[c.UID] = []string{"supervisor", "guest", "somebody else"}[min(len(owners), 2)]
		}
	}
	var got []string
	for _, c := range all {
		got = append(got, d.row(c, owners[c.UID]))
	}
	if strings.Join(got, "\n") != strings.TrimSpace(table) {
		d.Errorf("docs/deployment-isolation.md says\n%s\n\nand on %s it was\n%s", table, d.engine, strings.Join(got, "\n"))
	}
}

// sealed are the containers of the desk's only seal, in the order of a session.
func (d *desk) sealed() []wire.Container {
	d.Helper()
	files := d.seals()
	if len(files) != 1 {
		d.Fatalf("seals: %q", files)
	}
	body, err := os.ReadFile(files[0])
	d.must(err)
	var envelope dsse.Envelope
	d.must(json.Unmarshal(body, &envelope))
	payload, err := envelope.DecodeB64Payload()
	d.must(err)
	var statement struct{ Predicate seal.Predicate }
	d.must(json.Unmarshal(payload, &statement))
	return statement.Predicate.Containers
}

func (d *desk) row(c wire.Container, is string) string {
	d.Helper()
	// proctor-SESSION-NAME
	name := strings.Split(c.Name, "-")
	var reads, writes []string
	for _, m := range c.Mounts {
		what := map[string]string{
			d.path("site"): "stage", "/.proctor/bin": "programs", "/opt/test": "policy's mounts",
			sandbox.PartSockets.Target(): "sockets", sandbox.PartRootKeys.Target(): "root key",
		}[m.Target]
		if what == "" {
			what = strings.TrimPrefix(strings.TrimPrefix(m.Target, "/control/"), "/")
		}
		if m.Kind == string(sandbox.MountLayer) {
			reads, what = append(reads, what), "layer"
		}
		if m.Writable {
			writes = append(writes, what)
		} else {
			reads = append(reads, what)
		}
	}
	slices.Sort(reads)
	slices.Sort(writes)
	network := c.Network
	if network == "" {
		network = "none"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", strings.Join(name[min(2, len(name)):], "-"), is, strings.Join(reads, ", "), strings.Join(writes, ", "), network)
}

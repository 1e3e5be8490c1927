package chain_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox/chain"
)

// TestWhoSeesWhat: the table of the documentation is what the steps are given, each
// of them, and no row more.
func TestWhoSeesWhat(t *testing.T) {
	s := session(chain.Stack, "NAME")
	s.Doors = true
	var want []string
	for _, step := range append(steps(t, s), s.Tools()...) {
		want = append(want, seen(step))
	}
	page, err := os.ReadFile("../../docs/deployment-isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| step | is | reads | writes | network |\n|---|---|---|---|---|\n")
	if !ok {
		t.Fatal("the page has no such table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	if got := strings.TrimSpace(table); got != strings.Join(want, "\n") {
		t.Errorf("docs/deployment-isolation.md says\n%s\n\nand the steps are\n%s", got, strings.Join(want, "\n"))
	}
}

func seen(s chain.Step) string {
	is := map[chain.Who]string{chain.Supervisor: "supervisor", chain.Reader: "reader", chain.Guest: "guest", chain.Stager: "root, 3 capabilities"}
	network := map[chain.Network]string{chain.NoNetwork: "none", chain.Outside: "its own, with doors"}
	var reads, writes []string
	for _, m := range s.Mounts {
		if m.How == chain.ReadOnly {
			reads = append(reads, m.Volume)
		} else {
			writes = append(writes, m.Volume)
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", s.Name, is[s.Who], strings.Join(reads, ", "), strings.Join(writes, ", "), network[s.Network])
}

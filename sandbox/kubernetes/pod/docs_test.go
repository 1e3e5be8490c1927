package pod_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/kubernetes/pod"
)

// TestWhoSeesWhat: the table of the documentation is the Pod's containers, each of
// them, with their ids and volumes.
func TestWhoSeesWhat(t *testing.T) {
	c, s := config(), session()
	c.Doors, c.Network, s.Doors = "proctor-doors", pod.SharedNetwork, true
	var want []string
	for _, one := range containers(build(t, c, s)) {
		want = append(want, row(*one))
	}
	page, err := os.ReadFile("../../../docs/deployment-isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| container of a Pod | is | reads | writes |\n|---|---|---|---|\n")
	if !ok {
		t.Fatal("the page has no such table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	if got := strings.TrimSpace(table); got != strings.Join(want, "\n") {
		t.Errorf("docs/deployment-isolation.md says\n%s\n\nand the containers are\n%s", got, strings.Join(want, "\n"))
	}
}

func row(c corev1.Container) string {
	is := map[int64]string{chain.GuestID: "guest", chain.SupervisorID: "supervisor"}[*c.SecurityContext.RunAsUser]
	var reads, writes []string
	for _, m := range c.VolumeMounts {
		if m.ReadOnly {
			reads = append(reads, m.Name)
		} else {
			writes = append(writes, m.Name)
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", c.Name, is, strings.Join(reads, ", "), strings.Join(writes, ", "))
}

// Package tools holds what builds and checks the product, and is no part of it.
package tools

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDependenciesAreExplained compares the direct requirements of the product's
// go.mod with the tables of docs/dependencies.md, both ways.
func TestDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	linked, _, ok := strings.Cut(string(docs), "\n## ")
	if !ok {
		t.Fatal("docs/dependencies.md has no sections")
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \|.*\| (v[^ ,|]+)[^|]*\|$`).FindAllStringSubmatch(linked, -1) {
		rows[m[1]] = m[2]
	}
	direct := 0
	for _, m := range regexp.MustCompile(`(?m)^\s*(?:require )?(\S+\.\S+/\S+) (v\S+)$`).FindAllStringSubmatch(string(mod), -1) {
		direct++
		if got, ok := rows[m[1]]; !ok {
			t.Errorf("docs/dependencies.md does not explain %s", m[1])
		} else if got != m[2] {
			t.Errorf("docs/dependencies.md gives %s as %s, go.mod as %s", m[1], got, m[2])
		}
		delete(rows, m[1])
	}
	if direct == 0 {
		t.Error("go.mod has no direct requirement")
	}
	for module := range rows {
		t.Errorf("docs/dependencies.md explains %s, which go.mod does not require directly", module)
	}
}

package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

const docsFile = "../../docs/policy.md"

func readDocs(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDocsExamplesParse(t *testing.T) {
	_, schema := loadSchema(t)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readDocs(t), -1)
	if len(examples) < 10 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		if _, err := Parse("example", []byte(e[1])); err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
		if err := schema.Validate(yamlValue(t, e[1])); err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
	}
}

// TestDocsProductExamples: what the page shows of a product's own policy is one.
func TestDocsProductExamples(t *testing.T) {
	examples := regexp.MustCompile("(?s)```yaml product\n(.*?)```").FindAllStringSubmatch(readDocs(t), -1)
	if len(examples) == 0 {
		t.Fatal("no example")
	}
	for _, e := range examples {
		if _, err := ParseProduct("example", []byte(e[1])); err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
	}
}

// TestDocsNameEveryFieldAndDefault reads the fields from the JSON Schema, whose
// own defaults TestSchemaDefaults compares with the reader's.
func TestDocsNameEveryFieldAndDefault(t *testing.T) {
	docs := readDocs(t)
	root, _ := loadSchema(t)
	var walk func(s *jsonschema.Schema)
	walk = func(s *jsonschema.Schema) {
		if s.Items != nil {
			walk(s.Items)
		}
		for name, p := range s.Properties {
			if !strings.Contains(docs, "`"+name+"`") && !strings.Contains(docs, "## "+name+"\n") && name != "version" && name != "from" && name != "to" {
				t.Errorf("the docs do not explain %s", name)
			}
			if d := strings.Trim(string(p.Default), `"`); d != "" && d != "[]" && d != "false" && !strings.Contains(docs, d) {
				t.Errorf("the docs do not give %s's default %s", name, d)
			}
			walk(p)
		}
	}
	walk(root)
	for _, s := range root.Defs {
		walk(s)
	}
}

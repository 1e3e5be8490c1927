package policy

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

const schemaFile = "../../docs/policy.schema.json"

func loadSchema(t *testing.T) (*jsonschema.Schema, *jsonschema.Resolved) {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return &s, resolved
}

// TestSchemaAgreesWithReader gives every document of the corpus to both.
func TestSchemaAgreesWithReader(t *testing.T) {
	_, schema := loadSchema(t)
	for _, c := range corpus() {
		t.Run(c.name, func(t *testing.T) {
			if c.only && yaml.Unmarshal([]byte(c.text()), new(any)) != nil {
				return // not even YAML to a common reader
			}
			err := schema.Validate(yamlValue(t, c.text()))
			switch {
			case len(c.want) == 0 && err != nil:
				t.Errorf("the reader takes it, the schema refuses: %v", err)
			case len(c.want) > 0 && !c.only && err == nil:
				t.Error("the reader refuses it, the schema takes it")
			case c.only && err != nil:
				t.Errorf("the schema refuses it as well (%v): it is not for the reader only", err)
			}
		})
	}
}

// yamlValue reads a document as a common YAML reader does.
func yamlValue(t *testing.T, doc string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchemaDefaults writes the schema's defaults into a policy: it must be the
// default one.
func TestSchemaDefaults(t *testing.T) {
	root, _ := loadSchema(t)
	var write func(s *jsonschema.Schema) any
	write = func(s *jsonschema.Schema) any {
		if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok && s.Default == nil {
			s = root.Defs[name]
		}
		if s.Default != nil {
			var v any
			if err := yaml.Unmarshal(s.Default, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		if len(s.Properties) == 0 {
			return nil
		}
		obj := map[string]any{}
		for name, p := range s.Properties {
			if v := write(p); v != nil {
				obj[name] = v
			}
		}
		return obj
	}
	obj, ok := write(root).(map[string]any)
	if !ok {
		t.Fatal("the schema has no properties")
	}
	obj["version"] = 1
	doc, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse("schema's defaults", doc)
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	opts := []cmp.Option{cmpopts.IgnoreUnexported(Policy{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(smallest(t), p, opts...); diff != "" {
		t.Errorf("-reader +schema:\n%s", diff)
	}
	if !strings.Contains(string(doc), "max_entries") || !strings.Contains(string(doc), "open_files") {
		t.Errorf("defaults are missing:\n%s", doc)
	}
}

// TestSchemaHasTheReadersFields asks the reader for its fields, object by
// object, with a field that nobody knows.
func TestSchemaHasTheReadersFields(t *testing.T) {
	root, _ := loadSchema(t)
	objects := 0
	var walk func(s *jsonschema.Schema, before, after string)
	walk = func(s *jsonschema.Schema, before, after string) {
		if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
			s = root.Defs[name]
		}
		if s.Items != nil {
			walk(s.Items, before+"[", "]"+after)
			return
		}
		if len(s.OneOf) > 0 {
			s = s.OneOf[len(s.OneOf)-1] // an image; the others have fewer fields
		}
		if len(s.Properties) == 0 {
			return
		}
		objects++
		_, err := Parse("FILE", []byte(before+"{no_such_field: x}"+after))
		if err == nil {
			t.Fatalf("%s took an unknown field", before)
		}
		m := regexp.MustCompile(`unknown field "no_such_field"; known here: (.*)`).FindStringSubmatch(err.Error())
		if m == nil {
			t.Fatalf("%s: %v", before, err)
		}
		readers, schemas := strings.Split(m[1], ", "), []string{}
		for name := range s.Properties {
			schemas = append(schemas, name)
		}
		sort.Strings(readers)
		sort.Strings(schemas)
		if !slices.Equal(readers, schemas) {
			t.Errorf("%s: the reader knows %v, the schema %v", before, readers, schemas)
		}
		for name, p := range s.Properties {
			walk(p, before+"{"+name+": ", "}"+after)
		}
	}
	walk(root, "", "")
	if objects < 14 {
		t.Errorf("only %d objects were compared", objects)
	}
}

package strictjson

import (
	"errors"
	"strings"
	"testing"
)

func TestForeign(t *testing.T) {
	type doc struct {
		Name string            `json:"name"`
		Tags map[string]string `json:"tags,omitempty"`
	}
	tests := []struct{ name, data, want string }{
		{"known fields", `{"name":"a","tags":{"b":"c"}}`, ""},
		{"an unknown field", `{"name":"a","other":[1,{"x":null}]}`, ""},
		{"a known field twice", `{"name":"a","name":"b"}`, `key "name" twice`},
		{"an unknown field twice", `{"name":"a","o":1,"o":2}`, `key "o" twice`},
		{"twice inside what is passed over", `{"name":"a","o":[{"x":1,"\u0078":2}]}`, `key "x" twice`},
		{"another case", `{"name":"a","Name":"b"}`, `unknown field "Name"`},
		{"another case by Unicode's folding", `{"name":"a","tag` + "ſ" + `":{}}`, `unknown field`},
		{"missing", `{"o":1}`, `"name" is missing`},
		{"of another kind", `{"name":[]}`, "an array where string"},
		{"a number for text", `{"name":1}`, "cannot unmarshal"},
		{"trailing data", `{"name":"a"} 1`, "data after the document"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d doc
			err := NewForeign(Limits{}).Unmarshal([]byte(tt.data), &d)
			if tt.want == "" {
				if err != nil || d.Name != "a" {
					t.Fatalf("read %+v, %v", d, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if strings.Contains(tt.want, "twice") && !errors.Is(err, ErrTwice) {
				t.Errorf("error %v is not ErrTwice", err)
			}
		})
	}
	if err := Unmarshal([]byte(`{"name":"a","other":1}`), &doc{}, Limits{}); err == nil {
		t.Error("the strict reader passes over an unknown field")
	}
}

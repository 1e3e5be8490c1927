package strictjson_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/keys/strictjson"
)

type inner struct {
	Name string `json:"name"`
}

type Embedded struct {
	Base int `json:"base"`
}

type doc struct {
	Embedded
	Kind  string            `json:"kind"`
	Count uint64            `json:"count"`
	Inner inner             `json:"inner"`
	List  []inner           `json:"list"`
	Sum   [2]int            `json:"sum"`
	Bytes []byte            `json:"bytes"`
	Map   map[string]string `json:"map"`
	Raw   json.RawMessage   `json:"raw"`
	Time  time.Time         `json:"time"`
	Maybe *inner            `json:"maybe,omitempty"`
	Float float64           `json:"float,omitempty"`
}

const good = `{"base":1,"kind":"abc","count":7,"inner":{"name":"n"},"list":[{"name":"x"}],"sum":[1,2],` +
	`"bytes":"AAE=","map":{"k":"v","K":"w"},"raw":{"A":1,"a":[null]},"time":"2026-11-30T12:00:00Z"}`

func swap(t *testing.T, old, new string) string {
	t.Helper()
	if strings.Count(good, old) != 1 {
		t.Fatalf("%q is not once in the good document", old)
	}
	return strings.Replace(good, old, new, 1)
}

func TestK2StrictReader(t *testing.T) {
	var d doc
	if err := strictjson.Unmarshal([]byte(good), &d, strictjson.Limits{}); err != nil {
		t.Fatalf("positive control: %v", err)
	}
	if d.Base != 1 || d.Kind != "abc" || d.List[0].Name != "x" || d.Sum != [2]int{1, 2} || string(d.Bytes) != "\x00\x01" {
		t.Fatalf("wrong value: %+v", d)
	}
	deep := strings.Repeat("[", 10000) + strings.Repeat("]", 10000)
	for name, in := range map[string]string{
		"duplicate key":                swap(t, `"count":7`, `"count":7,"count":8`),
		"duplicate key, escaped":       swap(t, `"count":7`, `"count":7,"c\u006funt":8`),
		"duplicate key in nested":      swap(t, `{"name":"n"}`, `{"name":"n","name":"n"}`),
		"duplicate key in map":         swap(t, `"K":"w"`, `"k":"w"`),
		"duplicate key in raw":         swap(t, `"A":1`, `"a":1`),
		"case-variant key":             swap(t, `"kind"`, `"Kind"`),
		"case-variant key, beside":     swap(t, `"kind":"abc"`, `"kind":"abc","KIND":"b"`),
		"case-variant key, kelvin":     swap(t, `"kind"`, "\"\u212aind\""),
		"unknown field":                swap(t, `"count":7`, `"count":7,"more":1`),
		"missing field":                swap(t, `"count":7,`, ``),
		"missing embedded field":       swap(t, `"base":1,`, ``),
		"missing nested field":         swap(t, `{"name":"n"}`, `{}`),
		"trailing data":                good + `{}`,
		"trailing comma":               swap(t, `"w"}`, `"w",}`),
		"trailing NUL":                 good + "\x00",
		"two documents":                good + "\n" + good,
		"NaN":                          swap(t, `"count":7`, `"count":NaN`),
		"infinity":                     swap(t, `"count":7`, `"count":7,"float":1e999`),
		"invalid UTF-8":                swap(t, `"abc"`, "\"\xff\""),
		"invalid UTF-8 in key":         swap(t, `"k":"v"`, "\"\xc3\x28\":\"v\""),
		"lone high surrogate":          swap(t, `"abc"`, `"\ud800"`),
		"lone low surrogate":           swap(t, `"abc"`, `"\udc00"`),
		"two high surrogates":          swap(t, `"abc"`, `"\ud800\ud800"`),
		"lone surrogate in raw":        swap(t, `[null]`, `["\udfff"]`),
		"too deep":                     swap(t, `[null]`, deep),
		"null for text":                swap(t, `"kind":"abc"`, `"kind":null`),
		"null for number":              swap(t, `"count":7`, `"count":null`),
		"null for object":              swap(t, `{"name":"n"}`, `null`),
		"null for document":            `null`,
		"array too short":              swap(t, `[1,2]`, `[1]`),
		"array too long":               swap(t, `[1,2]`, `[1,2,3]`),
		"base64 with line break":       swap(t, `"AAE="`, `"AA\nE="`),
		"base64 with stray bits":       swap(t, `"AAE="`, `"AAF="`),
		"base64 without padding":       swap(t, `"AAE="`, `"AAE"`),
		"base64 of URLs":               swap(t, `"AAE="`, `"_-8="`),
		"bytes as numbers":             swap(t, `"AAE="`, `[1,2]`),
		"negative unsigned":            swap(t, `"count":7`, `"count":-7`),
		"leading zero":                 swap(t, `"count":7`, `"count":07`),
		"float for integer":            swap(t, `"count":7`, `"count":7.0`),
		"number as text":               swap(t, `"count":7`, `"count":"7"`),
		"control character":            swap(t, `"abc"`, "\"\n\""),
		"unknown escape":               swap(t, `"abc"`, `"\x41"`),
		"comment":                      swap(t, `"count":7`, `/*x*/"count":7`),
		"single quotes":                swap(t, `"abc"`, `'a'`),
		"byte order mark":              "\ufeff" + good,
		"empty":                        "",
		"white space":                  " \n",
		"array for object":             "[" + good + "]",
		"text for object":              `"x"`,
		"bad time":                     swap(t, `2026-11-30T12:00:00Z`, `yesterday`),
		"unterminated":                 good[:len(good)-1],
		"object for text":              swap(t, `"abc"`, `{}`),
		"object for list":              swap(t, `[{"name":"x"}]`, `{}`),
		"word cut":                     swap(t, `null`, `nul`),
		"escape cut":                   `{"kind":"\u12`,
		"escape cut before the number": `{"kind":"\`,
	} {
		t.Run(name, func(t *testing.T) {
			before := doc{Kind: "untouched"}
			got := before
			if err := strictjson.Unmarshal([]byte(in), &got, strictjson.Limits{}); err == nil {
				t.Fatalf("accepted %s", in)
			}
			if !reflect.DeepEqual(got, before) {
				t.Fatal("the target changed")
			}
		})
	}
}

func TestLimits(t *testing.T) {
	var v any
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if err := strictjson.Unmarshal(nested(32), &v, strictjson.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := strictjson.Unmarshal(nested(33), &v, strictjson.Limits{}); !errors.Is(err, strictjson.ErrTooDeep) {
		t.Fatalf("got %v", err)
	}
	if err := strictjson.Unmarshal([]byte(`"12345678"`), &v, strictjson.Limits{Size: 10}); err != nil {
		t.Fatal(err)
	}
	if err := strictjson.Unmarshal([]byte(`"123456789"`), &v, strictjson.Limits{Size: 10}); !errors.Is(err, strictjson.ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
}

func TestValueIsReplacedWhole(t *testing.T) {
	got := doc{Maybe: &inner{Name: "old"}, Float: 3}
	if err := strictjson.Unmarshal([]byte(good), &got, strictjson.Limits{}); err != nil {
		t.Fatal(err)
	}
	if got.Maybe != nil || got.Float != 0 {
		t.Fatalf("the old value shines through: %+v", got)
	}
}

func TestUnsupportedTypes(t *testing.T) {
	for _, v := range []any{
		new(struct {
			A int `json:"a,string"`
		}),
		reflect.New(reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"1"`},
			{Name: "B", Type: reflect.TypeFor[string](), Tag: `json:"1"`},
		})).Interface(),
		new(map[int]string),
		doc{},
		(*doc)(nil),
		nil,
	} {
		if err := strictjson.Unmarshal([]byte(`{"1":"x"}`), v, strictjson.Limits{}); err == nil {
			t.Errorf("%T accepted", v)
		}
	}
}

func TestMarshal(t *testing.T) {
	got, err := strictjson.Marshal(map[string]string{"b": "<&>", "a": "\u202e\ufffd"})
	if err != nil || string(got) != "{\"a\":\"\u202e\ufffd\",\"b\":\"<&>\"}" {
		t.Fatalf("%s %v", got, err)
	}
	loop := map[string]any{}
	loop["x"] = loop
	for _, v := range []any{"\xff", inner{"\xff"}, []inner{{"\xff"}}, map[string]int{"\xff": 1}, &inner{"\xff"}, map[string]any{"a": "\xff"}, loop} {
		if _, err := strictjson.Marshal(v); err == nil {
			t.Error("accepted text that is not UTF-8, or a loop")
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"kind":"\ud83d\ude00","count":1e3}`))
	f.Add([]byte(`{"a":[1,{"b":null}],"A":"\\"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		if err := strictjson.Unmarshal(data, &v, strictjson.Limits{}); err == nil {
			if !json.Valid(data) {
				t.Fatal("accepted what the standard library refuses")
			}
			out, err := strictjson.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var again any
			if err := strictjson.Unmarshal(out, &again, strictjson.Limits{Size: 8 << 20}); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(v, again) {
				t.Fatalf("%v became %v", v, again)
			}
		}
		var d doc
		if err := strictjson.Unmarshal(data, &d, strictjson.Limits{}); err == nil {
			out, err := strictjson.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			var again doc
			if err := strictjson.Unmarshal(out, &again, strictjson.Limits{Size: 8 << 20}); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
		}
	})
}

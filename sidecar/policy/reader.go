package policy

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxProblems bounds a report; a file with more wrong is not read further.
const maxProblems = 100

// reader walks a document and gathers what is wrong with it.
type reader struct {
	problems []Problem
	lines    map[string]int
}

func (r *reader) refuse(n *yaml.Node, at, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{Line: n.Line, Field: at, Message: fmt.Sprintf(format, args...)})
	}
}

// decode reads one node; at is the node's field for messages.
type decode func(n *yaml.Node, at string)

// field is one key of a mapping.
type field struct {
	name   string
	need   presence
	decode decode
}

type presence bool

const (
	optional presence = false
	required presence = true
)

// plain refuses what no node of a policy may have.
func (r *reader) plain(n *yaml.Node, at string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		r.refuse(n, at, "aliases (*%s) are not read; write the value out", n.Value)
	case n.Anchor != "":
		r.refuse(n, at, "anchors (&%s) are not read; write the value out", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		r.refuse(n, at, "tags (%s) are not read", n.Tag)
	default:
		return true
	}
	return false
}

// object reads a mapping with exactly the given fields.
func (r *reader) object(n *yaml.Node, at string, fields ...field) {
	seen := map[string]bool{}
	r.pairs(n, at, func(key, value *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if i < 0 {
			known := make([]string, len(fields))
			for j, f := range fields {
				known[j] = f.name
			}
			r.refuse(key, at, "unknown field %s; known here: %s", abbreviate(key.Value), strings.Join(known, ", "))
			return
		}
		seen[key.Value] = true
		fields[i].decode(value, join(at, key.Value))
	})
	for _, f := range fields {
		if f.need == required && !seen[f.name] && n.Kind == yaml.MappingNode {
			r.refuse(n, join(at, f.name), "is missing")
		}
	}
}

// pairs calls each with a mapping's keys and values, in order.
func (r *reader) pairs(n *yaml.Node, at string, each func(key, value *yaml.Node)) {
	if !r.plain(n, at) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.refuse(n, at, "is %s; a mapping is needed", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.refuse(key, at, "a key must be a name")
			continue
		case key.Value == "<<":
			r.refuse(key, at, "merge keys (<<) are not read; write the fields out")
			continue
		case !r.plain(key, at):
			continue
		}
		if line, ok := seen[key.Value]; ok {
			r.refuse(key, join(at, key.Value), "is given twice, first in line %d", line)
			continue
		}
		seen[key.Value] = key.Line
		each(key, value)
	}
}

// list reads a sequence of at least least and at most most items.
func (r *reader) list(n *yaml.Node, at string, least, most int, item decode) {
	if !r.plain(n, at) {
		return
	}
	switch {
	case n.Kind != yaml.SequenceNode:
		r.refuse(n, at, "is %s; a list is needed", describe(n))
	case len(n.Content) < least:
		r.refuse(n, at, "holds %d items, at least %d are needed", len(n.Content), least)
	case len(n.Content) > most:
		r.refuse(n, at, "holds %d items, at most %d are read", len(n.Content), most)
	default:
		for i, c := range n.Content {
			item(c, fmt.Sprintf("%s[%d]", at, i))
		}
	}
}

// join appends a key to a field's name; a key that is not a plain name is quoted.
func join(at, name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if name == "" || len(name) > 64 || strings.Trim(name, plain) != "" {
		name = abbreviate(name)
	}
	if at == "" {
		return name
	}
	return at + "." + name
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
		return "empty"
	}
	return abbreviate(n.Value)
}

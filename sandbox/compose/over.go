package compose

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/proctor-project/proctor/sandbox/chain"
)

// WriteOver writes what makes the file of one session that of another: an
// override, given to compose after the other file. Compose adds an override to what
// is there and takes nothing away, so a session without something that the base has
// is refused, and would not be the one that was asked for.
func WriteOver(w io.Writer, base, s chain.Session) error {
	was, err := parsed(base)
	if err != nil {
		return err
	}
	is, err := parsed(s)
	if err != nil {
		return err
	}
	over, err := difference(was, is)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, overHead); err != nil {
		return err
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(over), e.Close())
}

const overHead = `# Written by proctor render compose --over: change the policy, not this file.
# It is given after the file that it is an override of, each time:
# docker compose -f compose.yaml -f THIS.yaml run --rm seal

`

func parsed(s chain.Session) (*yaml.Node, error) {
	var text bytes.Buffer
	if err := Write(&text, s); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text.Bytes(), &doc); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

// difference goes through the file's sections, and through each service's keys.
func difference(was, is *yaml.Node) (*yaml.Node, error) {
	over := &yaml.Node{Kind: yaml.MappingNode}
	services := &yaml.Node{Kind: yaml.MappingNode}
	fresh := false
	errs := without("services", value(was, "services"), value(is, "services"))
	for key, now := range pairs(value(is, "services")) {
		before := value(value(was, "services"), key.Value)
		if before == nil {
			fresh = true
			put(services, key, now)
			continue
		}
		changed, err := service(key.Value, before, now)
		if errs = append(errs, err); len(changed.Content) > 0 {
			put(services, &yaml.Node{Kind: yaml.ScalarNode, Value: key.Value}, changed)
		}
	}
	if fresh { // a service that is new refers to it
		put(over, &yaml.Node{Kind: yaml.ScalarNode, Value: "x-step"}, value(is, "x-step"))
	}
	put(over, &yaml.Node{Kind: yaml.ScalarNode, Value: "services"}, services)
	for _, section := range []string{"volumes", "networks"} {
		added := &yaml.Node{Kind: yaml.MappingNode}
		for key, now := range pairs(value(is, section)) {
			if value(value(was, section), key.Value) == nil {
				put(added, key, now)
			}
		}
		errs = append(errs, without(section, value(was, section), value(is, section))...)
		if len(added.Content) > 0 {
			put(over, &yaml.Node{Kind: yaml.ScalarNode, Value: section}, added)
		}
	}
	return over, errors.Join(errs...)
}

// service is what differs of one. Compose replaces a line and a word, and adds to
// mappings and to lists whose elements have names.
func service(name string, was, is *yaml.Node) (*yaml.Node, error) {
	changed := &yaml.Node{Kind: yaml.MappingNode}
	var errs []error
	for key := range pairs(was) {
		switch {
		case value(is, key.Value) != nil:
		case key.Value == "network_mode" && value(is, "networks") != nil: // the two exclude each other
			put(changed, key, &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle})
		default:
			errs = append(errs, fmt.Errorf("%s has %s, and an override takes nothing away", name, key.Value))
		}
	}
	for key, now := range pairs(is) {
		before := value(was, key.Value)
		if before != nil && same(before, now) {
			continue
		}
		put(changed, key, now)
		if before == nil {
			continue
		}
		what := name + " " + key.Value
		switch {
		case now.Kind == yaml.MappingNode:
			errs = append(errs, without(what, before, now)...)
		case key.Value == "volumes" || key.Value == "environment":
			for _, element := range names(before) {
				if !slices.Contains(names(now), element) {
					errs = append(errs, fmt.Errorf("%s has %s, and an override takes nothing away", what, element))
				}
			}
		case now.Kind == yaml.SequenceNode && key.Value != "command" && key.Value != "entrypoint":
			errs = append(errs, fmt.Errorf("%s differs, and an override would only add to it", what))
		}
	}
	return changed, errors.Join(errs...)
}

// without are the keys that only the first has.
func without(what string, was, is *yaml.Node) []error {
	var errs []error
	for key := range pairs(was) {
		if value(is, key.Value) == nil {
			errs = append(errs, fmt.Errorf("%s has %s, and an override takes nothing away", what, key.Value))
		}
	}
	return errs
}

// names are what compose tells elements of a list by: targets of mounts, and names
// of variables.
func names(list *yaml.Node) []string {
	var all []string
	for _, element := range list.Content {
		if target := value(element, "target"); target != nil {
			all = append(all, target.Value)
			continue
		}
		name, _, _ := bytes.Cut([]byte(element.Value), []byte("="))
		all = append(all, string(name))
	}
	return all
}

func pairs(mapping *yaml.Node) func(func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		if mapping == nil {
			return
		}
		for n := 0; n+1 < len(mapping.Content); n += 2 {
			if !yield(mapping.Content[n], mapping.Content[n+1]) {
				return
			}
		}
	}
}

func value(mapping *yaml.Node, key string) *yaml.Node {
	for k, v := range pairs(mapping) {
		if k.Value == key {
			return v
		}
	}
	return nil
}

func put(mapping, key, value *yaml.Node) { mapping.Content = append(mapping.Content, key, value) }

func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, same)
}

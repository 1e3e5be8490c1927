package product

import (
	"fmt"
	"slices"
)

// report names the files that have a name outside the tree.
func (t *linkTable) report(sink Sink) error {
	var facts []Fact
	for _, l := range t.seen {
		if l.got < l.want {
			facts = append(facts, Fact{
				Path: l.first, Kind: FactHardLink,
				Detail: fmt.Sprintf("%d names, %d of them in the tree", l.want, l.got),
			})
		}
	}
	slices.SortFunc(facts, func(a, b Fact) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	if t.over {
		facts = append(facts, limitFact("", "files with several names"))
	}
	for _, f := range facts {
		if err := sink.Fact(f); err != nil {
			return err
		}
	}
	return nil
}

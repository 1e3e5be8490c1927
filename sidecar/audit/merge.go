package audit

import (
	"errors"
	"fmt"
	"io"

	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/product"
)

// record is an entry with the facts about it.
type record struct {
	product.Entry
	facts []product.Fact
}

// cursor reads a stream record by record. Facts that do not follow the entry
// that they are about are kept apart until the end.
type cursor struct {
	dec   *product.Decoder
	tee   product.Sink
	ahead *product.Entry
	loose []product.Fact
	eof   bool
	// indexes are the digests of git indexes by path.
	indexes map[string][32]byte
}

// maxLoose bounds the facts that are kept for the end of a stream, and
// maxRecord those of one entry.
const (
	maxLoose  = 50_000
	maxRecord = packages.MaxLockEntries + 4096
)

var errFacts = errors.New("more facts than an extractor reports")

// next returns the next record, or nil at the end.
func (c *cursor) next() (*record, error) {
	if c.ahead == nil && !c.eof {
		if err := c.advance(nil); err != nil {
			return nil, err
		}
	}
	if c.eof && c.ahead == nil {
		return nil, nil
	}
	r := &record{Entry: *c.ahead}
	c.ahead = nil
	return r, c.advance(r)
}

// advance reads up to the next entry and gives the facts on the way to r.
func (c *cursor) advance(r *record) error {
	for {
		item, err := c.dec.Next()
		if errors.Is(err, io.EOF) {
			c.eof = true
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case item.Entry != nil:
			if c.tee != nil {
				if err := c.tee.Entry(*item.Entry); err != nil {
					return fmt.Errorf("copy entry: %w", err)
				}
			}
			c.ahead = item.Entry
			return nil
		case item.Fact == nil:
			continue
		case item.Fact.Kind == product.FactGitIndex:
			if c.indexes[item.Fact.Path] = item.Fact.SHA256; len(c.indexes) > maxLoose {
				return errFacts
			}
		case r != nil && item.Fact.Path == r.Path && !atEnd(item.Fact.Kind):
			if r.facts = append(r.facts, *item.Fact); len(r.facts) > maxRecord {
				return errFacts
			}
		default:
			if c.loose = append(c.loose, *item.Fact); len(c.loose) > maxLoose {
				return errFacts
			}
		}
		if c.tee != nil {
			if err := c.tee.Fact(*item.Fact); err != nil {
				return fmt.Errorf("copy fact: %w", err)
			}
		}
	}
}

// atEnd reports whether facts of the kind stand at the end of a stream, also
// when they are about the last entry.
func atEnd(k product.FactKind) bool {
	switch k {
	case product.FactGitProgram, product.FactGitInclude, product.FactTarget, product.FactRefers, product.FactHardLink:
		return true
	}
	return false
}

// merge calls f with each path's record in the baseline and in the final tree;
// one of them is nil for a path that only the other has.
func merge(base, final *cursor, f func(b, n *record)) error {
	b, err := base.next()
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	n, err := final.next()
	if err != nil {
		return fmt.Errorf("final tree: %w", err)
	}
	for b != nil || n != nil {
		takeB := n == nil || b != nil && b.Path <= n.Path
		takeN := b == nil || n != nil && n.Path <= b.Path
		switch {
		case takeB && takeN:
			f(b, n)
		case takeB:
			f(b, nil)
		default:
			f(nil, n)
		}
		if takeB {
			if b, err = base.next(); err != nil {
				return fmt.Errorf("baseline: %w", err)
			}
		}
		if takeN {
			if n, err = final.next(); err != nil {
				return fmt.Errorf("final tree: %w", err)
			}
		}
	}
	return nil
}

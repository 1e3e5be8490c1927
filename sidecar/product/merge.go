package product

import (
	"errors"
	"fmt"
	"io"
)

// mergeManifests calls f for every path of either manifest, in order.
func mergeManifests(base, sealed *ManifestReader, f func(b, s *Entry) error) error {
	b, err := nextEntry(base)
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	s, err := nextEntry(sealed)
	if err != nil {
		return fmt.Errorf("sealed: %w", err)
	}
	for b != nil || s != nil {
		takeB := s == nil || b != nil && b.Path <= s.Path
		takeS := b == nil || s != nil && s.Path <= b.Path
		argB, argS := b, s
		if !takeB {
			argB = nil
		}
		if !takeS {
			argS = nil
		}
		if err := f(argB, argS); err != nil {
			return err
		}
		if takeB {
			if b, err = nextEntry(base); err != nil {
				return fmt.Errorf("baseline: %w", err)
			}
		}
		if takeS {
			if s, err = nextEntry(sealed); err != nil {
				return fmt.Errorf("sealed: %w", err)
			}
		}
	}
	return nil
}

func nextEntry(m *ManifestReader) (*Entry, error) {
	e, err := m.Next()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return &e, err
}

package hosts

import (
	"errors"
	"strings"
)

// Pattern is a target, or every host below a name. Only ParsePattern makes one.
type Pattern struct {
	Target
	below bool
}

// ParsePattern reads a target, or one whose host begins with `*.`: that means
// every host below the name, at any depth, and not the name itself.
func ParsePattern(s string) (Pattern, error) {
	rest, below := strings.CutPrefix(s, "*.")
	t, err := Parse(rest)
	return pattern(t, below, err)
}

// NewPattern is ParsePattern for a host and a port.
func NewPattern(host string, port int) (Pattern, error) {
	rest, below := strings.CutPrefix(host, "*.")
	t, err := New(rest, port)
	return pattern(t, below, err)
}

func pattern(t Target, below bool, err error) (Pattern, error) {
	switch {
	case err != nil:
		return Pattern{}, err
	case below && t.addr.IsValid():
		return Pattern{}, errors.New("nothing lies below an address")
	case below && !strings.Contains(t.host, "."):
		return Pattern{}, errors.New("would list every host of a top-level domain")
	}
	return Pattern{Target: t, below: below}, nil
}

// Equal reports whether two patterns list the same.
func (p Pattern) Equal(q Pattern) bool { return p == q }

// Host begins with `*.` for every host below a name.
func (p Pattern) Host() string {
	if p.below {
		return "*." + p.Target.host
	}
	return p.Target.host
}

// String is what ParsePattern reads.
func (p Pattern) String() string {
	if p.below {
		return "*." + p.Target.String()
	}
	return p.Target.String()
}

// Matches reports whether the pattern lists the target. An address is listed by
// itself only.
func (p Pattern) Matches(t Target) bool {
	if p.port != t.port {
		return false
	}
	if p.below {
		return !t.addr.IsValid() && strings.HasSuffix(t.host, "."+p.Target.host)
	}
	return p.Target.host == t.host
}

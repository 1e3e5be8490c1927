package policy

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// text returns a string. A bare scalar that some YAML reader takes for anything
// but a string must be in quotes.
func (r *reader) text(n *yaml.Node, at string) (string, bool) {
	if !r.plain(n, at) {
		return "", false
	}
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" && n.Style&quoted == 0 && n.Value == "":
		r.refuse(n, at, "is %s; a string is needed", describe(n))
	case n.Style&quoted == 0 && (n.ShortTag() != "!!str" || ambiguous(n.Value)):
		r.refuse(n, at, "is %s, which not every YAML reader takes for a string; write it in quotes", n.Value)
	case strings.IndexByte(n.Value, 0) >= 0 || !utf8.ValidString(n.Value):
		r.refuse(n, at, "holds a NUL byte or invalid UTF-8")
	default:
		return n.Value, true
	}
	return "", false
}

// ambiguous reports whether YAML 1.1 reads the bare scalar as something other
// than a string: its booleans, its octal, underscored and base-60 numbers.
func ambiguous(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "=", ".nan":
		return true
	}
	return regexp.MustCompile(`^[-+]?(0o?[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|0[xXbB][0-9a-fA-F_]+|\.?inf)$`).
		MatchString(strings.ToLower(s))
}

// value returns a decode that parses a string into dst.
func value[T any](r *reader, dst *T, parse func(string) (T, error)) decode {
	return func(n *yaml.Node, at string) {
		s, ok := r.text(n, at)
		if !ok {
			return
		}
		v, err := parse(s)
		if err != nil {
			r.refuse(n, at, "%s %s", abbreviate(s), err)
			return
		}
		*dst = v
		r.lines[at] = n.Line
	}
}

// abbreviate quotes a refused value, cut to what a person compares.
func abbreviate(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.QuoteToASCII(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}

// word returns a parser of one of a few words.
func word[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		var known []string
		for _, w := range words {
			if string(w) == s {
				return w, nil
			}
			known = append(known, string(w))
		}
		return "", fmt.Errorf("is not one of: %s", strings.Join(known, ", "))
	}
}

// named returns a parser of a word that stands for a value.
func named[T fmt.Stringer](values ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		var known []string
		for _, v := range values {
			if v.String() == s {
				return v, nil
			}
			known = append(known, v.String())
		}
		var none T
		return none, fmt.Errorf("is not one of: %s", strings.Join(known, ", "))
	}
}

// integer reads a plain decimal number in [lo, hi].
func integer[T int | int64 | uint64](r *reader, dst *T, lo, hi int64) decode {
	return func(n *yaml.Node, at string) {
		if s, ok := r.number(n, at, `^(0|[1-9][0-9]{0,17})$`, "a whole number without sign"); ok {
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil || v < lo || v > hi {
				r.refuse(n, at, "%s is not from %d to %d", s, lo, hi)
				return
			}
			*dst = T(v)
		}
	}
}

// cores reads a number of cores as thousandths.
func cores(r *reader, dst *int64) decode {
	const lo, hi = 0.01, 1024
	return func(n *yaml.Node, at string) {
		if s, ok := r.number(n, at, `^(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?$`, "a number of cores like 2 or 0.5"); ok {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil || v < lo || v > hi {
				r.refuse(n, at, "%s is not from %g to %d", s, lo, hi)
				return
			}
			*dst = int64(math.Round(v * 1000))
		}
	}
}

func (r *reader) number(n *yaml.Node, at, pattern, what string) (string, bool) {
	if !r.plain(n, at) {
		return "", false
	}
	if n.Kind != yaml.ScalarNode || n.Style&quoted != 0 || !regexp.MustCompile(pattern).MatchString(n.Value) {
		r.refuse(n, at, "%s is not %s", describe(n), what)
		return "", false
	}
	return n.Value, true
}

// boolean reads true or false, in exactly these words.
func boolean(r *reader, dst *bool) decode {
	return func(n *yaml.Node, at string) {
		if s, ok := r.number(n, at, `^(true|false)$`, "true or false"); ok {
			*dst = s == "true"
		}
	}
}

// size returns a parser of sizes like 64MiB, in [lo, hi] bytes.
func size(lo, hi int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		m := regexp.MustCompile(`^([1-9][0-9]{0,5})(B|KiB|MiB|GiB|TiB)$`).FindStringSubmatch(s)
		if m == nil {
			return 0, fmt.Errorf("is not a size like 64MiB (units: B, KiB, MiB, GiB, TiB)")
		}
		v, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("is not a size: %w", err)
		}
		for range strings.Index("BKMGT", m[2][:1]) {
			v <<= 10 // 10^6 TiB is under 2^60
		}
		if v < lo || v > hi {
			return 0, fmt.Errorf("is not from %s to %s", writeSize(lo), writeSize(hi))
		}
		return v, nil
	}
}

// writeSize writes a size in the largest unit that needs no fraction.
func writeSize(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for i < len(units)-1 && n%1024 == 0 {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// duration returns a parser of durations like 90s or 1h30m, in [lo, hi].
func duration(lo, hi time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		if !regexp.MustCompile(`^[0-9]{1,6}(h([0-9]{1,6}m)?([0-9]{1,6}s)?|m([0-9]{1,6}s)?|s)$`).MatchString(s) {
			return 0, fmt.Errorf("is not a duration like 90s, 10m or 1h30m")
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < lo || d > hi {
			return 0, fmt.Errorf("is not from %s to %s", writeDuration(lo), writeDuration(hi))
		}
		return d, nil
	}
}

// writeDuration writes whole seconds without the parts that are zero.
func writeDuration(d time.Duration) string {
	s := d.String()
	if whole, ok := strings.CutSuffix(s, "m0s"); ok {
		s = whole + "m"
	}
	if whole, ok := strings.CutSuffix(s, "h0m"); ok {
		s = whole + "h"
	}
	return s
}

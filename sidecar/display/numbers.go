package display

import (
	"fmt"
	"strconv"
	"time"
)

// Duration writes how long something took: `0.1 s`, `4 m 12 s`, `3 h 5 m`,
// `28 d`. A negative duration is shown as none.
func Duration(d time.Duration) string {
	d = max(d, 0)
	tenths := d.Round(100 * time.Millisecond)
	whole := d.Round(time.Second)
	switch {
	case tenths < time.Minute:
		return fmt.Sprintf("%.1f s", tenths.Seconds())
	case whole < time.Hour:
		return pair(int(whole/time.Minute), "m", int(whole%time.Minute/time.Second), "s")
	case whole < 24*time.Hour:
		m := int(whole / time.Minute)
		return pair(m/60, "h", m%60, "m")
	default:
		return Count(int64(whole/(24*time.Hour))) + " d"
	}
}

func pair(a int, unitA string, b int, unitB string) string {
	s := strconv.Itoa(a) + " " + unitA
	if b != 0 {
		s += " " + strconv.Itoa(b) + " " + unitB
	}
	return s
}

// Size writes a number of bytes: `214 B`, `1.5 KiB`, `2.0 GiB`. A negative
// size is shown as it is, in bytes.
func Size(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v := float64(n)
	units := [...]string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := -1
	// 1023.95 and more would be rounded up to 1024.0.
	for v >= 1023.95 && i < len(units)-1 {
		v /= 1024
		i++
	}
	if i < 0 {
		v, i = v/1024, 0
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}

// Count writes a number with a comma between thousands: `1,204`.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural writes a counted thing: `1 waiver`, `1,204 files`. The many form is
// the one form with an s.
func Plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + one + "s"
}

// Age writes how long ago t was, in whole days and weeks of 24 and 168 hours:
// `today`, `1 day ago`, `5 weeks ago`. A later t is `in the future`.
func Age(t, now time.Time) string {
	const day = 24 * time.Hour
	d := now.Sub(t)
	switch {
	case d < 0:
		return "in the future"
	case d < day:
		return "today"
	case d < 14*day:
		return Plural(int64(d/day), "day") + " ago"
	default:
		return Plural(int64(d/(7*day)), "week") + " ago"
	}
}

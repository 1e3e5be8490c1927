package display

import (
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for _, c := range []struct{ got, want string }{
		{Duration(-time.Second), "0.0 s"},
		{Duration(0), "0.0 s"},
		{Duration(120 * time.Millisecond), "0.1 s"},
		{Duration(2 * time.Second), "2.0 s"},
		{Duration(59*time.Second + 940*time.Millisecond), "59.9 s"},
		{Duration(59*time.Second + 960*time.Millisecond), "1 m"},
		{Duration(4*time.Minute + 12*time.Second), "4 m 12 s"},
		{Duration(3 * time.Minute), "3 m"},
		{Duration(time.Hour - time.Millisecond), "1 h"},
		{Duration(3*time.Hour + 5*time.Minute), "3 h 5 m"},
		{Duration(28*day + time.Hour), "28 d"},
		{Size(0), "0 B"},
		{Size(214), "214 B"},
		{Size(1023), "1023 B"},
		{Size(1024), "1.0 KiB"},
		{Size(1536), "1.5 KiB"},
		{Size(1<<20 - 1), "1.0 MiB"},
		{Size(2 << 30), "2.0 GiB"},
		{Size(1<<63 - 1), "8.0 EiB"},
		{Size(-1), "-1 B"},
		{Count(0), "0"},
		{Count(999), "999"},
		{Count(1204), "1,204"},
		{Count(1234567), "1,234,567"},
		{Count(-123), "-123"},
		{Count(-1204), "-1,204"},
		{Plural(0, "file"), "0 files"},
		{Plural(1, "file"), "1 file"},
		{Plural(1204, "file"), "1,204 files"},
		{Age(now.Add(-time.Hour), now), "today"},
		{Age(now.Add(-day), now), "1 day ago"},
		{Age(now.Add(-2*day), now), "2 days ago"},
		{Age(now.Add(-36*day), now), "5 weeks ago"},
		{Age(now.Add(time.Hour), now), "in the future"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

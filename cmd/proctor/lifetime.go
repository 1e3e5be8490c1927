package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lifetime is when something ends that was given as a time from now, or as a
// date, whose whole day still counts. "" is never.
func lifetime(text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	end, err := endOf(text, now)
	if err == nil && !end.After(now) {
		err = fmt.Errorf("%s is over", text)
	}
	if err != nil {
		return nil, &usageError{fmt.Errorf("--expires: %w", err)}
	}
	end = end.UTC()
	return &end, nil
}

func endOf(text string, now time.Time) (time.Time, error) {
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return day.AddDate(0, 0, 1), nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return now.AddDate(0, 0, n), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a time (90m, 12h, 30d) nor a date (2026-12-31)", text)
}

package sandbox

import "testing"

func TestRuncFloor(t *testing.T) {
	for version, want := range map[string]string{
		"1.0.0-rc93":   "runc 1.0.0-rc93 is older than 1.2.8",
		"1.1.11":       "runc 1.1.11 is older than 1.2.8",
		"1.1.15":       "runc 1.1.15 is older than 1.2.8",
		"1.2.7":        "runc 1.2.7 is older than 1.2.8",
		"1.2.8":        "ok",
		"1.2.9":        "ok",
		"1.3.0":        "runc 1.3.0 is older than 1.3.3",
		"1.3.2":        "runc 1.3.2 is older than 1.3.3",
		"1.3.3":        "ok",
		"1.3.3-rc.1":   "runc 1.3.3-rc.1 is older than 1.3.3",
		"1.4.0-rc.1":   "runc 1.4.0-rc.1 is older than 1.4.0-rc.3",
		"1.4.0-rc.2":   "runc 1.4.0-rc.2 is older than 1.4.0-rc.3",
		"1.4.0-rc.3":   "ok",
		"1.4.0":        "ok",
		"1.5.3":        "ok",
		"2.0.0":        "ok",
		"0.1.1":        "runc 0.1.1 is older than 1.2.8",
		"1.1.5+ds1":    "runc 1.1.5+ds1: distribution build, unknown",
		"1.3.3-0~22.1": "runc 1.3.3-0~22.1: distribution build, unknown",
		"":             "runc : distribution build, unknown",
		"v1.5.3":       "runc v1.5.3: distribution build, unknown",
		"1.5.3\n":      "runc 1.5.3\n: distribution build, unknown",
		"99999.0.0":    "runc 99999.0.0: distribution build, unknown",
		"1.2.8-dev":    "runc 1.2.8-dev: distribution build, unknown",
		"1.2.8-rc.1.1": "runc 1.2.8-rc.1.1: distribution build, unknown",
	} {
		if got := RuncFloor(version); got != want {
			t.Errorf("RuncFloor(%q) = %q, want %q", version, got, want)
		}
	}
}

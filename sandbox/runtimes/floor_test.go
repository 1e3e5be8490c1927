package runtimes

import "testing"

func TestRunscFloor(t *testing.T) {
	for version, want := range map[string]string{
		"release-20260901.0":                 "ok",
		"v0.0.0-20260905035102-160fafc42237": "ok",
		"release-20221219.0":                 "runsc release-20221219.0 is older than release-20240101",
		"v0.0.0-20221219208-x":               "runsc v0.0.0-20221219208-x is older than release-20240101",
		"0.0~20221219.0-1":                   "runsc 0.0~20221219.0-1: distribution build, unknown",
		"release-new":                        "runsc release-new: distribution build, unknown",
		"":                                   "runsc : distribution build, unknown",
	} {
		if got := runscFloor(version); got != want {
			t.Errorf("runscFloor(%q) = %q, want %q", version, got, want)
		}
	}
}

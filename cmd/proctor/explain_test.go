package main

import "testing"

func TestSubjectOf(t *testing.T) {
	for word, want := range map[string]subject{
		"left-pad": aPackage, "left-pad@1.3.0": aPackage, "@s/name": aPackage, "@s/name@1.0.0": aPackage, "example.com": aPackage, "": aPackage,
		"/home/me/.envrc": aPath, "./x": aPath, "../x": aPath, ".": aPath, "..": aPath, "sub/x": aPath,
		"example.com:443": aHost, "127.0.0.1:80": aHost, "*.example.com:443": aHost,
	} {
		if got := subjectOf(word); got != want {
			t.Errorf("%q is %d, want %d", word, got, want)
		}
	}
}

package main

import (
	"fmt"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/packages"
)

// packageOffers are the commands that can make a package's finding pass.
func packageOffers(p *audit.Package) []offer {
	s, err := packages.ParseSpec(p.Name + "@" + p.Version)
	if err != nil || s.Version == "" {
		return nil
	}
	r := packages.RemedyFor(packages.Decision{Reason: p.Reason}, s.String())
	if len(r.Command) == 0 {
		return nil
	}
	line := display.Command(r.Command...)
	if line == "" {
		return nil
	}
	return []offer{{"remedy", line}}
}

// packageAdvice is what else can be done about it.
func packageAdvice(p *audit.Package) string {
	return packages.RemedyFor(packages.Decision{Reason: p.Reason, Err: &packages.Error{Reason: p.Reason}}, "").Advice
}

// packagePlace is where a finding's package is named.
func packagePlace(f audit.Finding) string {
	at := display.Escape(f.RawPath())
	if f.Package.Line > 0 {
		at += fmt.Sprintf(":%d", f.Package.Line)
	}
	return at
}

package seal_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const treeA, treeB = "aa", "bb"

func check(outcome string, exit, expect int) seal.Check {
	return seal.Passed(wire.Process{Name: "unit", Outcome: outcome, Exit: exit, Expect: expect, Reported: "engine"}, "own-process")
}

// good is what gives PASS; every row of the table spoils one thing in it.
func good() seal.Known {
	return seal.Known{Checks: []seal.Check{check("exited", 0, 0), check("exited", 3, 3)}, BeforeChecks: treeA, Final: treeA, ReadInFull: true, Observer: "stdin"}
}

func TestDecide(t *testing.T) {
	one := func(c seal.Check) func(*seal.Known) { return func(k *seal.Known) { k.Checks[0] = c } }
	for name, c := range map[string]struct {
		spoil func(k *seal.Known)
		want  seal.Verdict
		says  string // in the first reason
	}{
		"everything well":                {func(*seal.Known) {}, seal.Pass, ""},
		"no checks":                      {func(k *seal.Known) { k.Checks, k.BeforeChecks = nil, "" }, seal.Pass, ""},
		"one finding":                    {func(k *seal.Known) { k.Findings = 1 }, seal.Fail, "1 finding is not approved"},
		"two findings":                   {func(k *seal.Known) { k.Findings = 2 }, seal.Fail, "2 findings are not approved"},
		"a review that fails":            {func(k *seal.Known) { k.Reviews = 1 }, seal.Fail, "1 review"},
		"check, another status":          {one(check("exited", 1, 0)), seal.Fail, "exit 1"},
		"check, 0 where 1 was expected":  {one(check("exited", 0, 1)), seal.Fail, "exit 0"},
		"check by signal":                {one(check("signalled", 137, 0)), seal.Fail, "signalled"},
		"check by signal, as expected":   {one(check("signalled", 137, 137)), seal.Fail, "signalled"},
		"C4 check oom, as expected":      {one(check("oom", 137, 137)), seal.Fail, "oom"},
		"C4 check overflow, as expected": {one(check("overflow", 0, 0)), seal.Fail, "overflow"},
		"check timeout, as expected":     {one(check("timeout", 137, 137)), seal.Fail, "timeout"},
		"check start-failed":             {one(check("start-failed", 0, 0)), seal.Indeterminate, "could not be run"},
		"check lost":                     {one(check("lost", 0, 0)), seal.Indeterminate, "could not be run"},
		"check stopped":                  {one(check("stopped", 0, 0)), seal.Indeterminate, "could not be run"},
		"check of an unknown outcome":    {one(check("fine", 0, 0)), seal.Indeterminate, "could not be run"},
		"check of no outcome":            {one(check("", 0, 0)), seal.Indeterminate, "could not be run"},
		"check that claims to have passed": {func(k *seal.Known) {
			k.Checks[0] = check("start-failed", 0, 0)
			k.Checks[0].Passed = true
		}, seal.Indeterminate, "could not be run"},
		"failed check that claims to have passed": {func(k *seal.Known) {
			k.Checks[0] = check("oom", 0, 0)
			k.Checks[0].Passed = true
		}, seal.Fail, "oom"},
		"check reported from inside":    {func(k *seal.Known) { k.Checks[0].Reported = "inside" }, seal.Indeterminate, "from inside"},
		"check reported by nobody":      {func(k *seal.Known) { k.Checks[0].Reported = "" }, seal.Indeterminate, "from inside"},
		"product changed by the checks": {func(k *seal.Known) { k.BeforeChecks = treeB }, seal.Indeterminate, "changed while the checks ran"},
		"product before checks unknown": {func(k *seal.Known) { k.BeforeChecks = "" }, seal.Indeterminate, "changed while the checks ran"},
		"no digest at all, with checks": {func(k *seal.Known) { k.BeforeChecks, k.Final = "", "" }, seal.Indeterminate, ""},
		"no digest at all, no checks":   {func(k *seal.Known) { k.Checks, k.BeforeChecks, k.Final = nil, "", "" }, seal.Indeterminate, ""},
		"not read in full":              {func(k *seal.Known) { k.ReadInFull = false }, seal.Indeterminate, "not be read in full"},
		"a problem":                     {func(k *seal.Known) { k.Problems = []string{"container db can still write"} }, seal.Indeterminate, "container db"},
		"no observer":                   {func(k *seal.Known) { k.Observer = "" }, seal.Indeterminate, "no observer"},
		"chain without consent":         {func(k *seal.Known) { k.Observer = "chain" }, seal.Indeterminate, "from inside"},
		"chain with consent":            {func(k *seal.Known) { k.Observer, k.ChainAllowed = "chain", true }, seal.Pass, ""},
		"chain with consent, from inside": {func(k *seal.Known) {
			k.Observer, k.ChainAllowed, k.Checks[0].Reported = "chain", true, "inside"
		}, seal.Pass, ""},
		"consent is not for stdin":     {func(k *seal.Known) { k.ChainAllowed, k.Checks[0].Reported = true, "inside" }, seal.Indeterminate, "from inside"},
		"definite and not established": {func(k *seal.Known) { k.Findings, k.Problems = 1, []string{"the record was cut"} }, seal.Indeterminate, "the record was cut"},
	} {
		t.Run(name, func(t *testing.T) {
			k := good()
			c.spoil(&k)
			before := slices.Clone(k.Problems)
			v, reasons := seal.Decide(k)
			if v != c.want || (v == seal.Pass) != (len(reasons) == 0) || reasons == nil {
				t.Fatalf("%s %q, want %s", v, reasons, c.want)
			}
			if v != seal.Pass && !strings.Contains(reasons[0], c.says) {
				t.Fatalf("first reason %q, want %q in it", reasons[0], c.says)
			}
			if !slices.Equal(before, k.Problems) {
				t.Fatal("the input changed")
			}
		})
	}
	k := good()
	k.Findings, k.Problems = 1, []string{"x"}
	if _, reasons := seal.Decide(k); len(reasons) != 2 {
		t.Errorf("the definite failure is not told: %q", reasons)
	}
}

// TestPassedIsOnlyOneWay tries every outcome with every pair of codes.
func TestPassedIsOnlyOneWay(t *testing.T) {
	for _, outcome := range []string{"exited", "signalled", "oom", "timeout", "overflow", "stopped", "start-failed", "lost", "", "EXITED"} {
		for _, exit := range []int{0, 1, 137} {
			for _, expect := range []int{0, 1, 137} {
				c := check(outcome, exit, expect)
				if c.Passed != (outcome == "exited" && exit == expect) {
					t.Errorf("%q, exit %d, expected %d: %v", outcome, exit, expect, c.Passed)
				}
				k := good()
				k.Checks[0] = c
				if v, _ := seal.Decide(k); (v == seal.Pass) != c.Passed {
					t.Errorf("%q, exit %d, expected %d: %s", outcome, exit, expect, v)
				}
			}
		}
	}
}

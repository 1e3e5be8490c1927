package packages

import (
	"errors"
	"strings"
	"testing"
)

type rules struct{ deny, allow string }

func (r rules) PackageDenied(name string) (string, bool)  { return r.deny, r.deny == name }
func (r rules) PackageAllowed(name string) (string, bool) { return r.allow, r.allow == name }

type records struct {
	denied   string
	approved Identity
	err      error
	dies     bool
}

func (r records) Denied(_, name, version string) (bool, error) {
	if r.dies {
		panic("dies")
	}
	return r.denied == name+"@"+version, r.err
}

func (r records) Approved(id Identity) (bool, error) { return r.approved == id, r.err }

func testIdentity() Identity {
	return Identity{testRegistry, "a", "1.0.0", "sha512-" + strings.Repeat("A", 86) + "=="}
}

func TestDecideOrder(t *testing.T) {
	id := testIdentity()
	run := func(argv ...string) Question { return Question{Spec: "a@1.0.0", Identity: id, Argv: argv} }
	good := run("npx", "-y", "a@1.0.0")
	other := func(change func(*Identity)) records {
		approved := id
		change(&approved)
		return records{approved: approved}
	}
	tests := []struct {
		name string
		q    Question
		r    rules
		s    records
		want Reason
	}{
		{"approved", good, rules{}, records{approved: id}, ApprovedRecord},
		{"allowed by the policy", good, rules{allow: "a"}, records{}, AllowedByPolicy},
		{"nothing said", good, rules{}, records{}, NotApproved},
		{"the policy denies what is approved", good, rules{deny: "a", allow: "a"}, records{approved: id}, DeniedByPolicy},
		{"the policy denies what has no identity", Question{Spec: "a@^1", Err: errors.New("x")}, rules{deny: "a"}, records{}, NoIdentity},
		{"the policy denies by the spec's name", Question{Spec: "a@1.0.0", Err: errors.New("x")}, rules{deny: "a"}, records{}, DeniedByPolicy},
		{"no identity, approved", Question{Spec: "a@1.0.0", Identity: id, Err: errors.New("x"), Argv: good.Argv}, rules{allow: "a"}, records{approved: id}, NoIdentity},
		{"half an identity", Question{Spec: "a@1.0.0", Identity: Identity{Name: "a", Version: "1.0.0"}, Argv: good.Argv}, rules{allow: "a"}, records{}, NoIdentity},
		{"the zero question", Question{}, rules{}, records{}, NoIdentity},
		{"not pinned, approved and allowed", run("npx", "-y", "a"), rules{allow: "a"}, records{approved: id}, NotPinned},
		{"denied and approved", good, rules{allow: "a"}, records{approved: id, denied: "a@1.0.0"}, DeniedByRecord},
		{"not pinned before denied", run("npx", "b"), rules{}, records{denied: "a@1.0.0"}, NotPinned},
		{"records cannot be read", good, rules{allow: "a"}, records{approved: id, err: errors.New("x")}, Broken},
		{"records die", good, rules{allow: "a"}, records{approved: id, dies: true}, Broken},
		{"another version approved", good, rules{}, other(func(i *Identity) { i.Version = "1.0.1" }), NotApproved},
		{"another name approved", good, rules{}, other(func(i *Identity) { i.Name = "b" }), NotApproved},
		{"another registry approved", good, rules{}, other(func(i *Identity) { i.Registry += "/x" }), NotApproved},
		{"another integrity approved", good, rules{}, other(func(i *Identity) { i.Integrity = "sha512-" + strings.Repeat("B", 86) + "==" }), NotApproved},
		{"a fetch has no command", Question{Spec: "a@1.0.0", Identity: id, Use: Fetch}, rules{}, records{approved: id}, ApprovedRecord},
		{"a run without a command", Question{Spec: "a@1.0.0", Identity: id}, rules{}, records{approved: id}, NotPinned},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.q, tt.r, tt.s)
			allowed := tt.want == ApprovedRecord || tt.want == AllowedByPolicy
			if d.Reason != tt.want || d.Allowed != allowed {
				t.Fatalf("%+v, want %s", d, tt.want)
			}
			remedy := RemedyFor(d, "a@1.0.0")
			if (len(remedy.Command) == 0 && remedy.Advice == "") != allowed {
				t.Errorf("remedy %+v", remedy)
			}
		})
	}
	if d := Decide(good, nil, records{approved: id}); d.Allowed || d.Reason != Broken {
		t.Errorf("without rules: %+v", d)
	}
}

func TestPinned(t *testing.T) {
	const spec = "a@1.0.0"
	for _, argv := range [][]string{
		{"npx", spec}, {"npx", "-y", spec}, {"npx", "--yes", "-q", "--quiet", spec}, {"npx", "-y", spec, "--registry", "x", "-p", "evil"},
	} {
		if !Pinned(argv, spec) {
			t.Errorf("%q is not pinned", argv)
		}
	}
	for _, argv := range [][]string{
		nil,
		{},
		{"npx"},
		{"npx", "-y"},
		{"npx", "-y", "a"},
		{"npx", "-y", "a@latest"},
		{"npx", "-y", "other", spec},
		{"npx", "-p", "evil", "-y", spec},
		{"npx", "-p", spec, "evil"},
		{"npx", "--registry", "https://evil.example", spec},
		{"npx", "--registry=https://evil.example", spec},
		{"npx", "--", spec},
		{"npx", "-c", spec},
		{"npx", "--package=" + spec, "evil"},
		{"bash", spec},
		{"bash", "-c", "npx", spec},
		{"npx", spec + " "},
		{"npx", "-y=true", spec},
		{"npx", "", spec},
		{"/tmp/npx", spec},
		{"./npx", spec},
		{"NPX", spec},
		{"npm", "exec", spec},
		{spec},
	} {
		if Pinned(argv, spec) {
			t.Errorf("%q is pinned", argv)
		}
	}
}

func TestEveryReasonHasWordsAndARemedy(t *testing.T) {
	for r, words := range reasonWords() {
		if words == "" || r == "" {
			t.Errorf("%q: %q", r, words)
		}
		if r == ApprovedRecord || r == AllowedByPolicy {
			continue
		}
		remedy := RemedyFor(Decision{Reason: r, Err: &Error{Reason: r}}, "a@1.0.0")
		if len(remedy.Command) == 0 && remedy.Advice == "" {
			t.Errorf("%s has no remedy", r)
		}
	}
}

package packages

// Remedy is what a person can do about a refusal. Command is a command line to
// quote and show; nil where no command helps. Advice never holds text that
// somebody else chose.
type Remedy struct {
	Command []string
	Advice  string
}

// RemedyFor says what can be done about a refusal of the spec, a NAME@VERSION
// where it is known. There is none for what is allowed.
func RemedyFor(d Decision, spec string) Remedy {
	switch d.Reason {
	case ApprovedRecord, AllowedByPolicy:
		return Remedy{}
	case NotApproved:
		return Remedy{Command: []string{"proctor", "trust", "approve-package", spec}}
	case DeniedByRecord:
		return Remedy{
			Command: []string{"proctor", "trust", "list-packages"},
			Advice:  "the operator denied it; proctor trust revoke-package takes a denial back",
		}
	case DeniedByPolicy:
		return Remedy{Advice: "packages.deny in the policy covers its name, which no approval overrides"}
	case NotPinned:
		return Remedy{Advice: "run npx with exactly this version: npx -y NAME@VERSION"}
	case NoIdentity:
		if d.Err == nil {
			return Remedy{Advice: advices()[NoIdentity]}
		}
	}
	return RemedyOf(d.Err)
}

// RemedyOf says what can be done about an error of this package.
func RemedyOf(err error) Remedy {
	r := ReasonOf(err)
	if r == NoRegistry {
		return Remedy{
			Command: []string{"npm", "config", "get", "registry"},
			Advice:  "set packages.registry in the policy to your registry's address",
		}
	}
	return Remedy{Advice: advices()[r]}
}

func advices() map[Reason]string {
	const theRegistry = "nothing that is approved helps; look at what the registry has for this package"
	return map[Reason]string{
		BadName:        "write NAME@VERSION, with a name that a registry could have",
		BadVersion:     "write one exact version: NAME@1.2.3",
		Unreachable:    "see whether the host reaches the registry; proxies are not used",
		TimedOut:       "try again; the total deadline is not raised",
		Redirected:     "set packages.registry in the policy to the address that the registry redirects to",
		Unknown:        "see whether the name is right and the package is in packages.registry",
		NoIdentity:     "write one exact version: NAME@1.2.3",
		BadStatus:      "try again; credentials for the registry are not used",
		TooLarge:       "a document over its bound is not read; --integrity approves one version without it",
		Malformed:      theRegistry,
		DuplicateKey:   theRegistry,
		OtherName:      theRegistry,
		OtherEntry:     theRegistry,
		NoTag:          "write one exact version: NAME@1.2.3",
		InexactTag:     "write one exact version: NAME@1.2.3",
		NoVersion:      "see which versions the registry has",
		NoIntegrity:    "the registry names no sha512 for this version; --integrity approves it with one of yours",
		WeakIntegrity:  "the registry names no sha512 for this version; --integrity approves it with one of yours",
		NotRegistry:    "only packages of the registry can be approved; remove it, or approve the file that names it",
		Unsatisfiable:  "approve the members one by one, or correct the range",
		OtherIntegrity: "find out where the integrity that you have comes from before you approve anything",
		TooManyMembers: "approve a smaller closure, or its parts",
		Broken:         "try again; proctor doctor says what is not as it should be",
	}
}

package steps

import (
	"fmt"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Layout is where the parts are mounted in the supervisor's containers.
type Layout struct {
	RootKeys   string
	LedgerKeys string
	Ledger     string
	Cache      string
	Session    string
	Sockets    string
	// Rules judge the parts. The zero value is for directories of the host.
	Rules safedir.Rules
	// RootRules judge RootKeys.
	RootRules safedir.Rules
	// LedgerKeyRules judge LedgerKeys where they are read.
	LedgerKeyRules safedir.Rules
	// Known is what the launcher remembers of the ledger, for steps whose input
	// does not say it; nil, or one without a control id, is nothing.
	Known *wire.Anchor
}

// ContainerLayout is the fixed one of every engine.
func ContainerLayout() Layout {
	return Layout{
		RootKeys:   "/keys/root",
		LedgerKeys: "/keys/ledger",
		Ledger:     "/control/ledger",
		Cache:      "/control/cache",
		Session:    "/control/session",
		Sockets:    "/run/proctor",
		// Each part is the root of a mount that only the supervisor has.
		Rules: safedir.Rules{Place: safedir.Mount}, RootRules: safedir.Rules{Place: safedir.Mount},
		LedgerKeyRules: safedir.Rules{Place: safedir.Mount},
	}
}

// KeysAreSecrets is the layout where keys are Secrets of a Kubernetes cluster.
func (l Layout) KeysAreSecrets() Layout {
	l.RootRules, l.LedgerKeyRules = safedir.Rules{Place: safedir.SecretMount}, safedir.Rules{Place: safedir.SecretMount}
	return l
}

// Files of a session's part.
const (
	sessionFile       = "session.json"
	policyFile        = "policy.yaml"
	productPolicyFile = "product-policy.yaml"
	baselineFile      = "baseline.stream"
	serveKeyFile      = "serve.key"
	chainFile         = "chain.json"
	// metricsSocket is serve's, while it runs; the part is the supervisor's alone.
	metricsSocket = "metrics.sock"
)

// sealFile is a session's seal of the given number.
func sealFile(number int) string { return fmt.Sprintf("seal-%d.json", number) }

// RefusedError is a step's refusal: nothing was changed, and the operator is
// told what to do.
type RefusedError struct {
	Err  error
	Hint string
}

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// Steps that write rows; each has a subkey of its own.
const (
	stepOpen  = "open"
	stepServe = "serve"
	stepSeal  = "seal"
)

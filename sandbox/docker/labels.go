package docker

import (
	"strings"

	"github.com/proctor-project/proctor/sandbox"
)

// The labels of everything that this engine makes. They say what to sweep; no
// decision about trust is made from them.
const (
	labelPrefix  = "proctor."
	labelSession = labelPrefix + "session"
	labelRole    = labelPrefix + "role"
	labelPlace   = labelPrefix + "place"
	labelPart    = labelPrefix + "part"
	labelKind    = labelPrefix + "kind"
	labelNonce   = labelPrefix + "nonce"
)

// The values of labelKind.
const (
	kindContainer = "container"
	kindLayer     = "layer"
	kindPart      = "part"
)

func (e *Engine) containerLabels(spec sandbox.Spec) map[string]string {
	return map[string]string{
		labelKind:    kindContainer,
		labelSession: spec.Session,
		labelRole:    string(spec.Role),
		labelPlace:   e.cfg.Place,
	}
}

// ownLabels drops what an image brought. An image's label in our name space
// stays, so that it is seen as a difference.
func ownLabels(labels map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range labels {
		if strings.HasPrefix(name, labelPrefix) {
			out[name] = value
		}
	}
	return out
}

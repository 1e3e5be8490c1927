package containerd

import "github.com/proctor-project/proctor/sandbox"

// The labels of everything that this engine makes. They say what to sweep; no
// decision about trust is made from them.
const (
	labelPrefix  = "proctor."
	labelSession = labelPrefix + "session"
	labelRole    = labelPrefix + "role"
	labelPlace   = labelPrefix + "place"
	labelDigest  = labelPrefix + "image"
)

func (e *Engine) labels(spec sandbox.Spec) map[string]string {
	return map[string]string{
		labelSession: spec.Session, labelRole: string(spec.Role), labelPlace: e.cfg.Place, labelDigest: spec.Image.Digest,
	}
}

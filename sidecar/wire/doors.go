package wire

import "strings"

// Names of the doors' sockets in the sockets' part, beside the supervisor's own.
const (
	ProxySocket    = "proxy.sock"
	NPMSocket      = "npm.sock"
	ServicesSocket = "services.sock"
)

// ServeRequest is the launcher's first line to serve where the policy opens a
// door to the outside; without such a door there is none. It carries what only
// the host has: the supervisor's image has no file of it, and secrets are in no
// environment, argument or mount.
type ServeRequest struct {
	Schema     string   `json:"schema"` // "proctor/serve/v1"
	ResolvConf []byte   `json:"resolv_conf"`
	Hosts      []byte   `json:"hosts"`
	Roots      []byte   `json:"roots"` // PEM certificates
	Secrets    []Secret `json:"secrets"`
}

// Secret is what one service of the policy needs.
type Secret struct {
	Service string `json:"service"`
	Value   []byte `json:"value"`
}

// String and GoString keep a secret out of messages.
func (Secret) String() string { return "[redacted]" }

// GoString is for %#v.
func (Secret) GoString() string { return "[redacted]" }

// DoorTrust is where an agent asks whether a content is approved.
const DoorTrust = "trust"

// Refused is the data of serve's event "refused": the first refusal of a thing.
type Refused struct {
	Door   string   `json:"door"`
	What   string   `json:"what"`
	Reason string   `json:"reason"`
	Review []string `json:"review"` // the operator's command to look at it; empty where there is nothing to see
	Remedy []string `json:"remedy"` // the operator's command; empty where none can help
}

// DoorCounts is the data of serve's event "doors": what all doors have done.
type DoorCounts struct {
	Allowed int64 `json:"allowed"`
	Refused int64 `json:"refused"`
	Failed  int64 `json:"failed"`
}

// Sentence says what was refused and why: a reason that is a verb's needs no
// colon.
func (r Refused) Sentence() string {
	if strings.HasPrefix(r.Reason, "is ") {
		return r.What + " " + r.Reason
	}
	return r.What + ": " + r.Reason
}

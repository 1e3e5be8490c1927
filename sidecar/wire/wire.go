// Package wire holds the messages between the launcher and the supervisor's
// steps: one JSON document a line, read strictly on both sides.
//
// They carry facts that only the host side can know (what the engine did, how a
// process ended), never authority: open and seal decide what to believe.
package wire

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// MaxLine is the largest message to a step, and MaxAnswer the largest of its
// answers, in bytes.
const (
	MaxLine   = 4 << 20
	MaxAnswer = 64 << 20
)

// OpenRequest is the launcher's word to the open step, followed on the same
// stream by the baseline's tree stream.
type OpenRequest struct {
	Schema     string `json:"schema"` // "proctor/open/v1"
	Session    string `json:"session"`
	Product    Path   `json:"product"` // operator's absolute path
	PolicyPath string `json:"policy_path"`
	Policy     []byte `json:"policy"` // the file's bytes
	// ProductPolicy is the policy that the product brings along, if the operator
	// approved these bytes.
	ProductPolicy []byte `json:"product_policy,omitempty"`
	Observer      string `json:"observer"`
	// Launcher says, with observer chain, that a launcher follows the session: seal
	// then waits for its PodWord.
	Launcher bool      `json:"launcher,omitempty"`
	User     string    `json:"user"` // host user, as the launcher knows it
	Started  time.Time `json:"started"`
	Engine   Engine    `json:"engine"`
	Images   []Image   `json:"images"`
	Files    []File    `json:"files"`
	Waivers  []string  `json:"waivers"`
	Anchor   *Anchor   `json:"anchor,omitempty"`
	Command  []string  `json:"command"`
}

// Path is a path that need not be valid UTF-8: exactly one field is set.
type Path struct {
	Path   string `json:"path,omitempty"`
	Base64 []byte `json:"path_base64,omitempty"`
}

// Engine is what the launcher found out about the engine.
type Engine struct {
	Name           string   `json:"name"`
	Version        string   `json:"version"`
	Runtime        string   `json:"runtime"`
	RuntimeVersion string   `json:"runtime_version"`
	RuntimeFloor   string   `json:"runtime_floor"`
	UserNamespace  bool     `json:"user_namespace"`
	Rootless       bool     `json:"rootless"`
	RecursiveRO    bool     `json:"recursive_read_only"`
	Cgroup         string   `json:"cgroup"`
	LimitsMissing  []string `json:"limits_missing"`
	Network        string   `json:"network,omitempty"` // of the agent, where it is not its own
}

// Image is one resolved image.
type Image struct {
	For    string `json:"for"` // agent, supervisor, or check's name
	Kind   string `json:"kind"`
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
}

// Anchor is what the launcher remembers of the ledger outside control.
type Anchor struct {
	ControlID string          `json:"control_id"`
	Count     uint64          `json:"count"`
	Hash      string          `json:"hash"`
	Chain     json.RawMessage `json:"chain"` // public key chain
}

// File is one operator's file that is laid over the product in a check.
type File struct {
	Check  string `json:"check"`
	From   Path   `json:"from"`
	To     string `json:"to"`
	SHA256 string `json:"sha256"`
}

// OpenReply is open's answer.
type OpenReply struct {
	Schema        string     `json:"schema"` // "proctor/open-reply/v1"
	SessionDigest string     `json:"session_digest"`
	PolicyDigest  string     `json:"policy_digest"`
	Baseline      string     `json:"baseline"` // tree digest
	Record        RecordHead `json:"record"`
	Anchor        Anchor     `json:"anchor"`
	FirstUse      bool       `json:"first_use"`
	// RootEntries is how many entries the product's own directory holds.
	RootEntries int `json:"root_entries"`
}

// RecordHead is a record's length and its last MAC.
type RecordHead struct {
	Count uint64 `json:"count"`
	MAC   string `json:"mac"`
}

// Events of ServeEvent that carry data: the first refusal of a thing, a Refused;
// and a request, a Request.
const (
	EventRefused = "refused"
	EventRequest = "request"
)

// ServeEvent is one line that serve tells the launcher. Text in Data is escaped
// by the launcher before it is shown.
type ServeEvent struct {
	Event  string          `json:"event"` // ready, agent-connected, agent-lost, refused, doors, request, closed
	Time   time.Time       `json:"time"`
	Record RecordHead      `json:"record"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// SealRequest is the launcher's word to the seal step: what only the engine
// knows. The reader's tree stream follows it.
type SealRequest struct {
	Schema       string      `json:"schema"` // "proctor/seal/v1"
	Session      string      `json:"session"`
	Agent        *Process    `json:"agent,omitempty"`
	Checks       []Process   `json:"checks"`
	BeforeChecks string      `json:"tree_before_checks,omitempty"` // hex tree digest, when there are checks
	Quiescence   []string    `json:"quiescence"`                   // what still used the stage; empty is quiet
	Containers   []Container `json:"containers"`                   // what the engine reported of each
	RecordHead   *RecordHead `json:"record_head,omitempty"`        // as serve reported at its end
	Problems     []string    `json:"problems"`                     // what could not be established, one sentence each
	// Again is an audit of a session that has a seal: what is said here is then
	// taken from the newest one instead.
	Again    bool      `json:"again"`
	Anchor   *Anchor   `json:"anchor,omitempty"`
	Finished time.Time `json:"finished"`
}

// Process is how the agent or one check ended.
type Process struct {
	Name     string    `json:"name"`
	Argv     []string  `json:"argv"`
	Image    string    `json:"image"`   // digest
	Outcome  string    `json:"outcome"` // exited, signalled, oom, timeout, overflow, stopped, start-failed, lost
	Exit     int       `json:"exit"`
	Expect   int       `json:"expect"`
	Reported string    `json:"reported"` // engine, or inside
	Detail   string    `json:"detail,omitempty"`
	Output   string    `json:"output_tail,omitempty"`
	Bytes    int64     `json:"output_bytes"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
}

// Container is what the engine reported of one container, for the seal.
type Container struct {
	Name         string   `json:"name"`
	Role         string   `json:"role"`
	Image        string   `json:"image"`
	UID          uint32   `json:"uid"`
	GID          uint32   `json:"gid"`
	Capabilities []string `json:"capabilities"`
	NoNewPrivs   bool     `json:"no_new_privileges"`
	Seccomp      bool     `json:"seccomp"`
	ReadOnlyRoot bool     `json:"read_only_root"`
	Namespaces   []string `json:"namespaces"`
	Network      string   `json:"network"`
	Mounts       []Mount  `json:"mounts"`
	Runtime      string   `json:"runtime"`
	Memory       int64    `json:"memory"`
	PIDs         int64    `json:"pids"`
	MilliCPUs    int64    `json:"milli_cpus"`
}

// Mount is one mount that the engine reported; sources are not in the seal.
type Mount struct {
	Kind     string `json:"kind"`
	Target   string `json:"target"`
	Writable bool   `json:"writable"`
	// OpenBelow: read-only, and what is mounted below may be written.
	OpenBelow bool `json:"open_below,omitempty"`
}

// ReadOutcome follows the reader's stream: the launcher's word that the reader
// is gone and how it ended. Without it the launcher did not live to see that,
// and nothing can pass.
type ReadOutcome struct {
	Schema string `json:"schema"` // "proctor/read/v1"
	Exit   int    `json:"exit"`
	Error  string `json:"error,omitempty"`
	// Containers are the reader's and seal's own, as the engine reported them.
	Containers []Container `json:"containers"`
}

// ReadDigest is the reader's answer when only the tree's digest is asked for.
type ReadDigest struct {
	Schema      string `json:"schema"` // "proctor/read-digest/v1"
	Tree        string `json:"tree"`
	Entries     int64  `json:"entries"`
	RootEntries int    `json:"root_entries"`
}

// SealReply is seal's answer, followed by the manifest's bytes.
type SealReply struct {
	Schema   string          `json:"schema"` // "proctor/seal-reply/v1"
	Verdict  string          `json:"verdict"`
	Reasons  []string        `json:"reasons"`
	Seal     json.RawMessage `json:"seal"`   // the DSSE envelope
	Digest   string          `json:"digest"` // sha256 of the envelope's bytes
	Number   int             `json:"number"` // 1 for a session's first seal
	Manifest int64           `json:"manifest_bytes"`
	Entries  int64           `json:"entries"`
	Tree     string          `json:"tree,omitempty"` // digest; "" where the product was not read in full
	Anchor   Anchor          `json:"anchor"`
}

// Refusal is the last line on standard error of a step that exits with 2 or 3.
type Refusal struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

// KeysReply is the answer of the verbs init, rotate and keys.
type KeysReply struct {
	Schema string  `json:"schema"` // "proctor/keys/v1"
	Epochs []Epoch `json:"epochs"`
	Anchor Anchor  `json:"anchor"`
}

// Epoch is one root key's time.
type Epoch struct {
	Epoch uint32 `json:"epoch"`
	State string `json:"state"` // active, superseded, compromised
	KeyID string `json:"key_id"`
}

// ApplyCheck is the ledger's answer on a seal that is about to be applied.
type ApplyCheck struct {
	Schema string `json:"schema"` // "proctor/apply-check/v1"
	Anchor Anchor `json:"anchor"`
}

// SealCheck is what the root key and the ledger say of a seal.
type SealCheck struct {
	Schema string    `json:"schema"` // "proctor/seal-check/v1"
	Rows   []SealRow `json:"rows"`
}

// SealRow is one row of a verification.
type SealRow struct {
	Status string `json:"status"` // ok, NO or --
	Name   string `json:"name"`
	Detail string `json:"detail"`
}

// ApplyReply is what an apply did, or why it did nothing.
type ApplyReply struct {
	Schema    string     `json:"schema"` // "proctor/apply/v1"
	Written   int        `json:"written"`
	Removed   int        `json:"removed"`
	Kept      []Path     `json:"kept"`      // directories that hold something the session did not know
	Conflicts []Conflict `json:"conflicts"` // nothing was written if there is one
	Missing   []Path     `json:"missing"`   // what is not written
	Total     int        `json:"total"`     // of the conflicts, or of what is missing
	Error     string     `json:"error"`
}

// Conflict is one path that stands in the way.
type Conflict struct {
	Path   Path   `json:"path"`
	Reason string `json:"reason"`
}

// SealedSession is what the ledger knows of a session's seals.
type SealedSession struct {
	Schema  string `json:"schema"` // "proctor/sealed/v1"
	Number  int    `json:"n"`      // of the newest seal; 0 is none
	Digest  string `json:"digest"`
	Verdict string `json:"verdict"`
}

// Original is one path that a session changed, and what the product has there;
// the bytes of Before follow it.
type Original struct {
	Path   Path   `json:"path"`
	Before *Side  `json:"before,omitempty"`
	After  *Side  `json:"after,omitempty"`
	Unread string `json:"unread,omitempty"` // why Before has no bytes
}

// Side is one state of a path.
type Side struct {
	Type  string `json:"type"`
	Mode  uint32 `json:"mode"`
	Bytes int    `json:"bytes"`
}

// NewPath puts a path's bytes into the field that can hold them.
func NewPath(raw string) Path {
	if utf8.ValidString(raw) {
		return Path{Path: raw}
	}
	return Path{Base64: []byte(raw)}
}

// Raw is the path's bytes.
func (p Path) Raw() string {
	if p.Base64 != nil {
		return string(p.Base64)
	}
	return p.Path
}

// ChainEnd is what a Pod's status says of a seal: the end of its last container.
type ChainEnd struct {
	Schema     string   `json:"schema"` // proctor/end/v1
	Session    string   `json:"session"`
	Verdict    string   `json:"verdict"`
	SealSHA256 string   `json:"seal_sha256"` // of the seal's envelope, as it is kept and written to the log
	Reasons    []string `json:"reasons"`     // escaped and cut
	More       int      `json:"more"`        // reasons and findings that are in the seal only
	Waivers    []string `json:"waivers"`
}

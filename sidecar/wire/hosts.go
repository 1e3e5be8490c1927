package wire

import "time"

// HostsRequest is one question or act of the operator's about hosts.
type HostsRequest struct {
	Schema  string     `json:"schema"` // "proctor/hosts/v1"
	Act     string     `json:"act"`    // approve, deny, revoke, list
	User    string     `json:"user"`   // host user, as the launcher knows it
	Host    string     `json:"host"`   // may begin with "*."; empty for list
	Port    int        `json:"port"`
	Note    string     `json:"note"`
	Expires *time.Time `json:"expires,omitempty"`
}

// HostsReply is the answer to a HostsRequest.
type HostsReply struct {
	Schema  string       `json:"schema"` // "proctor/hosts-reply/v1"
	Records []HostRecord `json:"records"`
	Same    bool         `json:"same"` // it was decided so already
	Anchor  Anchor       `json:"anchor"`
}

// HostRecord is one live record, or one that was just made or taken back.
type HostRecord struct {
	Host     string     `json:"host"`
	Port     int        `json:"port"`
	Decision string     `json:"decision"`
	Note     string     `json:"note"`
	Recorded time.Time  `json:"recorded_at"`
	By       string     `json:"by"`
	Expires  *time.Time `json:"expires,omitempty"`
	Act      uint64     `json:"act"`
}

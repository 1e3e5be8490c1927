package wire

import "time"

// RequestsRequest is the operator's question or word on a session's requests.
type RequestsRequest struct {
	Schema  string     `json:"schema"` // "proctor/requests/v1"
	Act     string     `json:"act"`    // list, show, approve, deny
	By      string     `json:"by"`     // host user, as the launcher knows it
	ID      string     `json:"id,omitempty"`
	Expect  string     `json:"expect,omitempty"` // digest of the request as it was shown
	Reason  string     `json:"reason,omitempty"` // for the agent, and the record's note
	Expires *time.Time `json:"expires,omitempty"`
	// Packages are what the request's package resolves to, with what it needs,
	// for an approval of one.
	Packages []Package `json:"packages,omitempty"`
}

// RequestsReply is the answer to a RequestsRequest.
type RequestsReply struct {
	Schema   string          `json:"schema"` // "proctor/requests-reply/v1"
	Requests []RequestStatus `json:"requests"`
	// For show: what is recorded about the subject, and a file's content.
	Records    []TrustRecord `json:"records"`
	Size       int64         `json:"size"`
	Head       []byte        `json:"head,omitempty"`
	References []string      `json:"references"`
	Acts       []uint64      `json:"acts"` // that an answer made
	Anchor     Anchor        `json:"anchor"`
}

// RequestStatus is a request with what happened around it.
type RequestStatus struct {
	Request
	Refused int       `json:"refused"` // how often the subject was refused
	First   time.Time `json:"first_refused"`
	Last    time.Time `json:"last_refused"`
}

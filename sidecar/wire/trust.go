package wire

import "time"

// TrustRequest is one question or act of the operator's about paths. For approve,
// deny, show and decide the content follows on the same stream: a Content, then
// its bytes; for import an exchange file does.
type TrustRequest struct {
	Schema  string     `json:"schema"` // "proctor/trust/v1"
	Act     string     `json:"act"`    // approve, deny, revoke, show, decide, list, import
	By      string     `json:"by"`     // host user, as the launcher knows it
	Path    *Path      `json:"path,omitempty"`
	Expect  string     `json:"expect_sha256,omitempty"` // the content must have this digest
	Kept    bool       `json:"kept,omitempty"`          // the content is what serve kept under Expect
	Note    string     `json:"note,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	Replace bool       `json:"replace,omitempty"` // import: also over records that say something else
}

// Content comes before a file's bytes. Only a regular file has any.
type Content struct {
	Schema string `json:"schema"` // "proctor/content/v1"
	Size   int64  `json:"size"`
	Error  string `json:"error,omitempty"` // why there are none
}

// TrustReply is the answer to a TrustRequest.
type TrustReply struct {
	Schema  string        `json:"schema"` // "proctor/trust-reply/v1"
	Records []TrustRecord `json:"records"`
	// What is known of the content: its digest, and what it refers to.
	SHA256     string   `json:"sha256,omitempty"`
	Size       int64    `json:"size"`
	References []string `json:"references"` // relative to the content's directory
	// Head is the beginning of the content, for show.
	Head     []byte         `json:"head,omitempty"`
	Decision *TrustDecision `json:"decision,omitempty"`
	Skipped  int            `json:"skipped"` // import: records that were there already
	Anchor   Anchor         `json:"anchor"`
}

// TrustRecord is one live record, or one that was just made.
type TrustRecord struct {
	Path     Path       `json:"path"`
	SHA256   string     `json:"sha256"`
	Scope    string     `json:"scope"`
	Decision string     `json:"decision"`
	Note     string     `json:"note"`
	Recorded time.Time  `json:"recorded_at"`
	By       string     `json:"by"`
	Expires  *time.Time `json:"expires,omitempty"`
	Act      uint64     `json:"act"`
}

// TrustDecision is how a path and content would be decided, or were.
type TrustDecision struct {
	Allowed bool       `json:"allowed"`
	Reason  string     `json:"reason"` // approved, no_record, denied, content_changed, expired, unreadable
	Since   *time.Time `json:"since,omitempty"`
	Note    string     `json:"note,omitempty"`
	Act     uint64     `json:"act,omitempty"`
}

package registry

import (
	"io"
	"net/http"
	"strings"

	"github.com/proctor-project/proctor/sidecar/door"
)

// special answers what a registry has beside packages: nothing is known to be
// vulnerable, found or signed here, which is said in the words that npm expects.
func (d *Door) special(w http.ResponseWriter, r *http.Request, rest string) string {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	body := ""
	switch {
	case read && rest == "ping":
		body = "{}"
	case read && rest == "v1/search":
		body = `{"objects":[],"total":0,"time":"1970-01-01T00:00:00.000Z"}`
	case read && rest == "npm/v1/keys":
		body = `{"keys":[]}`
	case r.Method == http.MethodPost && rest == "npm/v1/security/advisories/bulk":
		body = `{}`
	case r.Method == http.MethodPost && strings.HasPrefix(rest, "npm/v1/security/audits"):
		body = `{"actions":[],"advisories":{},"muted":[],"metadata":{"vulnerabilities":{"info":0,"low":0,"moderate":0,"high":0,"critical":0},"dependencies":0,"devDependencies":0,"optionalDependencies":0,"totalDependencies":0}}`
	case !read:
		return d.refuse(w, door.Refusal{What: r.Method + " /-/" + rest[:min(len(rest), 100)], Reason: "nothing is published, signed in or changed through this door"})
	default:
		fail(w, http.StatusNotFound, "this door does not have that")
		return "failed"
	}
	// What was sent is a list of the product's packages; it goes nowhere.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		fail(w, http.StatusRequestEntityTooLarge, "the request is too large")
		return "failed"
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
	return "allowed"
}

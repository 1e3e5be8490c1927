package steps_test

import (
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/ledger"
)

// TestProductPolicyByTheLedger: open takes a product's policy only while exactly
// those bytes are approved; from there to the seal it is held by its digest, and
// it narrows.
func TestProductPolicyByTheLedger(t *testing.T) {
	const own = "version: 1\nprotected: [a.txt]\n"
	c := newControl(t)
	_, stream := c.tree(map[string]string{"a.txt": "one\n"})
	open := func(id, text string) error {
		req := c.openRequest(id, "version: 1\n")
		req.ProductPolicy = []byte(text)
		_, err := c.tryOpen(req, stream)
		return err
	}
	refused := func(id, text, why string) {
		t.Helper()
		if err := open(id, text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
		if _, ok := c.state().Session(id); ok {
			t.Errorf("%q: a session was opened", text)
		}
	}
	refused("aaaaaaaaaaaa", own, "not approved any longer: no_record")
	c.act(ledger.KindApprove, "/home/me/site/proctor.yaml", own)
	refused("bbbbbbbbbbbb", own+"\n", "content_changed")
	refused("cccccccccccc", "version: 1\nallow: []\n", "unknown field")
	if err := open("dddddddddddd", own); err != nil {
		t.Fatal(err)
	}
	o := &opened{control: c, id: "dddddddddddd", layout: c.sessionLayout("dddddddddddd"), before: stream}
	head, err := o.serve("close\n")
	o.must(err)
	in := o.input()
	in.req.RecordHead, in.req.Checks = head, in.req.Checks[:0]
	_, in.stream = c.tree(map[string]string{"a.txt": "two\n"})
	c.act(ledger.KindRevoke, "/home/me/site/proctor.yaml", "") // the session has its policy
	in.req.Anchor = &c.anchor
	o.replace("product-policy.yaml", "version: 1\n")
	if _, _, err := o.seal(in); err == nil {
		t.Error("sealed by another policy than the one that was opened")
	}
	o.replace("product-policy.yaml", own)
	if reply, p, err := o.seal(in); err != nil || reply.Verdict != "FAIL" || p.ProductPolicySHA256 != sumOf(own) {
		t.Errorf("%v: %s, %s", err, reply.Verdict, p.ProductPolicySHA256)
	}
}

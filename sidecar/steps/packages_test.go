package steps_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const testRegistry = "https://registry.example"

func sri(of string) string { return "sha512-" + strings.Repeat(of, 85) + "A==" }

func pkg(name, version, integrity string) wire.Package {
	return wire.Package{Registry: testRegistry, Name: name, Version: version, Integrity: integrity}
}

func (c *control) packages(act string, all ...wire.Package) (wire.PackagesReply, error) {
	c.Helper()
	if all == nil {
		all = []wire.Package{}
	}
	return c.packagesRequest(wire.PackagesRequest{Schema: "proctor/packages/v1", Act: act, User: "tester", Packages: all})
}

func (c *control) packagesRequest(req wire.PackagesRequest) (wire.PackagesReply, error) {
	c.Helper()
	line, err := json.Marshal(req)
	c.must(err)
	var out bytes.Buffer
	var reply wire.PackagesReply
	if err := steps.Packages(c.Context(), c.layout, bytes.NewReader(append(line, '\n')), &out); err != nil {
		return reply, err
	}
	c.decode(out.Bytes(), &reply)
	return reply, nil
}

func (c *control) ledgerBytes() string {
	c.Helper()
	var all strings.Builder
	for _, name := range []string{"ledger", "head"} {
		b, err := os.ReadFile(filepath.Join(c.layout.Ledger, name))
		c.must(err)
		all.Write(b)
	}
	return all.String()
}

// TestP8PackageActs approves, lists, denies and revokes.
func TestP8PackageActs(t *testing.T) {
	c := newControl(t)
	a, b := pkg("left-pad", "1.3.0", sri("A")), pkg("left-pad", "1.2.0", sri("B"))
	reply, err := c.packages("approve", a, b)
	c.must(err)
	if len(reply.Records) != 2 || reply.Records[0].By != "tester" || reply.Anchor.Count != 3 {
		t.Fatalf("%+v", reply)
	}
	again, err := c.packages("approve", a)
	c.must(err)
	if len(again.Records) != 0 || again.Same != 1 || again.Anchor.Count != 3 {
		t.Errorf("again: %+v", again)
	}
	if _, err = c.packages("deny", pkg("evil", "", "")); err != nil {
		t.Fatal(err)
	}
	list, err := c.packages("list")
	c.must(err)
	if len(list.Records) != 3 || list.Records[0].Name != "evil" || list.Records[0].Decision != "denied" || list.Records[2].Integrity != sri("A") {
		t.Errorf("%+v", list.Records)
	}
	before := c.ledgerBytes()
	for _, absent := range []wire.Package{{Name: "left-pad", Version: "9.9.9"}, {Name: "right-pad"}, {Registry: "https://other.example", Name: "left-pad"}} {
		if r, err := c.packages("revoke", absent); err != nil || len(r.Records) != 0 {
			t.Errorf("revoke %+v: %+v, %v", absent, r, err)
		}
	}
	if c.ledgerBytes() != before {
		t.Error("a revocation of nothing changed the ledger")
	}
	gone, err := c.packages("revoke", wire.Package{Name: "left-pad"})
	c.must(err)
	if len(gone.Records) != 2 {
		t.Errorf("revoked %+v", gone.Records)
	}
	if list, err = c.packages("list"); err != nil || len(list.Records) != 1 {
		t.Errorf("left: %+v, %v", list.Records, err)
	}
}

// TestDenialsAreNotReplacedUnseen: what a closure or a lock file brings along does
// not turn a denial into an approval; the version that is named does, as its own
// record. A denial of every version is taken back, not replaced.
func TestDenialsAreNotReplacedUnseen(t *testing.T) {
	c := newControl(t)
	good, evil, banned := pkg("good", "1.0.0", sri("A")), pkg("evil", "1.0.0", sri("B")), pkg("banned", "1.0.0", sri("C"))
	_, err := c.packages("deny", pkg("evil", "1.0.0", ""), pkg("banned", "", ""))
	c.must(err)
	before := c.ledgerBytes()
	for name, all := range map[string][]wire.Package{"with others": {good, evil}, "every version, with others": {good, banned}, "every version": {banned}} {
		var refused *steps.RefusedError
		if r, err := c.packages("approve", all...); !errors.As(err, &refused) || !strings.Contains(err.Error(), "is denied by act") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if c.ledgerBytes() != before {
		t.Error("something was recorded")
	}
	if r, err := c.packages("approve", evil); err != nil || len(r.Records) != 1 {
		t.Errorf("named: %+v, %v", r, err)
	}
	if r, err := c.packages("approve", good, evil); err != nil || r.Same != 1 {
		t.Errorf("not denied any longer: %+v, %v", r, err)
	}
}

// TestPackageActsAreWhole sends one bad package among good ones: nothing is recorded.
func TestPackageActsAreWhole(t *testing.T) {
	c := newControl(t)
	good := pkg("left-pad", "1.3.0", sri("A"))
	before := c.ledgerBytes()
	for name, bad := range map[string]wire.Package{
		"a range":            pkg("a", "^1.0.0", sri("A")),
		"no version":         pkg("a", "", sri("A")),
		"an archive's name":  pkg("a", "1.0.0-x.tgz", sri("A")),
		"no integrity":       pkg("a", "1.0.0", ""),
		"sha1":               pkg("a", "1.0.0", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="),
		"a name that is not": pkg("../a", "1.0.0", sri("A")),
		"no registry":        {Name: "a", Version: "1.0.0", Integrity: sri("A")},
		"a registry's slash": {Registry: testRegistry + "/", Name: "a", Version: "1.0.0", Integrity: sri("A")},
		"the same again":     pkg("left-pad", "1.3.0", sri("B")),
	} {
		if r, err := c.packages("approve", good, bad); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	past := time.Now().Add(-time.Hour)
	for name, req := range map[string]wire.PackagesRequest{
		"no package":         {Schema: "proctor/packages/v1", Act: "approve", Packages: []wire.Package{}},
		"an unknown act":     {Schema: "proctor/packages/v1", Act: "allow", Packages: []wire.Package{good}},
		"an expired one":     {Schema: "proctor/packages/v1", Act: "approve", Packages: []wire.Package{good}, Expires: &past},
		"a denial's end":     {Schema: "proctor/packages/v1", Act: "deny", Packages: []wire.Package{pkg("a", "", "")}, Expires: &past},
		"a long note":        {Schema: "proctor/packages/v1", Act: "approve", Packages: []wire.Package{good}, Note: strings.Repeat("x", 5000)},
		"another schema":     {Schema: "proctor/packages/v2", Act: "list", Packages: []wire.Package{}},
		"denied integrity":   {Schema: "proctor/packages/v1", Act: "deny", Packages: []wire.Package{good}},
		"denied by no place": {Schema: "proctor/packages/v1", Act: "deny", Packages: []wire.Package{{Name: "a"}}},
	} {
		if r, err := c.packagesRequest(req); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if c.ledgerBytes() != before {
		t.Error("a refused request changed the ledger")
	}
	if _, err := c.packages("approve", good); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// TestP9StaleRecord puts a record into the ledger whose version npm would read as a
// file: it is listed as stale, grants nothing, harms no other, and can be revoked.
func TestP9StaleRecord(t *testing.T) {
	c := newControl(t)
	c.approveOne(pkg("left-pad", "1.3.0", sri("A")))
	lk, err := keys.OpenLedgerKeys(c.layout.LedgerKeys, c.layout.Rules)
	c.must(err)
	v, err := lk.Verifier()
	c.must(err)
	l, err := ledger.Open(c.layout.Ledger, c.layout.Rules, ledger.Trust{ControlID: lk.Chain().ControlID(), Verifier: v})
	c.must(err)
	_, err = l.Act(t.Context(), lk.Signer(), ledger.Entry{Time: time.Now().UTC(), By: "tester", Kind: ledger.KindApprove, Package: &ledger.PackageAct{
		Registry: testRegistry, Name: "left-pad", Version: "1.0.0-x.tgz", Integrity: sri("A"), Decision: ledger.Approved,
	}})
	c.must(errors.Join(err, l.Close()))
	list, err := c.packages("list")
	c.must(err)
	if len(list.Records) != 2 || list.Records[0].Stale == "" || list.Records[1].Stale != "" {
		t.Fatalf("%+v", list.Records)
	}
	stale := packages.Identity{Registry: testRegistry, Name: "left-pad", Version: "1.0.0-x.tgz", Integrity: sri("A")}
	if stale.Check() == nil {
		t.Error("the stale identity could be asked for")
	}
	gone, err := c.packages("revoke", wire.Package{Name: "left-pad"})
	c.must(err)
	if len(gone.Records) != 2 {
		t.Errorf("revoked %+v", gone.Records)
	}
}

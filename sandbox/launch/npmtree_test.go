package launch_test

import (
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/npmregistry"
)

// TestInstalledPackagesPass: what the real npm
// installs through the door, of approved packages only, is no finding: neither the
// lock files' entries nor the files, nested packages and program links included. One
// file more is.
func TestInstalledPackagesPass(t *testing.T) {
	on(t, func(d *desk, policy string) {
		srv := npmRegistry(d.T,
			npmregistry.Of("b", "1.0.0", nil), npmregistry.Of("b", "2.0.0", nil),
			npmregistry.Of("a", "1.0.0", map[string]any{"dependencies": map[string]string{"b": "^1.0.0"}}),
			npmregistry.Of("tool", "3.0.0", map[string]any{"bin": "index.js", "dependencies": map[string]string{"b": "^2.0.0"}}))
		d.policy(strings.Replace(npmPolicy(d.T, policy, srv.URL), "classes: {tree: list}\n", "", 1))
		for _, args := range [][]string{{"a@1.0.0", "--closure"}, {"tool@3.0.0", "--closure"}} {
			if out, err := d.proctor(append([]string{"trust", "approve-package"}, args...)...).CombinedOutput(); err != nil {
				d.Fatalf("approve %v: %v: %s", args, err, out)
			}
		}
		d.write("site/package.json", `{"name":"site","version":"1.0.0"}`)
		install := "export npm_config_fetch_retries=0; npm install a@1.0.0 tool@3.0.0 && test -f node_modules/tool/node_modules/b/index.js && test -L node_modules/.bin/tool"
		good := d.start("sh", "-c", install)
		id := good.session()
		good.ends(0)
		if out := good.out.String(); !strings.Contains(out, "PASS (exit 0)") {
			d.Errorf("no PASS:\n%s", out)
		}
		bad := d.start("sh", "-c", install+" && echo evil >> node_modules/tool/node_modules/b/index.js && ln -s ../a/index.js node_modules/.bin/ls")
		bad.ends(1)
		out := bad.out.String()
		for _, want := range []string{"node_modules/tool ", "node_modules/.bin "} {
			if !strings.Contains(out, want) {
				d.Errorf("%q is not in:\n%s", want, out)
			}
		}
		if strings.Contains(out, "package-unapproved") || strings.Contains(out, "node_modules/a ") {
			d.Errorf("what is approved is a finding:\n%s", out)
		}
		// The same without the approval of one member.
		if out, err := d.proctor("trust", "revoke-package", "b@2.0.0").CombinedOutput(); err != nil {
			d.Fatalf("revoke: %v: %s", err, out)
		}
		again := d.proctor("audit", id)
		said, err := again.CombinedOutput()
		if err == nil || !strings.Contains(string(said), "b@2.0.0") {
			d.Errorf("audit after the revocation: %v\n%s", err, said)
		}
	})
}

package launch_test

import (
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/npmregistry"
)

// npmRegistry serves packages on the host's loopback interface.
func npmRegistry(t *testing.T, all ...npmregistry.Package) *httptest.Server {
	return here(t, npmregistry.Handler(all...))
}

// npmPolicy gives the agent the host's node and npm, on either engine.
func npmPolicy(t *testing.T, base, registry string) string {
	t.Helper()
	_, err := exec.LookPath("npm")
	need.That(t, err == nil, "needs npm")
	p := strings.Replace(base, "limits: {memory: 96MiB, pids: 64}", "limits: {memory: 1GiB, pids: 256}", 1)
	if strings.Contains(p, "kind: image") { // an image from nothing
		p = strings.Replace(p, "  mounts:\n", `  mounts:
    - {source: /usr, target: /usr}
    - {source: /usr/bin, target: /bin}
    - {source: /usr/lib, target: /lib}
    - {source: /usr/lib64, target: /lib64}
`, 1)
	}
	return p + fmt.Sprintf("packages: {registry: %q}\nclasses: {tree: list}\n", registry)
}

// TestD1NpmDoor (cases D1, D2): in a session the real npm and npx have approved
// packages only, whatever the product's own configuration says, and not one whose
// archive was swapped; the same session again needs no registry; a planted tree is reported and never counted as approved.
func TestD1NpmDoor(t *testing.T) {
	on(t, func(d *desk, policy string) {
		srv := npmRegistry(d.T,
			npmregistry.Of("b", "1.0.0", nil), npmregistry.Of("b", "1.1.0", nil), npmregistry.Of("c", "1.0.0", nil), npmregistry.Of("swapped", "1.0.0", nil),
			npmregistry.Of("a", "1.0.0", map[string]any{"dependencies": map[string]string{"b": "^1.0.0"}}),
			npmregistry.Of("tool", "3.0.0", map[string]any{"bin": "index.js"}))
		d.policy(npmPolicy(d.T, policy, srv.URL))
		for _, spec := range []string{"a@1.0.0", "b@1.0.0", "tool@3.0.0", "swapped@1.0.0"} {
			if out, err := d.proctor("trust", "approve-package", spec).CombinedOutput(); err != nil {
				d.Fatalf("approve %s: %v: %s", spec, err, out)
			}
		}
		d.write("site/package.json", `{"name":"site","version":"1.0.0"}`)
		d.write("site/.npmrc", "registry="+srv.URL+"/\n")
		r := d.start("sh", "-c", `export npm_config_fetch_retries=0
npm install a@1.0.0 && cat node_modules/b/index.js
npx -y tool@3.0.0
npm install c@1.0.0
npm install b@1.1.0
npm install swapped@1.0.0; ls node_modules/swapped
npm_config_registry=`+srv.URL+` npm install c@1.0.0
mkdir -p node_modules/tool && echo evil > node_modules/tool/index.js`)
		r.ends(0)
		out := r.out.String()
		for _, want := range []string{
			"b 1.0.0 runs", "agent| tool 3.0.0 runs",
			"proctor: c is not approved. The operator can run:  proctor explain c",
			"proctor: b@1.1.0 is not approved. The operator can run:  proctor trust approve-package b@1.1.0",
			"proctor: refused: npm: c is not approved", "proctor: refused: npm: b@1.1.0", "ECONNREFUSED",
			"proctor: refused: npm: swapped@1.0.0 is not what was approved: the registry has other bytes", "cannot access 'node_modules/swapped'", "node_modules",
		} {
			if !strings.Contains(out, want) {
				d.Errorf("%q is not in:\n%s", want, out)
			}
		}
		if strings.Contains(out, "c 1.0.0 runs") {
			d.Errorf("an unapproved package came in:\n%s", out)
		}
		srv.Close()
		again := d.start("sh", "-c", "npm_config_fetch_retries=0 npm install a@1.0.0 && npx -y tool@3.0.0")
		again.ends(0)
		if out := again.out.String(); !strings.Contains(out, "tool 3.0.0 runs") {
			d.Errorf("without the registry:\n%s", out)
		}
	})
}

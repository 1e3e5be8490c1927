package consent_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readers are the functions of the host's side that open files, and what they
// open. None of it comes with a product and changes what Proctor does: that is
// consent.Gate's. A new one has to be put here, or through the gate.
func readers() map[string]string {
	return map[string]string{
		"cmd/proctor/apply.go checkManifest":        "a seal's manifest, by its digest",
		"cmd/proctor/apply.go verifiedSeal":         "a seal, by its signature",
		"cmd/proctor/cluster.go readAll":            "keys that were just made, for the cluster's Secrets",
		"cmd/proctor/commit.go sealedFiles":         "a seal's manifest, by its digest",
		"cmd/proctor/doors.go hostFile":             "the host's own resolver files",
		"cmd/proctor/init.go writePolicy":           "the operator's policy, to be made",
		"cmd/proctor/plan.go readPolicy":            "the operator's policy",
		"cmd/proctor/renderimage.go imageLayer":     "Proctor's own programs",
		"cmd/proctor/trust.go openRegular":          "content to hash, as the operator asks",
		"cmd/proctor/trustexchange.go readExchange": "the operator's file to import",
		"cmd/proctor/verify.go verifyInputs":        "a seal, by its signature, and a product to hash",
		"sandbox/launch/apply.go applyChild":        "descriptors for the child that applies",
		"sandbox/launch/audit.go prepareJudges":     "the manifest, to be made",
		"sandbox/launch/diff.go Diff":               "descriptors for the child that reads the originals",
		"sandbox/launch/stage.go PrepareTools":      "Proctor's own programs",
		"sandbox/launch/stage.go makeStage":         "descriptors for the child that stages",
		"sandbox/launch/stage.go emptyStage":        "descriptors for the child that removes a stage",
		"sandbox/launch/stage.go sameFiles":         "Proctor's own programs",
		"sandbox/launch/stage.go stageCopy":         "descriptors for the child that stages",
		"sandbox/launch/steps.go openStep":          "the baseline, as the child that staged wrote it",
		"sandbox/launch/whole.go pack":              "descriptors for the child that packs",
		"sandbox/launch/whole.go sealWhole":         "the manifest, to be made",
		"sandbox/launch/whole.go splitRecord":       "the record, to be made",
		"sandbox/launch/whole.go stageWhole":        "the baseline, to hash",
		"sandbox/launch/whole.go unpack":            "descriptors for the child that unpacks",
		"sandbox/launch/wholelog.go keptLog":        "the record, as seal wrote it",
		"sandbox/launch/steps.go takeFile":          "the operator's own files for checks",
	}
}

// TestEveryConsumerIsKnown fails for each function of cmd/proctor and
// sandbox/launch that opens files and is not in the list, and for each line of
// the list that is not there any more.
func TestEveryConsumerIsKnown(t *testing.T) {
	root := filepath.Join("..", "..")
	found := map[string]bool{}
	for _, dir := range []string{"cmd/proctor", "sandbox/launch"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				opens(t, dir, file, found)
			}
		}
	}
	known := readers()
	for _, where := range slices.Sorted(maps.Keys(found)) {
		if known[where] == "" {
			t.Errorf("%s opens files: is it something that came with a product? then it goes through consent.Gate", where)
		}
	}
	for where := range known {
		if !found[where] {
			t.Errorf("%s is in the list and opens nothing", where)
		}
	}
}

func opens(t *testing.T, dir, file string, found map[string]bool) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && opening(call) {
				found[dir+"/"+filepath.Base(file)+" "+fn.Name.Name] = true
			}
			return true
		})
	}
}

// opening reports whether a call opens a file by its path.
func opening(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return false
	}
	switch pkg.Name + "." + sel.Sel.Name {
	case "os.Open", "os.OpenFile", "os.ReadFile", "os.OpenRoot", "os.DirFS", "unix.Open", "unix.Openat", "unix.Openat2", "ioutil.ReadFile":
		return true
	}
	return false
}

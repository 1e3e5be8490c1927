package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/proctor-project/proctor/sidecar/product"
)

// packageJSON reports each script of a package.json, and each field that says
// what npm fetches where no lock file does. npm reads the file with
// JavaScript's JSON.parse: keys are compared exactly and the last of two equal
// ones counts, as they do in a Go map.
func packageJSON(path string, content []byte, whole bool) []product.Fact {
	scripts, needs, err := packageFields(content)
	if err != nil || !whole || len(scripts) > maxPerFile {
		return []product.Fact{unparsed(path, "package.json")}
	}
	var facts []product.Fact
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		value := string(scripts[name])
		shown := value
		if text, err := strconv.Unquote(value); err == nil {
			shown = text
		}
		facts = append(facts, product.Fact{
			Path: path, Kind: product.FactScript, Name: product.Text(name), Detail: product.Text(shown), SHA256: pairDigest(name, value),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		facts = append(facts, product.Fact{
			Path: path, Kind: product.FactNeeds, Name: name, Detail: product.Text(needs[name]), SHA256: pairDigest(name, needs[name]),
		})
	}
	return facts
}

// needsFields are the fields of a package.json that say what npm fetches.
func needsFields() []string {
	return []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "overrides", "resolutions", "workspaces"}
}

// packageFields returns the scripts, and the fields that say what npm fetches,
// without their white space.
func packageFields(content []byte) (scripts map[string]json.RawMessage, needs map[string]string, err error) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	var pkg map[string]json.RawMessage
	if err := json.Unmarshal(content, &pkg); err != nil {
		return nil, nil, err
	}
	needs = map[string]string{}
	for _, name := range needsFields() {
		if raw, ok := pkg[name]; ok {
			var text bytes.Buffer
			if err := json.Compact(&text, raw); err != nil {
				return nil, nil, err
			}
			needs[name] = text.String()
		}
	}
	raw, ok := pkg["scripts"]
	if !ok || string(raw) == "null" {
		return nil, needs, nil
	}
	err = json.Unmarshal(raw, &scripts)
	return scripts, needs, err
}

// lifecycle reports whether npm and its relatives run the script on their own
// when the operator installs.
func lifecycle(script string) bool {
	switch script {
	case "preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare", "dependencies",
		"predependencies", "postdependencies", "prepublishonly", "prepack", "postpack":
		return true
	}
	return strings.HasPrefix(script, "pnpm:")
}

// folderOpen reports a tasks.json whose tasks may run when the folder is opened.
// The whole file is the fact, because such a task can depend on the others.
func folderOpen(e product.Entry, content []byte, whole bool) []product.Fact {
	if !strings.EqualFold(base(dir(e.Path)), ".vscode") {
		return nil
	}
	found, err := jsoncHasString(string(content), "folderOpen")
	switch {
	case err != nil || !whole:
		return []product.Fact{unparsed(e.Path, "tasks.json")}
	case found:
		return []product.Fact{{Path: e.Path, Kind: product.FactTask, Name: "runs when the folder is opened", SHA256: e.SHA256}}
	}
	return nil
}

var errJSONC = errors.New("not JSON with comments")

// jsoncHasString reports whether one of the strings in JSON with comments is
// want. It reads tokens only.
func jsoncHasString(s, want string) (bool, error) {
	for s != "" {
		switch {
		case strings.HasPrefix(s, "//"):
			_, s, _ = strings.Cut(s, "\n")
		case strings.HasPrefix(s, "/*"):
			_, after, ok := strings.Cut(s[2:], "*/")
			if !ok {
				return false, errJSONC
			}
			s = after
		case s[0] == '"':
			end := 1
			for end < len(s) && s[end] != '"' && s[end] != '\n' {
				if s[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(s) || s[end] != '"' {
				return false, errJSONC
			}
			var text string
			if err := json.Unmarshal([]byte(s[:end+1]), &text); err != nil {
				return false, errJSONC
			}
			if text == want {
				return true, nil
			}
			s = s[end+1:]
		default:
			s = s[1:]
		}
	}
	return false, nil
}

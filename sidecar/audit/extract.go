package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"

	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/product"
)

// Extractor is the reader's half of the audit: a product.Extractor. One serves
// one walk.
type Extractor struct {
	places *classifier

	mu      sync.Mutex
	pending []lead
	over    bool
	refs    []lead // what traps refer to; for people, so what is too much is dropped
}

// NewExtractor returns an Extractor for one walk.
func NewExtractor() *Extractor { return &Extractor{places: newClassifier()} }

const (
	maxConfig   = 1 << 20
	maxIndex    = 64 << 20
	maxPerFile  = 512 // facts of one file
	maxPending  = 2000
	gitDirSize  = 8 << 10
	folderTasks = "tasks.json"
)

// Wants implements product.Extractor.
func (x *Extractor) Wants(path string) int {
	name := strings.ToLower(path[strings.LastIndexByte(path, '/')+1:])
	switch name {
	case "package.json":
		if _, dependency := packageDir(path); !dependency {
			return maxConfig
		}
	case "config", "config.worktree", folderTasks:
		return maxConfig
	case "package-lock.json", "npm-shrinkwrap.json", hiddenLock:
		if isLock(path) {
			return packages.MaxLock
		}
	case ".git", "commondir":
		return gitDirSize
	case "index":
		if product.InGit(path) {
			return maxIndex
		}
	default:
		if x.isTrap(path) {
			return maxReferring
		}
	}
	return 0
}

// isTrap reports whether the place of a file alone makes it a trap.
func (x *Extractor) isTrap(path string) bool {
	class, _ := x.places.place(path)
	return class == ClassTrap
}

func (x *Extractor) isHook(path string) bool {
	_, kind, ok := gitPlace(strings.Split(strings.ToLower(path), "/"))
	return ok && kind == "git-hook"
}

// Extract implements product.Extractor.
func (x *Extractor) Extract(e product.Entry, content []byte) []product.Fact {
	if e.Type == product.TypeSymlink {
		x.link(e.Path, string(content))
		return nil
	}
	whole := e.Size == int64(len(content))
	if x.isTrap(e.Path) {
		x.refer(e.Path, content)
	}
	switch name := strings.ToLower(base(e.Path)); name {
	case "package.json":
		return packageJSON(e.Path, content, whole)
	case "package-lock.json", "npm-shrinkwrap.json", hiddenLock:
		if isLock(e.Path) {
			return lockFacts(e.Path, content, whole)
		}
	case "config", "config.worktree":
		return x.gitConfig(e.Path, content, whole)
	case folderTasks:
		return folderOpen(e, content, whole)
	case ".git", "commondir":
		return x.gitLink(e, content)
	case "index":
		return gitIndexFact(e.Path, content)
	}
	if x.isHook(e.Path) {
		return []product.Fact{{Path: e.Path, Kind: product.FactGitHook, SHA256: e.SHA256}}
	}
	return nil
}

// add remembers something to look at when the whole tree is there.
func (x *Extractor) add(l lead) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.pending) == maxPending {
		x.over = true
		return
	}
	x.pending = append(x.pending, l)
}

// maxRefs bounds what traps refer to.
const maxRefs = 1000

func (x *Extractor) refer(from string, content []byte) {
	for _, target := range References(from, content) {
		x.mu.Lock()
		if len(x.refs) < maxRefs {
			x.refs = append(x.refs, lead{from: from, target: target})
		}
		x.mu.Unlock()
	}
}

// link remembers links that stand where something is read that runs programs.
func (x *Extractor) link(path, target string) {
	if strings.HasPrefix(target, "/") {
		return // leads out; the link's own change is judged
	}
	name := strings.ToLower(base(path))
	switch class, _ := x.places.place(path); {
	case product.InGit(path) || name == ".git" || name == "hooks" || name == "package.json" || name == "config",
		class == ClassTrap, trapDir(name):
		x.add(lead{what: leadLink, from: path, target: path})
	}
}

// trapDir names the directories whose content the table of traps mentions.
func trapDir(name string) bool {
	return oneOf(name, []string{
		".vscode", ".zed", ".idea", ".devcontainer", ".claude", ".codex", ".cursor", ".gemini", ".continue", ".windsurf", ".kiro",
		".amazonq", ".roo", ".opencode", ".husky", ".mise", "mise", ".config",
	})
}

// gitConfig reports the variables of a git configuration file that run
// programs, and remembers the files that it includes.
func (x *Extractor) gitConfig(path string, content []byte, whole bool) []product.Fact {
	settings, err := parseGitConfig(string(content))
	if err != nil || !whole || strings.IndexByte(string(content), 0) >= 0 {
		if product.InGit(path) {
			return []product.Fact{unparsed(path, "git configuration")}
		}
		return nil // some other program's "config"
	}
	facts := configFacts(path, settings)
	x.follow(path, settings)
	return facts
}

// configFacts makes the facts of the settings that run something.
func configFacts(path string, settings []setting) []product.Fact {
	var facts []product.Fact
	for _, s := range settings {
		if program, redirect := s.runs(); !program && !redirect {
			continue
		}
		if len(facts) == maxPerFile {
			return append(facts, unparsed(path, "more settings that run programs than are listed"))
		}
		facts = append(facts, product.Fact{
			Path: path, Kind: product.FactGitConfig, Name: product.Text(s.name()), Detail: product.Text(s.value),
			SHA256: pairDigest(s.name(), s.value),
		})
	}
	return facts
}

// follow remembers the include targets and hook directories of a configuration.
func (x *Extractor) follow(path string, settings []setting) {
	worktree := ""
	for _, s := range settings {
		if s.section == "core" && s.key == "worktree" {
			worktree = s.value
		}
	}
	for _, s := range settings {
		switch {
		case (s.section == "include" || s.section == "includeif") && s.key == "path":
			x.add(lead{what: leadInclude, from: path, target: relative(dir(path), s.value)})
		case s.section == "core" && s.key == "hookspath":
			for _, base := range hookBases(path, worktree) {
				x.add(lead{what: leadHooks, from: path, target: relative(base, s.value)})
			}
		}
	}
}

// hookBases are the directories that a relative core.hooksPath in the
// configuration at path may mean: the working tree's root, or the git directory
// of a bare repository.
func hookBases(path, worktree string) []string {
	bases := []string{dir(path)}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if p == ".git" {
			bases = append(bases, strings.Join(parts[:i], "/"))
			break
		}
	}
	if worktree != "" {
		if rel := relative(dir(path), worktree); rel != "" {
			bases = append(bases, rel)
		}
	}
	return bases
}

// gitLink reports a ".git" or "commondir" file, which says where the git
// directory is.
func (x *Extractor) gitLink(e product.Entry, content []byte) []product.Fact {
	text := strings.TrimRight(string(content), "\r\n")
	target, isGitFile := strings.CutPrefix(text, "gitdir:")
	if base(e.Path) == "commondir" {
		if !product.InGit(e.Path) && e.Size > 4096 {
			return nil
		}
		target = text
	} else if !isGitFile {
		return []product.Fact{unparsed(e.Path, ".git file")}
	}
	target = strings.TrimLeft(target, " \t")
	if to := relative(dir(e.Path), target); to != "" {
		x.add(lead{what: leadGitDir, from: e.Path, target: to})
	}
	return []product.Fact{{Path: e.Path, Kind: product.FactGitLink, Name: base(e.Path), Detail: product.Text(target), SHA256: e.SHA256}}
}

func unparsed(path, what string) product.Fact {
	return product.Fact{Path: path, Kind: product.FactUnparsed, Name: what}
}

// pairDigest is over exactly the name and the value.
func pairDigest(name, value string) [32]byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(name)))
	return sha256.Sum256(append(append(b, name...), value...))
}

// relative returns the path of target seen from the directory base, or "" when
// it is empty, absolute, or begins in the home or installation directory.
func relative(base, target string) string {
	if target == "" || target[0] == '/' || target[0] == '~' || strings.HasPrefix(target, "%(prefix)") {
		return ""
	}
	if base == "" {
		return target
	}
	return base + "/" + target
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func dir(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

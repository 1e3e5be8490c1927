package audit

import (
	"bytes"
	"path"
	"strings"
	"unicode/utf8"
)

// MaxReferences is how many paths References names at most.
const MaxReferences = 32

// maxReferring is how much of a content is looked at, in bytes.
const maxReferring = 256 << 10

// References names the paths that the content of the file at from plainly refers
// to, relative to the same directory as from: words that begin with ./ or ../,
// that follow a word which loads or runs a file, or that are a path with the
// ending of a script. Whoever wants to hide a reference can; this is for the
// operator who would have missed it.
func References(from string, content []byte) []string {
	dir := workDir(from)
	if len(content) > maxReferring {
		content = content[:maxReferring]
	}
	if bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content) {
		return nil
	}
	var found []string
	seen := map[string]bool{}
	loads := false
	for _, word := range words(string(content)) {
		after := loads
		loads = loader(word)
		target, ok := reference(dir, word, after)
		if !ok || seen[target] || target == from {
			continue
		}
		seen[target] = true
		if found = append(found, target); len(found) == MaxReferences {
			break
		}
	}
	return found
}

// workDir is where a program that is named in the file at path begins: its
// directory, or for what tools keep in a directory of their own, the one that
// this lies in.
func workDir(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts[:len(parts)-1] {
		if strings.HasPrefix(p, ".") {
			return strings.Join(parts[:i], "/")
		}
	}
	return dir(path)
}

// words splits text where a shell, JSON or TOML would end a word.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune(" \t\r\n\"'`;&|()<>{}[],=", r)
	})
}

// loader reports whether the word after this one is a file that runs.
func loader(word string) bool {
	switch path.Base(word) {
	case "source", ".", "source_env", "source_env_if_exists", "source_up", "dotenv", "load", "sh", "bash", "zsh", "dash", "fish",
		"node", "deno", "bun", "tsx", "python", "python3", "ruby", "perl", "php", "exec", "eval", "env":
		return true
	}
	return false
}

// reference is the path inside the product that a word names, if it names one.
func reference(dir, word string, afterLoader bool) (string, bool) {
	word = strings.TrimPrefix(word, "$PWD/")
	explicit := strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../")
	script := strings.Contains(word, "/") && scriptEnding(path.Ext(word))
	if !explicit && !script && !(afterLoader && (strings.Contains(word, "/") || scriptEnding(path.Ext(word)) || strings.HasPrefix(word, "."))) {
		return "", false
	}
	if strings.HasPrefix(word, "/") || strings.HasPrefix(word, "-") || strings.HasPrefix(word, "~") || strings.ContainsAny(word, "$*?:\\") {
		return "", false
	}
	t := path.Join(dir, word)
	if t == "." || t == ".." || strings.HasPrefix(t, "../") || len(t) > 4096 {
		return "", false
	}
	return t, true
}

func scriptEnding(ext string) bool {
	switch ext {
	case ".sh", ".bash", ".zsh", ".fish", ".js", ".cjs", ".mjs", ".ts", ".mts", ".cts", ".py", ".rb", ".pl", ".php", ".lua", ".ps1", ".exe", ".cmd", ".bat":
		return true
	}
	return false
}

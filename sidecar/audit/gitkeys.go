package audit

import "strings"

// runs reports whether a git variable makes git run a program, read another
// configuration, or take its repository, hooks or data from somewhere else. The
// second value is true for those that only redirect what the operator asks for
// (remotes, proxies): they are reviews.
func (s setting) runs() (program, redirect bool) {
	switch s.section {
	case "core":
		return s.coreRuns(), false
	case "alias", "pager", "hook", "lfs", "include", "includeif", "guitool", "browser", "man", "instaweb", "protocol", "trailer":
		return true, false
	case "remote":
		switch s.key {
		case "uploadpack", "receivepack", "vcs", "promisor", "proxy":
			return true, false
		case "url", "pushurl":
			return strings.Contains(s.value, "::") || strings.HasPrefix(s.value, "-"), true
		}
	case "url", "http", "https":
		return false, true
	case "submodule":
		if s.key == "update" {
			return strings.HasPrefix(s.value, "!"), false
		}
		return false, s.key == "url"
	case "extensions":
		return s.key == "partialclone", false
	case "init":
		return s.key == "templatedir", false
	case "sendemail":
		return strings.HasSuffix(s.key, "cmd") || s.key == "smtpserver", false
	case "imap":
		return s.key == "tunnel", false
	case "gc":
		return s.key == "recentobjectshook", false
	case "uploadpack":
		return s.key == "packobjectshook", false
	case "interactive":
		return s.key == "difffilter", false
	case "gpg":
		return s.key == "program" || s.key == "defaultkeycommand", false
	}
	return programKey(s.key), false
}

// coreRuns is runs for the section core.
func (s setting) coreRuns() bool {
	switch s.key {
	case "fsmonitor":
		switch strings.ToLower(s.value) {
		case "true", "false", "yes", "no", "on", "off", "0", "1":
			return false // git's own daemon, or none
		}
		return !s.bare && s.value != ""
	case "worktree", "attributesfile", "gitproxy", "alternaterefscommand", "hookspath":
		return true
	}
	return programKey(s.key)
}

// programKey names the keys that hold a command in every section that git and
// its usual extensions know: filter.*.clean, diff.*.textconv, credential.helper.
func programKey(key string) bool {
	switch key {
	case "command", "cmd", "program", "helper", "driver", "clean", "smudge", "process", "textconv", "editor", "pager",
		"askpass", "external", "sshcommand", "hookspath", "tool-path", "path", "difffilter", "tocmd", "cccmd":
		return true
	}
	return strings.HasSuffix(key, "command") || strings.HasSuffix(key, "hook")
}

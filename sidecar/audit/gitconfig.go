package audit

import (
	"errors"
	"strings"
)

// setting is one variable of a git configuration file. Section and key are in
// lower case, the subsection is as written.
type setting struct {
	section, sub, key string
	value             string
	bare              bool // no "=": git reads it as true
}

// name is the variable's name as git prints it.
func (s setting) name() string {
	if s.sub == "" {
		return s.section + "." + s.key
	}
	return s.section + "." + s.sub + "." + s.key
}

var errGitConfig = errors.New("not a git configuration")

// maxSettings bounds the variables of one file.
const maxSettings = 20_000

// parseGitConfig reads git's configuration syntax (git-config(1)). What git
// would refuse is an error here, and so is what is unusual enough to doubt.
func parseGitConfig(content string) ([]setting, error) {
	p := configParser{rest: strings.TrimPrefix(content, "\uFEFF")}
	var all []setting
	section, sub := "", ""
	for {
		p.blank()
		c, ok := p.peek()
		switch {
		case !ok:
			return all, p.err
		case c == '[':
			section, sub = p.header()
		case isAlpha(c) && section != "":
			s := p.variable()
			s.section, s.sub = section, sub
			all = append(all, s)
		default:
			p.err = errGitConfig
		}
		if p.err != nil || len(all) > maxSettings {
			return nil, errGitConfig
		}
	}
}

type configParser struct {
	rest string
	err  error
}

func (p *configParser) peek() (byte, bool) {
	if p.rest == "" {
		return 0, false
	}
	return p.rest[0], true
}

// next takes one byte; CRLF counts as LF.
func (p *configParser) next() (byte, bool) {
	if strings.HasPrefix(p.rest, "\r\n") {
		p.rest = p.rest[1:]
	}
	c, ok := p.peek()
	if ok {
		p.rest = p.rest[1:]
	}
	return c, ok
}

// blank skips white space and comments.
func (p *configParser) blank() {
	for {
		c, ok := p.peek()
		switch {
		case !ok:
			return
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f':
			p.rest = p.rest[1:]
		case c == '#' || c == ';':
			end := strings.IndexByte(p.rest, '\n')
			if end < 0 {
				end = len(p.rest)
			}
			p.rest = p.rest[end:]
		default:
			return
		}
	}
}

// header reads [section], [section "sub"] or [section.sub].
func (p *configParser) header() (section, sub string) {
	p.next()
	var name strings.Builder
	for {
		c, ok := p.next()
		switch {
		case ok && c == ']':
			section, sub, _ = strings.Cut(strings.ToLower(name.String()), ".")
			if section == "" {
				p.err = errGitConfig
			}
			return section, sub
		case ok && (c == ' ' || c == '\t'):
			return strings.ToLower(name.String()), p.subsection()
		case ok && (isAlpha(c) || c >= '0' && c <= '9' || c == '-' || c == '.'):
			name.WriteByte(c)
		default:
			p.err = errGitConfig
			return "", ""
		}
	}
}

// subsection reads the quoted part of a header and its closing bracket.
func (p *configParser) subsection() string {
	p.rest = strings.TrimLeft(p.rest, " \t")
	if c, ok := p.next(); !ok || c != '"' {
		p.err = errGitConfig
		return ""
	}
	var sub strings.Builder
	for {
		c, ok := p.next()
		if ok && c == '\\' {
			c, ok = p.next()
		} else if ok && c == '"' {
			if c, ok = p.next(); !ok || c != ']' {
				p.err = errGitConfig
			}
			return sub.String()
		}
		if !ok || c == '\n' {
			p.err = errGitConfig
			return ""
		}
		sub.WriteByte(c)
	}
}

// variable reads "key", or "key = value" with quotes, escapes and continuation
// lines.
func (p *configParser) variable() setting {
	var s setting
	end := 0
	for end < len(p.rest) && (isAlpha(p.rest[end]) || p.rest[end] >= '0' && p.rest[end] <= '9' || p.rest[end] == '-') {
		end++
	}
	s.key = strings.ToLower(p.rest[:end])
	p.rest = strings.TrimLeft(p.rest[end:], " \t")
	c, ok := p.next()
	switch {
	case !ok || c == '\n':
		s.bare = true
	case c == '#' || c == ';':
		s.bare = true
		p.rest = "#" + p.rest // the rest of the line is a comment
	case c == '=':
		s.value = p.value()
	default:
		p.err = errGitConfig
	}
	return s
}

func (p *configParser) value() string {
	var v strings.Builder
	kept, quoted := 0, false // kept: length without trailing blanks
	p.rest = strings.TrimLeft(p.rest, " \t")
	for {
		c, ok := p.next()
		switch {
		case !ok || c == '\n':
			if quoted {
				p.err = errGitConfig
			}
			return v.String()[:kept]
		case !quoted && (c == '#' || c == ';'):
			p.rest = "#" + p.rest
			return v.String()[:kept]
		case c == '"':
			quoted = !quoted
			kept = v.Len()
			continue
		case c == '\\':
			if c, ok = p.escape(); !ok {
				continue
			}
			v.WriteByte(c)
			kept = v.Len()
			continue
		}
		v.WriteByte(c)
		if quoted || c != ' ' && c != '\t' {
			kept = v.Len()
		}
	}
}

// escape reads what follows a backslash; false is a continued line.
func (p *configParser) escape() (byte, bool) {
	c, ok := p.next()
	switch {
	case ok && c == '\n':
		return 0, false
	case ok && (c == '"' || c == '\\'):
		return c, true
	case ok && c == 'n':
		return '\n', true
	case ok && c == 't':
		return '\t', true
	case ok && c == 'b':
		return '\b', true
	}
	p.err = errGitConfig
	return 0, false
}

func isAlpha(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

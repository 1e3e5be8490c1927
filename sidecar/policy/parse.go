package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Parse reads a policy. The name is the file's, for messages. The error is an
// *Error with every problem, in the order of the lines.
func Parse(name string, data []byte) (*Policy, error) {
	root, err := document(data)
	if err != nil {
		return nil, &Error{File: name, Problems: []Problem{syntaxProblem(err)}}
	}
	p := defaults()
	p.name, p.digest = name, sha256.Sum256(data)
	r := &reader{lines: p.lines}
	r.policy(root, p)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
		return nil, &Error{File: name, Problems: r.problems}
	}
	return p, nil
}

// document returns the root node of the only document in data.
func document(data []byte) (*yaml.Node, error) {
	switch {
	case len(data) > MaxSize:
		return nil, fmt.Errorf("is larger than %s", writeSize(MaxSize))
	case !utf8.Valid(data):
		return nil, errors.New("is not UTF-8")
	case bytes.ContainsRune(data, '\ufeff'):
		return nil, errors.New("holds a byte order mark")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, errors.New("is empty; the smallest policy is: version: 1")
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); err == nil {
		return nil, fmt.Errorf("yaml: line %d: a second document starts here; one is read", more.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, errors.New("holds no document")
	}
	return doc.Content[0], nil
}

// syntaxProblem takes the line out of the YAML reader's message.
func syntaxProblem(err error) Problem {
	m := regexp.MustCompile(`(?s)^yaml: (?:line ([0-9]{1,9}): )?(.*)$`).FindStringSubmatch(err.Error())
	if m == nil {
		return Problem{Message: err.Error()}
	}
	line, err := strconv.Atoi(m[1])
	if err != nil {
		line = 0 // the message names none
	}
	return Problem{Line: line, Message: m[2]}
}

func (r *reader) policy(n *yaml.Node, p *Policy) {
	var version int
	r.object(n, "",
		field{"version", required, integer(r, &version, 1, 1)},
		field{"agent", optional, r.agent(&p.Agent)},
		field{"checks", optional, r.checks(p)},
		field{"stage", optional, func(n *yaml.Node, at string) {
			r.object(n, at, field{"exclude", optional, listOf(r, &p.Stage.Exclude, 0, 1000, ParseGlob)})
		}},
		field{"protected", optional, listOf(r, &p.Protected, 0, 1000, ParseGlob)},
		field{"classes", optional, r.classes(&p.Classes)},
		field{"audit", optional, r.audit(&p.Audit)},
		field{"allow", optional, func(n *yaml.Node, at string) {
			listOf(r, &p.Allow, 0, 16, word(WaiveRuntimeFloor, WaiveOneIdentity, WaiveNoLimits, WaiveSharedNetwork))(n, at)
			unique(r, n, at, p.Allow)
		}},
		field{"observer", optional, func(n *yaml.Node, at string) {
			r.object(n, at, field{"chain", optional, value(r, &p.Observer.Chain, named(Refuse, Allow))})
		}},
		field{"packages", optional, func(n *yaml.Node, at string) {
			r.object(n, at,
				field{"registry", optional, value(r, &p.Packages.Registry, origin)},
				field{"allow", optional, listOf(r, &p.Packages.Allow, 0, 1000, ParseNameGlob)},
				field{"deny", optional, listOf(r, &p.Packages.Deny, 0, 1000, ParseNameGlob)})
		}},
		field{"egress", optional, r.egress(&p.Egress)},
		field{"services", optional, r.services(&p.Services)},
		field{"ports", optional, r.ports(&p.Ports)},
	)
	for i := range p.Checks {
		if p.Checks[i].Image == (Image{}) {
			p.Checks[i].Image = p.Agent.Image
		}
	}
}

func (r *reader) agent(a *Agent) decode {
	return func(n *yaml.Node, at string) {
		var pass *yaml.Node
		r.object(n, at,
			field{"engine", optional, value(r, &a.Engine, word(EngineLocal, EngineDocker, EngineContainerd, EngineKubernetes))},
			field{"runtime", optional, value(r, &a.Runtime, word(RuntimeRunc, RuntimeRunsc))},
			field{"image", optional, r.image(&a.Image)},
			field{"command", optional, r.argv(&a.Command)},
			field{"env", optional, r.env(&a.Env)},
			field{"env_pass", optional, func(n *yaml.Node, at string) {
				pass = n
				listOf(r, &a.EnvPass, 0, 256, envName)(n, at)
				unique(r, n, at, a.EnvPass)
			}},
			field{"limits", optional, r.limits(&a.Limits)},
			field{"output", optional, value(r, &a.Output, size(minOutput, maxOutput))},
			field{"timeout", optional, value(r, &a.Timeout, duration(minTimeout, maxTimeout))},
			field{"grace", optional, value(r, &a.Grace, duration(minTimeout, maxGrace))},
			field{"mounts", optional, r.mounts(&a.Mounts)},
		)
		for _, v := range a.Env {
			if slices.Contains(a.EnvPass, v.Name) {
				r.refuse(pass, at+".env_pass", "%q is set in env too", v.Name)
			}
		}
		slices.Sort(a.EnvPass)
	}
}

func (r *reader) checks(p *Policy) decode {
	return func(n *yaml.Node, at string) {
		r.list(n, at, 0, 64, func(n *yaml.Node, at string) {
			c := defaultCheck()
			r.check(n, at, &c)
			if c.Name != "" && slices.ContainsFunc(p.Checks, func(have Check) bool { return have.Name == c.Name }) {
				r.refuse(n, at+".name", "%q names another check too", c.Name)
			}
			p.Checks = append(p.Checks, c)
		})
	}
}

func (r *reader) check(n *yaml.Node, at string, c *Check) {
	r.object(n, at,
		field{"name", required, value(r, &c.Name, checkName)},
		field{"argv", required, r.argv(&c.Argv)},
		field{"image", optional, r.image(&c.Image)},
		field{"dir", optional, value(r, &c.Dir, insidePath)},
		field{"expect", optional, integer(r, &c.Expect, 0, 255)},
		field{"timeout", optional, value(r, &c.Timeout, duration(minTimeout, maxTimeout))},
		field{"output", optional, value(r, &c.Output, size(minOutput, maxOutput))},
		field{"limits", optional, r.limits(&c.Limits)},
		field{"files", optional, r.files(&c.Files)},
		field{"form", optional, value(r, &c.Form, word(FormOneProcess, FormTwoProcess))},
	)
}

func (r *reader) files(dst *[]File) decode {
	return func(n *yaml.Node, at string) {
		r.list(n, at, 0, 256, func(n *yaml.Node, at string) {
			var f File
			r.object(n, at,
				field{"from", required, value(r, &f.From, absolutePath)},
				field{"to", required, value(r, &f.To, insideFile)})
			if f.To != "" && slices.ContainsFunc(*dst, func(have File) bool { return overlaps(have.To, f.To) }) {
				r.refuse(n, at+".to", "%q is, holds or lies under another file's place", f.To)
			}
			*dst = append(*dst, f)
		})
	}
}

func (r *reader) mounts(dst *[]Mount) decode {
	return func(n *yaml.Node, at string) {
		r.list(n, at, 0, 64, func(n *yaml.Node, at string) {
			var m Mount
			r.object(n, at,
				field{"source", required, value(r, &m.Source, absolutePath)},
				field{"target", required, value(r, &m.Target, mountTarget)},
				field{"writable", optional, boolean(r, &m.Writable)})
			if m.Target != "" && slices.ContainsFunc(*dst, func(have Mount) bool { return overlaps(have.Target, m.Target) }) {
				r.refuse(n, at+".target", "%q is, holds or lies under another mount's target", m.Target)
			}
			*dst = append(*dst, m)
		})
	}
}

func (r *reader) audit(a *Audit) decode {
	return func(n *yaml.Node, at string) {
		r.object(n, at,
			field{"max_entries", optional, integer(r, &a.MaxEntries, 1, 100_000_000)},
			field{"max_file_size", optional, value(r, &a.MaxFileSize, size(1, maxTree))},
			field{"max_total_size", optional, value(r, &a.MaxTotalSize, size(1, maxTree))},
			field{"timeout", optional, value(r, &a.Timeout, duration(minTimeout, maxTimeout))},
		)
	}
}

func (r *reader) limits(l *Limits) decode {
	return func(n *yaml.Node, at string) {
		r.object(n, at,
			field{"memory", optional, value(r, &l.Memory, size(16<<20, 4<<40))},
			field{"pids", optional, integer(r, &l.PIDs, 16, 4_000_000)},
			field{"cpus", optional, cores(r, &l.MilliCPUs)},
			field{"open_files", optional, integer(r, &l.OpenFiles, 64, 1<<20)},
		)
	}
}

func (r *reader) image(dst *Image) decode {
	return func(n *yaml.Node, at string) {
		var img Image
		var hasRef bool
		r.object(n, at,
			field{"kind", required, value(r, &img.Kind, word(ImageHost, ImageRootfs, ImageRef))},
			field{"ref", optional, func(n *yaml.Node, at string) {
				hasRef = true
				value(r, &img.Ref, anyText)(n, at)
			}})
		switch {
		case img.Kind == ImageHost && hasRef:
			r.refuse(n, at+".ref", "has no meaning for kind host")
		case img.Kind != "" && img.Kind != ImageHost && !hasRef:
			r.refuse(n, at+".ref", "is missing; kind %s needs it", img.Kind)
		case img.Kind == ImageRootfs && img.Ref != "":
			r.must(n, at+".ref", img.Ref, absolutePath)
		case img.Kind == ImageRef && img.Ref != "":
			r.must(n, at+".ref", img.Ref, reference)
		}
		*dst = img
	}
}

func (r *reader) argv(dst *[]string) decode {
	return func(n *yaml.Node, at string) {
		before := len(r.problems)
		listOf(r, dst, 1, 1024, anyText)(n, at)
		if len(r.problems) > before || len(*dst) == 0 {
			return
		}
		total := 0
		for _, a := range *dst {
			total += len(a) + 1
		}
		switch {
		case (*dst)[0] == "":
			r.refuse(n, at+"[0]", "is empty; the program's name or path is needed")
		case total > maxArgv:
			r.refuse(n, at, "is longer than %s", writeSize(maxArgv))
		}
	}
}

func (r *reader) env(dst *[]EnvVar) decode {
	return func(n *yaml.Node, at string) {
		r.pairs(n, at, func(key, val *yaml.Node) {
			v := EnvVar{Name: key.Value}
			if r.must(key, join(at, key.Value), key.Value, envName) {
				value(r, &v.Value, envValue)(val, join(at, key.Value))
				*dst = append(*dst, v)
			}
		})
		if len(*dst) > 256 {
			r.refuse(n, at, "holds %d variables, at most 256 are read", len(*dst))
		}
		slices.SortFunc(*dst, func(a, b EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	}
}

// must refuses a value that parse does not take.
func (r *reader) must(n *yaml.Node, at, s string, parse func(string) (string, error)) bool {
	_, err := parse(s)
	if err != nil {
		r.refuse(n, at, "%s %s", abbreviate(s), err)
	}
	return err == nil
}

// listOf returns a decode that reads a list of strings, each parsed.
func listOf[T any](r *reader, dst *[]T, least, most int, parse func(string) (T, error)) decode {
	return func(n *yaml.Node, at string) {
		r.list(n, at, least, most, func(n *yaml.Node, at string) {
			var v T
			value(r, &v, parse)(n, at)
			*dst = append(*dst, v)
		})
	}
}

package compose

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/template"
	"time"
)

// Identities of the stack's containers.
const (
	Supervisor = 64003
	Agent      = 64001
)

// Stack is one policy as a compose file.
type Stack struct {
	Product string // absolute; "" leaves it to $PROCTOR_PRODUCT
	Policy  []byte
	Exclude []string
	Limits  []string // flags that bound the walks
	Agent   Process
	Checks  []Check
}

// Process is the agent, or the process of a check.
type Process struct {
	Image   string
	Argv    []string
	Env     []string // NAME=VALUE, or NAME for the environment's own
	Runtime string   // "" is the daemon's default
	Memory  int64
	PIDs    int64
	Milli   int64 // thousandths of a core
	Files   uint64
	Output  int64
	Timeout time.Duration
	Grace   time.Duration
}

// Check judges the product.
type Check struct {
	Process
	Name string
	Dir  string // in the product
}

// maxPolicy is what fits into one argument of a step.
const maxPolicy = 100 << 10

// Write writes the file.
func (s Stack) Write(w io.Writer) error {
	if len(s.Policy) > maxPolicy {
		return fmt.Errorf("policy of %d bytes, and a stack takes %d at most", len(s.Policy), maxPolicy)
	}
	t, err := template.New("stack").Funcs(template.FuncMap{
		"q": quote, "list": list, "product": s.product, "in": s.in, "volume": volume,
		"cpus": func(milli int64) string { return fmt.Sprintf("%g", float64(milli)/1000) },
		"kib":  func(n int64) int64 { return max(n>>10, 1) },
		"argv": s.argv, "open": s.open, "seal": s.seal, "last": s.last, "before": s.beforeCheck, "walk": s.walk, "stage": s.stage,
	}).Parse(stackTemplate)
	if err != nil {
		return err
	}
	return t.Execute(w, s)
}

// quote is a YAML string that compose does not expand.
func quote(s string) string { return text(strings.ReplaceAll(s, "$", "$$")) }

func text(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string and a buffer
	return strings.TrimSpace(b.String())
}

func list(all []string) string {
	quoted := make([]string, 0, len(all))
	for _, s := range all {
		quoted = append(quoted, quote(s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

const productVariable = "${PROCTOR_PRODUCT:?the absolute path of the product}"

func (s Stack) product() string {
	if s.Product == "" {
		return text(productVariable)
	}
	return quote(s.Product)
}

func (s Stack) in(dir string) string {
	if dir == "." || dir == "" {
		return s.product()
	}
	if s.Product == "" {
		return text(productVariable + "/" + strings.ReplaceAll(dir, "$", "$$"))
	}
	return quote(s.Product + "/" + dir)
}

// volume is one mount in the long form. Only the first one that mounts an empty
// volume may fill it: "own".
func volume(source, target, how string) string {
	switch how {
	case "own":
		return fmt.Sprintf("{type: volume, source: %s, target: %s}", source, target)
	case "rw":
		return fmt.Sprintf("{type: volume, source: %s, target: %s, volume: {nocopy: true}}", source, target)
	}
	return fmt.Sprintf("{type: volume, source: %s, target: %s, read_only: true, volume: {nocopy: true}}", source, target)
}

// argv is a first process's command line.
func (s Stack) argv(p Process, socket, mount, dir string) string {
	flags := list([]string{"init", "--report", socket, "--timeout", p.Timeout.String(), "--grace", p.Grace.String(), "--" + mount})
	rest := list(append([]string{"--"}, p.Argv...))
	return strings.TrimSuffix(flags, "]") + ", " + s.product() + `, "--dir", ` + s.in(dir) + ", " + strings.TrimPrefix(rest, "[")
}

func (s Stack) open() string {
	argv := []string{"chain", "open", "--policy-text", string(s.Policy)}
	images := map[string]string{"agent": s.Agent.Image, "supervisor": "proctor"}
	for _, c := range s.Checks {
		images["check "+c.Name] = c.Image
	}
	names := make([]string, 0, len(images))
	for name := range images {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		argv = append(argv, "--image", name+"="+images[name])
	}
	rest := list(append([]string{"--"}, s.Agent.Argv...))
	return strings.TrimSuffix(list(argv), "]") + `, "--product", ` + s.product() + ", " + strings.TrimPrefix(rest, "[")
}

// seal is told what was meant: compose may have kept containers of an older file.
func (s Stack) seal() string {
	return fmt.Sprintf(`[chain, seal, --policy-sha256, "%x", --product, %s]`, sha256.Sum256(s.Policy), s.product())
}

func (s Stack) stage() string {
	argv := append([]string{"chain", "stage", "--owner", fmt.Sprint(Agent), "--group", fmt.Sprint(Agent)}, s.Limits...)
	for _, e := range s.Exclude {
		argv = append(argv, "--exclude", e)
	}
	return list(append(argv, "/original", "/stage"))
}

func (s Stack) walk(step string) string {
	argv := append([]string{"chain", step}, s.Limits...)
	return strings.TrimSuffix(list(argv), "]") + ", " + s.product() + "]"
}

// beforeCheck is the service that a check waits for.
func (s Stack) beforeCheck(n int) string {
	if n == 0 {
		return "before"
	}
	return "check-" + s.Checks[n-1].Name
}

// last is the service that the reader waits for.
func (s Stack) last() string {
	if len(s.Checks) == 0 {
		return "agent"
	}
	return "check-" + s.Checks[len(s.Checks)-1].Name
}

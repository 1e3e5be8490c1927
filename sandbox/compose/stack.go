package compose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/proctor-project/proctor/sandbox/chain"
)

const (
	// product stands for what only the environment of a compose knows.
	product         = "\x00product\x00"
	productVariable = "${PROCTOR_PRODUCT:?the absolute path of the product}"
	imageVariable   = "${PROCTOR_IMAGE:-proctor:local}"
)

// Write writes the file. A session without a product takes the one that
// $PROCTOR_PRODUCT names when the stack runs.
func Write(w io.Writer, s chain.Session) error {
	if s.Product == "" {
		s.Product = product
	}
	steps, err := s.Steps()
	if err != nil {
		return err
	}
	file := stack{Steps: steps, Tools: s.Tools(), product: s.Product}
	t, err := template.New("stack").Funcs(template.FuncMap{
		"q": quote, "list": list, "image": image, "user": user, "volume": file.volume,
		"temp":   func() string { return temp },
		"stager": func(s chain.Step) bool { return s.Who == chain.Stager },
		"probe":  func(argv []string) string { return list(append([]string{"CMD"}, argv...)) },
		"until":  until,
		"cpus":   func(milli int64) string { return fmt.Sprintf("%g", float64(milli)/1000) },
		"kib":    func(n int64) int64 { return max(n>>10, 1) },
		"mib":    func(n int64) int64 { return max(n>>20, 1) },
	}).Parse(stackTemplate)
	if err != nil {
		return err
	}
	return t.Execute(w, file)
}

// temp is /tmp of agent and check. An older runc gives it, when a container is
// started again, the mode of the directory below, which may be anything; so it
// belongs to who uses it.
const temp = "mode=1777,uid=64001,gid=64001"

type stack struct {
	Steps, Tools []chain.Step
	product      string
}

// Volumes are named once each.
func (s stack) Volumes() []string { return chain.Volumes(slices.Concat(s.Steps, s.Tools)) }

// Networks reports whether a step has one.
func (s stack) Networks() bool {
	return slices.ContainsFunc(s.Steps, func(s chain.Step) bool { return s.Network == chain.Outside })
}

// quote is a YAML string in which compose expands nothing but the product's
// variable.
func quote(s string) string {
	return text(strings.ReplaceAll(strings.ReplaceAll(s, "$", "$$"), product, productVariable))
}

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

func image(ref string) string {
	if ref == "" {
		return text(imageVariable)
	}
	return quote(ref)
}

// user gives the step that reads files of every owner the container's root, for
// its three capabilities.
func user(w chain.Who) string {
	id := map[chain.Who]int{chain.Supervisor: chain.SupervisorID, chain.Reader: chain.GuestID, chain.Guest: chain.GuestID}[w]
	return fmt.Sprintf(`"%d:%d"`, id, id)
}

// volume is one mount in the long form. Only the first one that mounts an empty
// volume may fill it.
func (s stack) volume(m chain.Mount) string {
	fields := []string{"type: volume", "source: " + m.Volume, "target: " + quote(m.Target)}
	if m.Volume == chain.Original {
		fields = []string{"type: bind", "source: " + quote(s.product), "target: " + quote(m.Target)}
	}
	if m.How == chain.ReadOnly {
		fields = append(fields, "read_only: true")
	}
	if m.Volume != chain.Original && m.How != chain.Own {
		fields = append(fields, "volume: {nocopy: true}")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func until(u chain.Until) string {
	if u == chain.IsReady {
		return "service_healthy"
	}
	return "service_completed_successfully"
}

const stackTemplate = `# Written by proctor render compose: change the policy, not this file.
# docker compose run --rm seal is the whole session; its status is the verdict's.
# After a change of policy: docker compose down --remove-orphans first, which keeps the volumes.
# docs/compose.md says what this gives, and what only a launcher can.

x-step: &step
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  restart: "no"
  working_dir: /

services:
{{- range .Steps}}
{{template "step" .}}
    entrypoint: {{list (slice .Argv 0 1)}}
    command: {{list (slice .Argv 1)}}
{{- if .Ready}}
    healthcheck: {test: {{probe .Ready}}, interval: 1s, timeout: 5s, retries: 60}
{{- end}}
{{- template "after" .}}
{{- end}}
{{- range .Tools}}

  # docker compose run --rm {{if not .After}}--no-deps {{end}}{{.Name}}
{{- template "step" .}}
    profiles: [tools]
    entrypoint: {{list .Argv}}
{{- template "after" .}}
{{- end}}

volumes:
{{- range .Volumes}}
  {{.}}: {}
{{- end}}
{{- if .Networks}}

networks:
  doors: {}
{{- end}}
{{define "after"}}
{{- if .After}}
    depends_on:
{{- range .After}}
      {{.Step}}: {condition: {{until .Until}}}
{{- end}}
{{- end}}
{{- end}}
{{define "step"}}
{{- if .Note}}
  # {{.Note}}
{{- end}}
  {{.Name}}:
    <<: *step
    image: {{image .Image}}
    user: {{user .Who}}
{{- if .Network}}
    networks: [doors]
{{- else}}
    network_mode: none
{{- end}}
{{- if stager .}}
    cap_add: [CHOWN, DAC_OVERRIDE, FOWNER]
{{- end}}
{{- if .Runtime}}
    runtime: {{q .Runtime}}
{{- end}}
{{- if .Env}}
    environment: {{list .Env}}
{{- end}}
    mem_limit: {{.Memory}}
    memswap_limit: {{.Memory}}
    pids_limit: {{.PIDs}}
{{- if .Milli}}
    cpus: {{cpus .Milli}}
{{- end}}
{{- if .Files}}
    ulimits: {nofile: {soft: {{.Files}}, hard: {{.Files}}}}
{{- end}}
{{- if .Temp}}
    tmpfs: ["/tmp:size={{mib .Temp}}m,{{temp}}"]
{{- end}}
    logging: {driver: json-file, options: {max-size: {{kib .Output}}k, max-file: "1"}}
    volumes:
{{- range .Mounts}}
      - {{volume .}}
{{- end}}
{{- end}}
`

package compose

const stackTemplate = `# Written by proctor render compose: change the policy, not this file.
# docker compose run --rm seal is the whole session; its status is the verdict's.
# After a change of policy: docker compose down --remove-orphans first, which keeps the volumes.
# docs/compose.md says what this gives, and what only a launcher can.

x-step: &step
  image: "${PROCTOR_IMAGE:-proctor:local}"
  network_mode: none
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  restart: "no"
  mem_limit: 1g
  memswap_limit: 1g
  pids_limit: 128
  logging: {driver: json-file, options: {max-size: 16m, max-file: "1"}}

x-supervisor: &supervisor
  <<: *step
  user: "64003:64003"

x-reader: &reader
  <<: *step
  user: "64001:64001"

x-guest: &guest
  user: "64001:64001"
  network_mode: none
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  restart: "no"
  entrypoint: ["/.proctor/bin/proctor-agent"]
  working_dir: /
  tmpfs: ["/tmp:size=256m,mode=1777"]

services:
  # Nothing of these volumes is a secret: sockets, handoffs, the agent's first process.
  prepare:
    <<: *supervisor
    command: [chain, prepare]
    volumes:
      - {{volume "programs" "/programs" "own"}}
      - {{volume "sockets" "/run/proctor" "own"}}
      - {{volume "checks" "/run/checks" "own"}}
      - {{volume "reader" "/run/reader" "own"}}
      - {{volume "facts" "/handoff/facts" "own"}}
      - {{volume "baseline" "/handoff/baseline" "own"}}

  # The key is made in its volume, once, and is never anywhere else.
  init:
    <<: *supervisor
    command: [chain, init]
    volumes:
      - {{volume "root" "/keys/root" "own"}}
      - {{volume "ledger-keys" "/keys/ledger" "own"}}
      - {{volume "ledger" "/control/ledger" "own"}}
      - {{volume "session" "/control/session" "own"}}

  # Reads files of every owner and gives the copy to the agent: root of its
  # container, with these three capabilities, no network and no key.
  stage:
    <<: *step
    user: "0:0"
    cap_add: [CHOWN, DAC_OVERRIDE, FOWNER]
    command: {{stage}}
    volumes:
      - {type: bind, source: {{product}}, target: /original, read_only: true}
      - {{volume "stage" "/stage" "rw"}}
      - {{volume "baseline" "/handoff/baseline" "rw"}}
    depends_on:
      prepare: {condition: service_completed_successfully}

  open:
    <<: *supervisor
    command: {{open}}
    volumes:
      - {{volume "root" "/keys/root" "ro"}}
      - {{volume "ledger" "/control/ledger" "rw"}}
      - {{volume "session" "/control/session" "rw"}}
      - {{volume "baseline" "/handoff/baseline" "ro"}}
    depends_on:
      init: {condition: service_completed_successfully}
      stage: {condition: service_completed_successfully}

  serve:
    <<: *supervisor
    command: [chain, serve]
    volumes:
      - {{volume "ledger" "/control/ledger" "ro"}}
      - {{volume "session" "/control/session" "rw"}}
      - {{volume "sockets" "/run/proctor" "rw"}}
      - {{volume "checks" "/run/checks" "rw"}}
      - {{volume "reader" "/run/reader" "rw"}}
    healthcheck: {test: [CMD, /proctor-sidecar, chain, ready], interval: 1s, timeout: 5s, retries: 60}
    depends_on:
      open: {condition: service_completed_successfully}

  agent:
    <<: *guest
{{- template "process" .Agent}}
    command: {{argv .Agent "/run/proctor/supervisor.sock" "writable" "."}}
    volumes:
      - {{volume "programs" "/.proctor/bin" "ro"}}
      - {{volume "sockets" "/run/proctor" "ro"}}
      - {{volume "stage" product "rw"}}
    depends_on:
      serve: {condition: service_healthy}
{{- if .Checks}}

  before:
    <<: *reader
    command: {{walk "before"}}
    volumes:
      - {{volume "reader" "/run/reader" "ro"}}
      - {{volume "stage" product "ro"}}
    depends_on:
      agent: {condition: service_completed_successfully}
{{- end}}
{{- range $n, $c := .Checks}}

  check-{{$c.Name}}:
    <<: *guest
{{- template "process" $c.Process}}
    command: {{argv $c.Process (printf "/run/checks/%s.sock" $c.Name) "read-only" $c.Dir}}
    volumes:
      - {{volume "programs" "/.proctor/bin" "ro"}}
      - {{volume "checks" "/run/checks" "ro"}}
      - {{volume "stage" product "ro"}}
    depends_on:
      {{before $n}}: {condition: service_completed_successfully}
{{- end}}

  read:
    <<: *reader
    command: {{walk "read"}}
    volumes:
      - {{volume "reader" "/run/reader" "ro"}}
      - {{volume "facts" "/handoff/facts" "rw"}}
      - {{volume "stage" product "ro"}}
    depends_on:
      {{last}}: {condition: service_completed_successfully}

  seal:
    <<: *supervisor
    command: {{seal}}
    volumes:
      - {{volume "root" "/keys/root" "ro"}}
      - {{volume "ledger" "/control/ledger" "rw"}}
      - {{volume "session" "/control/session" "rw"}}
      - {{volume "facts" "/handoff/facts" "ro"}}
      - {{volume "seals" "/seals" "own"}}
    depends_on:
      read: {condition: service_completed_successfully}

  # docker compose run --rm --no-deps export [FILE]
  export:
    <<: *supervisor
    profiles: [tools]
    entrypoint: [/proctor-sidecar, chain, export]
    volumes:
      - {{volume "seals" "/seals" "ro"}}

  # docker compose run --rm --no-deps public-key
  public-key:
    <<: *supervisor
    profiles: [tools]
    command: [chain, public-key]
    volumes:
      - {{volume "ledger-keys" "/keys/ledger" "ro"}}
      - {{volume "ledger" "/control/ledger" "ro"}}

volumes:
  root: {}
  ledger-keys: {}
  ledger: {}
  session: {}
  seals: {}
  stage: {}
  programs: {}
  sockets: {}
  checks: {}
  reader: {}
  facts: {}
  baseline: {}
{{define "process"}}
    image: {{q .Image}}
{{- if .Runtime}}
    runtime: {{q .Runtime}}
{{- end}}
    environment: {{list .Env}}
    mem_limit: {{.Memory}}
    memswap_limit: {{.Memory}}
    pids_limit: {{.PIDs}}
    cpus: {{cpus .Milli}}
    ulimits: {nofile: {soft: {{.Files}}, hard: {{.Files}}}}
    logging: {driver: json-file, options: {max-size: {{kib .Output}}k, max-file: "1"}}
{{- end}}`

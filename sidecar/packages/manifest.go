package packages

import (
	"encoding/json"
	"maps"
	"slices"
)

// Manifest is what installing needs to know of one version.
type Manifest struct {
	Identity
	Dependencies map[string]string
	Optional     map[string]string // overrides the same name in Dependencies
	Peers        map[string]string // those that are not optional
	Bundled      map[string]bool   // inside its own archive
	OS, CPU      []string          // empty means any
	Scripts      bool              // has install scripts
}

type manifestEntry struct {
	entry
	Dependencies map[string]string          `json:"dependencies,omitempty"`
	Optional     map[string]string          `json:"optionalDependencies,omitempty"`
	Peers        map[string]string          `json:"peerDependencies,omitempty"`
	PeersMeta    map[string]peerMeta        `json:"peerDependenciesMeta,omitempty"`
	Bundle       json.RawMessage            `json:"bundleDependencies,omitempty"`
	Bundled      json.RawMessage            `json:"bundledDependencies,omitempty"`
	OS           json.RawMessage            `json:"os,omitempty"`
	CPU          json.RawMessage            `json:"cpu,omitempty"`
	Scripts      map[string]json.RawMessage `json:"scripts,omitempty"`
	HasScript    bool                       `json:"hasInstallScript,omitempty"`
}

type peerMeta struct {
	Optional bool `json:"optional,omitempty"`
}

// Versions are the versions that the document has and that can be approved, in
// byte order, each with whether it is deprecated.
func (d *Document) Versions() (versions []string, deprecated map[string]bool) {
	deprecated = map[string]bool{}
	for _, v := range slices.Sorted(maps.Keys(d.doc.Versions)) {
		if CheckVersion(v) != nil {
			continue
		}
		versions = append(versions, v)
		var e struct {
			Deprecated json.RawMessage `json:"deprecated,omitempty"`
		}
		if err := readForeign(d.doc.Versions[v], &e, MaxDocument); err == nil {
			switch string(e.Deprecated) {
			case "", `""`, "false", "null":
			default:
				deprecated[v] = true
			}
		}
	}
	return versions, deprecated
}

// Tags are the document's dist-tags, as they stand there.
func (d *Document) Tags() map[string]string { return maps.Clone(d.doc.Tags) }

// Size is the number of bytes that the document had.
func (d *Document) Size() int { return d.size }

// Manifest reads one version's entry.
func (d *Document) Manifest(version string) (Manifest, error) {
	id, err := d.Identity(Spec{Name: d.doc.Name, Version: version})
	if err != nil {
		return Manifest{}, err
	}
	var e manifestEntry
	if err := readEntry(id.Spec(), d.doc.Versions[version], &e); err != nil {
		return Manifest{}, err
	}
	m := Manifest{
		Identity: id, Dependencies: e.Dependencies, Optional: e.Optional, Peers: map[string]string{}, Bundled: map[string]bool{},
		OS: textList(e.OS), CPU: textList(e.CPU), Scripts: e.HasScript,
	}
	for name, text := range e.Peers {
		if !e.PeersMeta[name].Optional {
			m.Peers[name] = text
		}
	}
	for _, script := range []string{"preinstall", "install", "postinstall"} {
		if _, has := e.Scripts[script]; has {
			m.Scripts = true
		}
	}
	for _, raw := range []json.RawMessage{e.Bundle, e.Bundled} {
		if string(raw) == "true" {
			for name := range m.Dependencies {
				m.Bundled[name] = true
			}
		}
		for _, name := range textList(raw) {
			m.Bundled[name] = true
		}
	}
	return m, nil
}

// textList takes a list of texts, or one text; anything else is empty.
func textList(raw json.RawMessage) []string {
	var many []string
	var one string
	switch {
	case len(raw) == 0:
	case json.Unmarshal(raw, &many) == nil:
		return many
	case json.Unmarshal(raw, &one) == nil:
		return []string{one}
	}
	return nil
}

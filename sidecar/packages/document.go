package packages

import (
	"encoding/json"
	"errors"

	"github.com/proctor-project/proctor/keys/strictjson"
)

// MaxDocument is the largest registry document that is read, in bytes. The
// abbreviated documents of the packages with the most versions have 4 to 7 MiB.
const MaxDocument = 8 << 20

const maxDocumentDepth = 32

// document is what is read of a registry's answer about one package.
type document struct {
	Name     string                     `json:"name"`
	Tags     map[string]string          `json:"dist-tags,omitempty"`
	Versions map[string]json.RawMessage `json:"versions,omitempty"`
}

// entry is what is read of one version.
type entry struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Dist    dist   `json:"dist,omitempty"`
}

type dist struct {
	Integrity json.RawMessage `json:"integrity,omitempty"`
}

// Document is the registry's well-formed answer about one package.
type Document struct {
	registry string
	doc      document
	size     int // bytes of its text
}

// ParseDocument reads the registry's answer about the package. Versions are
// looked at only when they are asked for.
func ParseDocument(registry, name string, data []byte) (*Document, error) {
	return parseDocument(registry, name, data, MaxDocument)
}

func parseDocument(registry, name string, data []byte, limit int) (*Document, error) {
	d := &Document{registry: registry, size: len(data)}
	if err := readForeign(data, &d.doc, limit); err != nil {
		return nil, &Error{Reason: jsonReason(err), Subject: name, Detail: "the registry's document", Err: err}
	}
	if d.doc.Name != name {
		return nil, refuse(OtherName, name, d.doc.Name)
	}
	return d, nil
}

func readForeign(data []byte, v any, limit int) error {
	return strictjson.NewForeign(strictjson.Limits{Depth: maxDocumentDepth, Size: limit}).Unmarshal(data, v)
}

func jsonReason(err error) Reason {
	switch {
	case errors.Is(err, strictjson.ErrTwice):
		return DuplicateKey
	case errors.Is(err, strictjson.ErrTooLarge):
		return TooLarge
	}
	return Malformed
}

// Identity resolves the spec, which must be of this document's package.
func (d *Document) Identity(s Spec) (Identity, error) {
	version := s.Version
	if version == "" {
		var ok bool
		if version, ok = d.doc.Tags[s.Tag]; !ok {
			return Identity{}, refuse(NoTag, s.String(), "")
		}
		if err := CheckVersion(version); err != nil {
			return Identity{}, &Error{Reason: InexactTag, Subject: s.String(), Detail: version, Err: err}
		}
	}
	id := Identity{Registry: d.registry, Name: s.Name, Version: version}
	raw, ok := d.doc.Versions[version]
	if !ok || len(raw) == 0 || raw[0] != '{' {
		return Identity{}, refuse(NoVersion, id.Spec(), "")
	}
	var e entry
	if err := readEntry(id.Spec(), raw, &e); err != nil {
		return Identity{}, err
	}
	return e.identity(id)
}

// parseVersion reads the registry's answer about one version alone.
func parseVersion(registry string, s Spec, data []byte) (Identity, error) {
	var e entry
	if err := readEntry(s.String(), data, &e); err != nil {
		return Identity{}, err
	}
	id := Identity{Registry: registry, Name: s.Name, Version: s.Version}
	if s.Version == "" {
		id.Version = e.Version
		if err := CheckVersion(e.Version); err != nil {
			return Identity{}, &Error{Reason: InexactTag, Subject: s.String(), Detail: e.Version, Err: err}
		}
	}
	return e.identity(id)
}

func readEntry(subject string, data []byte, e any) error {
	if err := readForeign(data, e, MaxDocument); err != nil {
		return &Error{Reason: jsonReason(err), Subject: subject, Detail: "the version's entry", Err: err}
	}
	return nil
}

// identity holds the entry against what it was asked for as.
func (e *entry) identity(id Identity) (Identity, error) {
	if e.Name != id.Name || e.Version != id.Version {
		return Identity{}, refuse(OtherEntry, id.Spec(), e.Name+"@"+e.Version)
	}
	var err error
	id.Integrity, err = integrityOf(id.Spec(), e.Dist.Integrity)
	return id, err
}

// integrityOf takes the value of an integrity field, which may be of any kind.
func integrityOf(subject string, raw json.RawMessage) (string, error) {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s == "" {
		return "", refuse(NoIntegrity, subject, "")
	}
	if err := CheckIntegrity(s); err != nil {
		return "", &Error{Reason: WeakIntegrity, Subject: subject, Err: err}
	}
	return s, nil
}

package packages

import (
	"errors"
	"net/url"
	"path"
	"strings"
)

// Identity is one exact package: what can be approved. Two packages are the
// same only if all four fields are equal.
type Identity struct {
	Registry  string `json:"registry"` // origin, as Origin writes it
	Name      string `json:"name"`
	Version   string `json:"version"`
	Integrity string `json:"integrity"` // "sha512-" and base64
}

// Spec is NAME@VERSION.
func (i Identity) Spec() string { return i.Name + "@" + i.Version }

// Check refuses an identity that is not whole and well-formed.
func (i Identity) Check() error {
	origin, err := Origin(i.Registry)
	if err != nil || origin != i.Registry {
		return refuse(NoRegistry, i.Spec(), i.Registry)
	}
	if err := CheckName(i.Name); err != nil {
		return &Error{Reason: BadName, Subject: i.Spec(), Err: err}
	}
	if err := CheckVersion(i.Version); err != nil {
		return &Error{Reason: BadVersion, Subject: i.Spec(), Err: err}
	}
	if err := CheckIntegrity(i.Integrity); err != nil {
		return &Error{Reason: WeakIntegrity, Subject: i.Spec(), Err: err}
	}
	return nil
}

// Origin writes the address of a registry in the one spelling that identities
// use: scheme and host in lower case, no default port, no trailing slash.
func Origin(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "" || u.Hostname() == "":
		return "", errors.New("not the address of a registry")
	case u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("not an http or https address")
	case u.User != nil || strings.ContainsAny(address, "?#"):
		return "", errors.New("credentials, a query or a fragment do not belong into a registry's address")
	}
	host := strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"https": ":443", "http": ":80"}[u.Scheme])
	where := u.EscapedPath()
	if strings.Contains(where, "%") {
		return "", errors.New("the path of a registry's address holds an escape")
	}
	if clean := path.Clean("/" + where); clean != "/" && clean != strings.TrimSuffix(where, "/") {
		return "", errors.New("the path of a registry's address is not clean")
	}
	return u.Scheme + "://" + host + strings.TrimRight(where, "/"), nil
}

// documentURL is where a registry keeps the package's document: one segment
// below its origin, whatever the name holds.
func documentURL(origin, name string) string {
	return origin + "/" + url.PathEscape(name)
}

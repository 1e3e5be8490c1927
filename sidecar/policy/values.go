package policy

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The ranges that several fields share.
const (
	minOutput  = 1 << 10
	maxOutput  = 64 << 30
	minTimeout = time.Second
	maxTimeout = 7 * 24 * time.Hour
	maxGrace   = 10 * time.Minute
	maxTree    = 256 << 40
	maxArgv    = 128 << 10
	maxPath    = 4095 // PATH_MAX without its NUL
)

// defaults returns the policy of a file that says only its version.
func defaults() *Policy {
	return &Policy{
		Agent: Agent{
			Engine:  EngineLocal,
			Runtime: RuntimeRunc,
			Image:   Image{Kind: ImageHost},
			Limits:  defaultLimits(),
			Output:  64 << 20,
			Timeout: time.Hour,
			Grace:   10 * time.Second,
		},
		Classes: Classes{Review: HandleList, Tree: HandleFail},
		Audit: Audit{
			MaxEntries:   1_000_000,
			MaxFileSize:  4 << 30,
			MaxTotalSize: 64 << 30,
			Timeout:      10 * time.Minute,
		},
		Ports: Ports{Proxy: 3128, NPM: 4873, Services: 4100},
		lines: map[string]int{},
	}
}

func defaultLimits() Limits {
	return Limits{Memory: 2 << 30, PIDs: 512, MilliCPUs: 2000, OpenFiles: 4096}
}

func defaultCheck() Check {
	return Check{
		Dir:     ".",
		Timeout: 10 * time.Minute,
		Output:  16 << 20,
		Limits:  defaultLimits(),
		Form:    FormOneProcess,
	}
}

// unique refuses a list whose values are not all different.
func unique[T ~string](r *reader, n *yaml.Node, at string, values []T) {
	seen := map[T]bool{}
	for _, v := range values {
		if v != "" && seen[v] {
			r.refuse(n, at, "%q is given twice", string(v))
		}
		seen[v] = true
	}
}

func anyText(s string) (string, error) { return s, nil }

func envName(s string) (string, error) {
	switch {
	case !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`).MatchString(s):
		return "", errors.New("is not a variable's name")
	case strings.HasPrefix(s, "PROCTOR_"):
		return "", errors.New("is reserved: names that start with PROCTOR_ are proctor's own")
	}
	return s, nil
}

func envValue(s string) (string, error) {
	if len(s) > 64<<10 {
		return "", errors.New("is longer than 64KiB")
	}
	return s, nil
}

func checkName(s string) (string, error) {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`).MatchString(s) {
		return "", errors.New("is not a check's name: lower-case letters, digits and inner dashes, at most 32")
	}
	return s, nil
}

// reference takes what names an image to an engine, without judging whether
// the engine has it.
func reference(s string) (string, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$`).MatchString(s) {
		return "", errors.New("is not an image reference")
	}
	return s, nil
}

// absolutePath takes an absolute, clean path.
func absolutePath(s string) (string, error) {
	switch {
	case !strings.HasPrefix(s, "/"):
		return "", errors.New("is not an absolute path")
	case path.Clean(s) != s:
		return "", fmt.Errorf("is not a clean path; write %q", path.Clean(s))
	case len(s) > maxPath:
		return "", fmt.Errorf("is longer than %d bytes", maxPath)
	}
	return s, nil
}

// insidePath takes a clean path inside the product; "." is the product.
func insidePath(s string) (string, error) {
	switch {
	case s == "" || strings.HasPrefix(s, "/"):
		return "", errors.New("is not a path relative to the product")
	case path.Clean(s) != s:
		return "", fmt.Errorf("is not a clean path; write %q", path.Clean(s))
	case s == ".." || strings.HasPrefix(s, "../"):
		return "", errors.New("leaves the product")
	case len(s) > maxPath:
		return "", fmt.Errorf("is longer than %d bytes", maxPath)
	}
	return s, nil
}

func insideFile(s string) (string, error) {
	if s == "." {
		return "", errors.New("is the product itself; a file's place is needed")
	}
	return insidePath(s)
}

// mountTarget takes a path that no part of the boundary needs for itself.
func mountTarget(s string) (string, error) {
	if _, err := absolutePath(s); err != nil {
		return "", err
	}
	if s == "/" {
		return "", errors.New("is the container's root")
	}
	for _, own := range [...]string{"/proc", "/sys", "/dev", "/run", "/var/run", "/.proctor", "/keys", "/control", "/proctor-sidecar"} {
		if overlaps(s, own) {
			return "", fmt.Errorf("is, holds or lies under %s, which is proctor's to fill", own)
		}
	}
	return s, nil
}

// overlaps reports whether one clean path is the other or lies under it.
func overlaps(a, b string) bool { return under(a, b) || under(b, a) }

// under reports whether a is b or lies under it.
func under(a, b string) bool {
	return a == b || strings.HasPrefix(a, strings.TrimSuffix(b, "/")+"/")
}

// origin takes the address of a package registry: http or https, a host, and
// a path at most.
func origin(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", errors.New("is not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("is not an http or https URL")
	case u.Host == "" || u.Hostname() == "":
		return "", errors.New("names no host")
	case u.User != nil:
		return "", errors.New("holds credentials, which do not belong into a policy")
	case strings.ContainsAny(s, "?#"):
		return "", errors.New("holds a query or a fragment")
	}
	return s, nil
}

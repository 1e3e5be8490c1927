package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// doorEnv is what programs in the agent find the doors by. A variable of the
// policy's own env stays; one that is passed from the launcher does not: the
// launcher's own proxy is out of the agent's reach.
func doorEnv(pol *policy.Policy) []policy.EnvVar {
	var env []policy.EnvVar
	set := func(value string, names ...string) {
		for _, n := range names {
			env = append(env, policy.EnvVar{Name: n, Value: value})
		}
	}
	at := func(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
	if pol.Packages.Registry != "" {
		set(at(pol.Ports.NPM)+"/", "npm_config_registry")
		// The lock file of a product names the registry that it was made with.
		set("always", "npm_config_replace_registry_host")
		// npm asks for a newer npm by itself, which would be refused, and told.
		set("false", "npm_config_update_notifier")
	}
	if pol.Egress.Door == policy.Opened {
		set(at(pol.Ports.Proxy), "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
		set("localhost,127.0.0.1,::1", "NO_PROXY", "no_proxy")
	}
	if len(pol.Services) > 0 {
		set(at(pol.Ports.Services), "PROCTOR_SERVICES")
	}
	return env
}

// bridges are the agent's ports that lead to the doors of a policy.
func bridges(pol *policy.Policy) []launch.Bridge {
	var all []launch.Bridge
	bridge := func(open bool, port int, socket string) {
		if open {
			all = append(all, launch.Bridge{Port: port, Socket: socket})
		}
	}
	bridge(pol.Packages.Registry != "", pol.Ports.NPM, wire.NPMSocket)
	bridge(pol.Egress.Door == policy.Opened, pol.Ports.Proxy, wire.ProxySocket)
	bridge(len(pol.Services) > 0, pol.Ports.Services, wire.ServicesSocket)
	return all
}

// doors is what serve gets from the launcher for the doors to the outside that a
// policy opens: the host's files and the secrets. nil is none.
func (a *app) doors(pol *policy.Policy, policyPath, product string) (*wire.ServeRequest, error) {
	if len(bridges(pol)) == 0 {
		return nil, nil
	}
	req := &wire.ServeRequest{Schema: "proctor/serve/v1", Secrets: []wire.Secret{}}
	var err error
	if req.ResolvConf, err = hostFile("/etc/resolv.conf"); err != nil {
		return nil, err
	}
	if req.Hosts, err = hostFile("/etc/hosts"); err != nil {
		return nil, err
	}
	if req.Roots, err = a.roots(); err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range pol.Services {
		value, err := a.secret(s.Secret, filepath.Dir(policyPath), product)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret of service %s: %w", s.Name, err))
		}
		req.Secrets = append(req.Secrets, wire.Secret{Service: s.Name, Value: value})
	}
	return req, errors.Join(errs...)
}

// maxHostFile bounds each of the host's files that serve is given, in bytes.
const maxHostFile = 1 << 20

// hostFile reads a file of the host that need not exist.
func hostFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return []byte{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxHostFile+1))
	if err == nil && len(b) > maxHostFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxHostFile)
	}
	return b, err
}

// roots are the certificates that the host trusts, from where its programs find
// them: SSL_CERT_FILE, else the distribution's own place.
func (a *app) roots() ([]byte, error) {
	places := []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
	if own := a.env("SSL_CERT_FILE"); own != "" {
		places = []string{own}
	}
	for _, p := range places {
		b, err := hostFile(p)
		if err != nil || len(b) > 0 {
			return b, err
		}
	}
	return []byte{}, nil
}

// maxSecret is the longest secret, in bytes; minSecret the shortest: what is
// taken out of answers must not occur in them by chance.
const (
	maxSecret = 8 << 10
	minSecret = 8
)

// secret reads a secret's file, which must be the operator's alone and lie
// outside of every product and checkout.
func (a *app) secret(ref policy.SecretRef, configDir, product string) ([]byte, error) {
	path := ref.File
	if ref.Keyring != "" {
		path = filepath.Join(configDir, "secrets", ref.Keyring)
	}
	if err := a.outside(product, path); err != nil {
		return nil, err
	}
	dir, err := safedir.Open(filepath.Dir(path), safedir.Rules{})
	if err != nil {
		return nil, &hintError{err, "mkdir -p -m 700 " + filepath.Join(configDir, "secrets")}
	}
	defer func() { _ = dir.Close() }()
	b, err := dir.ReadFile(filepath.Base(path), maxSecret+1)
	if err != nil {
		return nil, err
	}
	return checkSecret(b)
}

// checkSecret takes one newline off, and refuses what a header cannot carry. The
// secret itself is in no message.
func checkSecret(b []byte) ([]byte, error) {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if len(b) < minSecret || len(b) > maxSecret {
		return nil, fmt.Errorf("holds %d bytes, and must hold %d to %d", len(b), minSecret, maxSecret)
	}
	for _, c := range b {
		if c <= ' ' || c > '~' {
			return nil, errors.New("holds what is not a printable character")
		}
	}
	return b, nil
}

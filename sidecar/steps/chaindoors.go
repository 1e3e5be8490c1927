package steps

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Bounds of what the doors are given, in bytes. What is taken out of answers must
// not occur in them by chance: hence a shortest secret.
const (
	minSecret = 8
	maxSecret = 8 << 10
	maxRoots  = 1 << 20

	rootsFile    = "roots.pem"
	secretPrefix = "service-"
)

// ChainGiveSecret keeps the secret of a service, which comes on standard input,
// where serve alone reads it. The secret itself is in no message.
func ChainGiveSecret(c ChainLayout, service string, stdin io.Reader) error {
	b, err := readAll(stdin, maxSecret+1)
	if err != nil {
		return err
	}
	if b, err = checkSecret(b); err != nil {
		return &RefusedError{Err: err}
	}
	return c.give(secretPrefix+service, b)
}

// checkSecret takes one newline off, and refuses what a header cannot carry.
func checkSecret(b []byte) ([]byte, error) {
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) < minSecret || len(b) > maxSecret {
		return nil, fmt.Errorf("the secret has %d bytes, and must have %d to %d", len(b), minSecret, maxSecret)
	}
	if bytes.ContainsFunc(b, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the secret holds what is not a printable character")
	}
	return b, nil
}

// ChainGiveRoots keeps the certificates that serve trusts.
func ChainGiveRoots(c ChainLayout, stdin io.Reader) error {
	b, err := readAll(stdin, maxRoots)
	if err != nil {
		return err
	}
	if err := checkRoots(b); err != nil {
		return &RefusedError{Err: err}
	}
	return c.give(rootsFile, b)
}

func checkRoots(b []byte) error {
	if !x509.NewCertPool().AppendCertsFromPEM(b) {
		return errors.New("no certificate in the input")
	}
	return nil
}

// secretRules judge what the doors were given: a Secret, or what give wrote.
func (c ChainLayout) secretRules() safedir.Rules {
	if c.pod {
		return c.RootRules
	}
	return c.Rules
}

func (c ChainLayout) give(name string, data []byte) error {
	dir, err := safedir.Open(c.Secrets, c.Rules)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.ReplaceFile(name, data)
}

// serveRequest is what a launcher would have given serve for its doors; nothing
// without doors.
func (c ChainLayout) serveRequest(part *safedir.Dir, s Session) ([]byte, error) {
	pol, err := sessionPolicy(part, s)
	if err != nil || !HasDoors(pol) {
		return nil, err
	}
	req := wire.ServeRequest{Schema: "proctor/serve/v1", Secrets: []wire.Secret{}, Roots: []byte{}}
	for path, to := range map[string]*[]byte{"/etc/resolv.conf": &req.ResolvConf, "/etc/hosts": &req.Hosts} {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		*to, err = readAll(f, maxRoots)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	dir, err := safedir.Open(c.Secrets, c.secretRules())
	if err != nil && len(pol.Services) == 0 {
		dir, err = nil, nil // nothing was given, and nothing has to be
	}
	if err != nil {
		return nil, c.missing(err, pol.Services[0].Name, pol)
	}
	if dir != nil {
		defer func() { _ = dir.Close() }()
		req.Roots, err = dir.ReadFile(rootsFile, maxRoots)
		switch {
		case errors.Is(err, os.ErrNotExist):
			req.Roots, err = []byte{}, nil
		case err == nil:
			err = checkRoots(req.Roots)
		}
		if err != nil {
			hint := "docker compose run --rm --no-deps -T give roots < /etc/ssl/certs/ca-certificates.crt"
			if c.pod {
				hint = wholeSecret(pol)
			}
			return nil, &RefusedError{Err: fmt.Errorf("%s: %w", rootsFile, err), Hint: hint}
		}
	}
	for _, service := range pol.Services {
		value, err := dir.ReadFile(secretPrefix+service.Name, maxSecret+1)
		if err == nil {
			value, err = checkSecret(value)
		}
		if err != nil {
			return nil, c.missing(err, service.Name, pol)
		}
		req.Secrets = append(req.Secrets, wire.Secret{Service: service.Name, Value: value})
	}
	line, err := strictjson.Marshal(req)
	return append(line, '\n'), err
}

// missing says how to give what serve lacks. A Secret is given whole.
func (c ChainLayout) missing(err error, service string, pol *policy.Policy) error {
	hint := "docker compose run --rm --no-deps -T give secret " + service + " < FILE"
	if c.pod {
		hint = wholeSecret(pol)
	}
	return &RefusedError{Err: fmt.Errorf("secret of service %s: %w", service, err), Hint: hint}
}

// wholeSecret makes the Pod's Secret for the doors, or replaces it.
func wholeSecret(pol *policy.Policy) string {
	words := "kubectl create secret generic proctor-doors"
	for _, s := range pol.Services {
		words += " --from-file " + secretPrefix + s.Name + "=FILE"
	}
	return words + " --from-file " + rootsFile + "=/etc/ssl/certs/ca-certificates.crt --dry-run=client -o yaml | kubectl apply -f -"
}

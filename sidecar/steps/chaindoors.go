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
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) < minSecret || len(b) > maxSecret {
		return &RefusedError{Err: fmt.Errorf("the secret has %d bytes, and must have %d to %d", len(b), minSecret, maxSecret)}
	}
	if bytes.ContainsFunc(b, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &RefusedError{Err: errors.New("the secret holds what is not a printable character")}
	}
	return c.give(secretPrefix+service, b)
}

// ChainGiveRoots keeps the certificates that serve trusts.
func ChainGiveRoots(c ChainLayout, stdin io.Reader) error {
	b, err := readAll(stdin, maxRoots)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(b) {
		return &RefusedError{Err: errors.New("no certificate in the input")}
	}
	return c.give(rootsFile, b)
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
	dir, err := safedir.Open(c.Secrets, c.Rules)
	if err != nil && len(pol.Services) == 0 {
		dir, err = nil, nil // nothing was given, and nothing has to be
	}
	if err != nil {
		return nil, missing(err, pol.Services[0].Name)
	}
	if dir != nil {
		defer func() { _ = dir.Close() }()
		if req.Roots, err = dir.ReadFile(rootsFile, maxRoots); errors.Is(err, os.ErrNotExist) {
			req.Roots, err = []byte{}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	for _, service := range pol.Services {
		value, err := dir.ReadFile(secretPrefix+service.Name, maxSecret)
		if err != nil {
			return nil, missing(err, service.Name)
		}
		req.Secrets = append(req.Secrets, wire.Secret{Service: service.Name, Value: value})
	}
	line, err := strictjson.Marshal(req)
	return append(line, '\n'), err
}

func missing(err error, service string) error {
	return &RefusedError{
		Err:  fmt.Errorf("secret of service %s: %w", service, err),
		Hint: "docker compose run --rm --no-deps -T give secret " + service + " < FILE",
	}
}

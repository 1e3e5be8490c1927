package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// sessionType is the payload type of a session's file.
const sessionType = "application/vnd.proctor.session.v1+json"

// Session is what open decided and signed; seal starts from it and from
// nothing that came later.
type Session struct {
	Schema    string     `json:"schema"` // "proctor/session/v1"
	Session   string     `json:"session"`
	ControlID string     `json:"control_id"`
	Epoch     keys.Epoch `json:"epoch"`
	Opened    time.Time  `json:"opened"`
	// Request is what the launcher asked for, without the policy's bytes.
	Request      wire.OpenRequest `json:"request"`
	PolicySHA256 string           `json:"policy_sha256"`
	// ProductPolicySHA256 is of the policy that the product brought along and the
	// operator approved; "" where there is none.
	ProductPolicySHA256 string   `json:"product_policy_sha256,omitempty"`
	Baseline            Baseline `json:"baseline"`
}

// Baseline is the product before the agent.
type Baseline struct {
	StreamSHA256 string          `json:"stream_sha256"`
	Summary      product.Summary `json:"summary"`
}

const maxSession = 8 << 20

// writeSession signs the session and stores it; the digest is over the
// envelope's bytes.
func writeSession(ctx context.Context, dir *safedir.Dir, root *keys.Root, s Session) (digest string, err error) {
	payload, err := strictjson.Marshal(s)
	if err != nil {
		return "", err
	}
	signer, err := root.Signer(keys.DomainSession, s.Epoch, s.Session)
	if err != nil {
		return "", err
	}
	env, err := signer.Sign(ctx, sessionType, payload)
	if err != nil {
		return "", err
	}
	if err := dir.CreateFile(sessionFile, env); err != nil {
		return "", fmt.Errorf("write session: %w", err)
	}
	return hexSHA256(env), nil
}

// sessionVerifier verifies a session's file: with the root key in seal, with
// public keys in serve.
type sessionVerifier interface {
	Verify(envelope []byte, payloadType string) ([]byte, error)
}

func readSession(dir *safedir.Dir, v sessionVerifier) (s Session, digest string, err error) {
	env, err := dir.ReadFile(sessionFile, maxSession)
	if err != nil {
		return s, "", fmt.Errorf("read session: %w", err)
	}
	payload, err := v.Verify(env, sessionType)
	if err != nil {
		return s, "", fmt.Errorf("read session: %w", err)
	}
	if err := strictjson.Unmarshal(payload, &s, strictjson.Limits{Size: maxSession}); err != nil {
		return s, "", fmt.Errorf("read session: %w", err)
	}
	return s, hexSHA256(env), nil
}

// sessionPolicy is the policy that the session was opened with, as the product's
// own narrows it.
func sessionPolicy(part *safedir.Dir, s Session) (*policy.Policy, error) {
	data, err := part.ReadFile(policyFile, policy.MaxSize)
	if err != nil {
		return nil, err
	}
	if hexSHA256(data) != s.PolicySHA256 {
		return nil, &RefusedError{Err: errors.New("the session's policy is not the one that was opened")}
	}
	p, err := policy.Parse(s.Request.PolicyPath, data)
	if err != nil || s.ProductPolicySHA256 == "" {
		return p, err
	}
	own, err := part.ReadFile(productPolicyFile, policy.MaxSize)
	if err != nil {
		return nil, err
	}
	if hexSHA256(own) != s.ProductPolicySHA256 {
		return nil, &RefusedError{Err: errors.New("the session's product policy is not the one that was opened")}
	}
	by, err := policy.ParseProduct(policy.ProductFile, own)
	if err != nil {
		return nil, err
	}
	return p.Narrow(by), nil
}

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// createIn makes a new file in a part, private to the supervisor.
func createIn(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

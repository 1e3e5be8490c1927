package steps

import (
	"errors"
	"fmt"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/seal"
)

// resume takes what is known of the session from its newest seal: an audit
// judges the same agent, checks and boundary again, and only the ledger is new.
func (s *sealing) resume() error {
	before, err := s.readSeal(s.number-1, s.previous)
	if err != nil {
		return err
	}
	s.before = &before
	p := before.Predicate
	s.req.Agent, s.req.Containers, s.req.Problems = p.Agent, p.Containers, p.Problems
	s.req.Quiescence = nil // in its problems
	s.req.BeforeChecks, s.req.Finished, s.req.RecordHead = p.BeforeChecks, p.Finished, &p.Record
	s.req.Checks = s.req.Checks[:0]
	for _, c := range p.Checks {
		s.req.Checks = append(s.req.Checks, c.Process)
	}
	s.wasTree, err = s.sealedTree(before)
	return err
}

// sealedTree is the tree of the newest seal that is about one. A seal over a
// product that could not be read is not; it must not make the next one forget
// which tree the session ended with.
func (s *sealing) sealedTree(st seal.Statement) (string, error) {
	for st.SubjectDigest("tree") == "" && st.Predicate.Number > 1 {
		var err error
		if st, err = s.readSeal(st.Predicate.Number-1, st.Predicate.Previous); err != nil {
			return "", err
		}
	}
	return st.SubjectDigest("tree"), nil
}

// readSeal reads one of the session's seals, by the digest that the ledger or
// the seal after it names.
func (s *sealing) readSeal(number int, digest string) (seal.Statement, error) {
	var st seal.Statement
	env, err := s.part.ReadFile(sealFile(number), seal.MaxSize)
	if err != nil {
		return st, err
	}
	if hexSHA256(env) != digest {
		return st, &RefusedError{Err: errors.New("the session's seal is not the one in the ledger")}
	}
	v, err := s.root.Verifier(keys.DomainSeal, 0, "")
	if err != nil {
		return st, err
	}
	payload, err := v.Verify(env, seal.PayloadType)
	if err != nil {
		return st, &RefusedError{Err: err}
	}
	if st, err = seal.Parse(payload); err != nil {
		return st, err
	}
	if st.Predicate.Number != number || st.Predicate.Session != s.session.Session {
		return st, &RefusedError{Err: fmt.Errorf("seal %d of the session says that it is seal %d of session %s", number, st.Predicate.Number, st.Predicate.Session)}
	}
	return st, nil
}

package steps

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// ChainSealed is what an orchestrator's operator is told of a seal.
type ChainSealed struct {
	Session, Verdict string
	Reasons          []string
	Findings         []ChainFinding
	Seal             []byte // the envelope, as it is kept
	SHA256           string // of it
	Waivers          []string
	// Told says that a launcher has the answer.
	Told bool
}

// ChainFinding is one that is not approved.
type ChainFinding struct {
	Kind, Path string // the operator's path
	SHA256     string // what an approval would be of; "" where none helps
}

func (f ChainFinding) String() string { return f.Kind + " " + f.Path }

// ChainAsked is what the operator's file says now. Containers of an earlier
// one may have run: an orchestrator need not make them anew.
type ChainAsked struct{ Product, PolicySHA256 string }

// ChainSeal judges from what the processes reported and the reader handed over,
// keeps the seal with its manifest, and answers with what it says. A session that
// a launcher follows waits for its word on stdin, and answers it on stdout.
func ChainSeal(ctx context.Context, c ChainLayout, asked ChainAsked, stdin io.Reader, stdout io.Writer) (ChainSealed, error) {
	var reply ChainSealed
	part, err := safedir.Open(c.Session, c.Rules)
	if err != nil {
		return reply, err
	}
	defer func() { _ = part.Close() }()
	unlock, err := serveIsGone(ctx, part)
	if err != nil {
		return reply, errors.New("serve still runs; nothing is sealed")
	}
	defer unlock()
	session, err := sessionForServe(part)
	if err != nil {
		return reply, err
	}
	if session.PolicySHA256 != asked.PolicySHA256 || session.Request.Product.Raw() != asked.Product {
		return reply, &RefusedError{Err: errors.New("the steps ran with another policy or product; nothing is sealed"), Hint: "docker compose down --remove-orphans"}
	}
	req, digest, err := chainFacts(c, part, session)
	if err != nil {
		return reply, err
	}
	if session.Request.Launcher {
		hear(ctx, stdin, &req)
	}
	stream, err := handedStream(c, digest)
	if err != nil {
		return reply, err
	}
	defer func() { _ = stream.Close() }()
	head, err := strictjson.Marshal(req)
	if err != nil {
		return reply, err
	}
	// The reader gave its digest away when it had ended well.
	end, err := strictjson.Marshal(wire.ReadOutcome{Schema: "proctor/read/v1", Containers: []wire.Container{}})
	if err != nil {
		return reply, err
	}
	in := io.MultiReader(strings.NewReader(string(head)+"\n"), stream, strings.NewReader(string(end)+"\n"))
	sealed, err := c.keepSeal(req.Session, func(w io.Writer) error { return Seal(ctx, c.Layout, in, w) })
	if err != nil {
		return reply, err
	}
	if session.Request.Launcher {
		if err := c.answerLauncher(req.Session, sealed, stdout); err != nil {
			return reply, err
		}
	}
	reply, err = chainSealed(req.Session, asked.Product, sealed)
	reply.Told = session.Request.Launcher
	return reply, err
}

func chainSealed(session, dir string, r wire.SealReply) (ChainSealed, error) {
	s := ChainSealed{
		Session: session, Verdict: r.Verdict, Reasons: r.Reasons, Seal: r.Seal, SHA256: fmt.Sprintf("%x", sha256.Sum256(r.Seal)),
	}
	_, payload, err := keys.Payload(r.Seal)
	if err != nil {
		return s, err
	}
	statement, err := seal.Parse(payload)
	if err != nil {
		return s, err
	}
	s.Waivers = statement.Predicate.Waivers
	for _, f := range statement.Predicate.Findings {
		if f.Approved {
			continue
		}
		path := f.Path
		if f.PathBase64 != nil {
			path = string(f.PathBase64)
		}
		found := ChainFinding{Kind: f.Kind, Path: filepath.Join(dir, path)}
		if f.Approvable && (f.Class != audit.ClassTree || f.Kind == audit.KindLockFile) {
			found.SHA256 = f.SHA256
		}
		s.Findings = append(s.Findings, found)
	}
	return s, nil
}

// chainFacts reads the record: what a launcher would have seen, reported from
// inside. A step that is missing is missing in what seal is told.
func chainFacts(c ChainLayout, part *safedir.Dir, session Session) (req wire.SealRequest, stream string, err error) {
	root, err := openRoot(c.Layout, nil)
	if err != nil {
		return req, "", err
	}
	req = wire.SealRequest{
		Schema: "proctor/seal/v1", Session: session.Session, Checks: []wire.Process{}, Quiescence: []string{},
		Containers: []wire.Container{}, Problems: []string{}, Finished: time.Now().UTC(),
	}
	rows, head, err := record.VerifyDir(c.Layout.Session, c.Rules, record.Check{
		Session: session.Session, Key: func(step string) (keys.Secret, error) { return root.RecordKey(session.Epoch, session.Session, step) },
	})
	if err != nil {
		return req, "", err
	}
	pol, err := sessionPolicy(part, session)
	if err != nil {
		return req, "", err
	}
	if closed(rows) {
		h := wireHead(head)
		req.RecordHead = &h
	}
	said := map[string]wire.Process{}
	for _, row := range rows {
		if row.Step != stepServe {
			continue
		}
		var ended processReport
		var before wire.ReadDigest
		var handed streamHanded
		switch row.Kind {
		case rowEnded:
			err = readRow(row, &ended)
			said[ended.Name] = ended.process()
		case rowBefore:
			err = readRow(row, &before)
			req.BeforeChecks = before.Tree
		case rowStream:
			err = readRow(row, &handed)
			stream = handed.SHA256
		}
		if err != nil {
			return req, "", err
		}
	}
	if p, ok := said[agentName]; ok {
		p.Name = "agent"
		req.Agent = &p
	}
	for _, check := range pol.Checks {
		if p, ok := said[check.Name]; ok {
			p.Expect = check.Expect
			req.Checks = append(req.Checks, p)
		}
	}
	return req, stream, nil
}

func readRow(row record.Row, v any) error {
	return strictjson.Unmarshal(row.Data, v, strictjson.Limits{Size: record.MaxLine})
}

func (r processReport) process() wire.Process {
	return wire.Process{
		Name: r.Name, Argv: r.Ending.Argv, Outcome: r.Ending.Outcome, Exit: r.Ending.Exit, Reported: "inside",
		Started: r.Started, Finished: r.Finished,
	}
}

// closed reports whether serve wrote its last row in order. A record that was
// cut, or whose serve went away, does not end so.
func closed(rows []record.Row) bool {
	if len(rows) == 0 {
		return false
	}
	last := rows[len(rows)-1]
	var data struct {
		Reason string           `json:"reason"`
		Doors  *wire.DoorCounts `json:"doors,omitempty"`
	}
	return readRow(last, &data) == nil && last.Step == stepServe && last.Kind == "closed" && data.Reason == closeWord
}

// handedStream opens the reader's file, if it is the one of this session.
func handedStream(c ChainLayout, digest string) (*os.File, error) {
	f, err := os.Open(filepath.Join(c.Facts, streamFile))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != digest {
		err = errors.New("the reader's file is not the one that it told the supervisor of; nothing is sealed")
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// keepSeal keeps the manifest under the session's name, then the seal.
func (c ChainLayout) keepSeal(session string, run func(io.Writer) error) (wire.SealReply, error) {
	var reply wire.SealReply
	pr, pw := io.Pipe()
	ran := make(chan error, 1)
	go func() {
		err := run(pw)
		ran <- err
		_ = pw.CloseWithError(err) // nil is the end
	}()
	in := bufio.NewReaderSize(pr, 256<<10)
	err := readAnswer(in, &reply)
	if err == nil {
		err = writeWhole(c.Seals, session+".manifest", 0o644, func(w io.Writer) error {
			n, err := io.Copy(w, in)
			if err == nil && n != reply.Manifest {
				err = fmt.Errorf("manifest has %d bytes, and was announced with %d", n, reply.Manifest)
			}
			return err
		})
	}
	_ = pr.CloseWithError(err)
	if ranErr := <-ran; ranErr != nil {
		return reply, ranErr
	}
	if err != nil {
		return reply, err
	}
	return reply, writeWhole(c.Seals, session+".json", 0o644, func(w io.Writer) error {
		_, err := w.Write(reply.Seal)
		return err
	})
}

func readAnswer(in *bufio.Reader, v any) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	return strictjson.Unmarshal(line[:len(line)-1], v, strictjson.Limits{Size: wire.MaxAnswer})
}

// VerdictExit is the exit status of a verdict.
func VerdictExit(verdict string) int {
	switch seal.Verdict(verdict) {
	case seal.Pass:
		return 0
	case seal.Fail:
		return 1
	}
	return 3
}

// ChainPublicKey writes what verifies the seals, by the ledger's keys alone.
func ChainPublicKey(c ChainLayout, stdout io.Writer) error {
	_, chain, err := viewByLedgerKeys(c.Layout)
	if err != nil {
		return err
	}
	b, err := chain.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n", b)
	return err
}

// ChainExport writes one of the kept files; without a name it lists them.
func ChainExport(c ChainLayout, name string, stdout io.Writer) error {
	if name == "" {
		all, err := os.ReadDir(c.Seals)
		if err != nil {
			return err
		}
		for _, e := range all {
			if _, err := fmt.Fprintln(stdout, e.Name()); err != nil {
				return err
			}
		}
		return nil
	}
	root, err := os.OpenRoot(c.Seals)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(name)
	if err != nil {
		return &RefusedError{Err: err}
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(stdout, f)
	return err
}

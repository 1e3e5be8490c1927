package steps

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/requests"
	"github.com/proctor-project/proctor/sidecar/trust"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// desk is what serve decides with: the ledger, read-only and by public keys
// alone, and the session's requests.
type desk struct {
	session string
	product string
	part    *safedir.Dir
	view    func() (*ledger.State, error)
	book    *requests.Book
	tally   *tally

	mu    sync.Mutex
	kept  map[string]bool // refused contents by digest
	bytes int64           // of them
}

// newDesk refuses a ledger that does not know the session: an older one.
func newDesk(part *safedir.Dir, s Session, view func() (*ledger.State, error), t *tally) (*desk, error) {
	state, err := view()
	if err != nil {
		return nil, err
	}
	if _, ok := state.Session(s.Session); !ok {
		return nil, fmt.Errorf("the ledger knows no session %s", s.Session)
	}
	return &desk{
		session: s.Session, product: s.Request.Product.Raw(), part: part, view: view, tally: t,
		book: requests.NewBook(time.Now), kept: map[string]bool{},
	}, nil
}

// DecideFile judges a content that the agent showed. A refused one is kept, so
// that the operator can look at it and approve exactly that.
func (d *desk) DecideFile(path string, content []byte) wire.Decided {
	sum := sha256.Sum256(content)
	p := wire.NewPath(path)
	s := wire.Subject{Kind: wire.SubjectFile, Path: &p, SHA256: hex.EncodeToString(sum[:])}
	if _, in := insideOf(d.product, path); !in {
		return wire.Decided{Schema: decidedSchema, Subject: s, Reason: "outside_product"}
	}
	t := trust.Store{View: d.view}.Decide(path, sum)
	decided := wire.Decided{Schema: decidedSchema, Subject: s, Allowed: t.Allowed, Reason: string(t.Reason)}
	if t.Allowed {
		d.tally.by("ask")("allowed", 0, 0, 0)
		return decided
	}
	if t.Reason == trust.ReasonDenied {
		decided.Note = t.Note
	} else {
		d.keep(s.SHA256, content)
		decided.Remedy = display.Command("proctor-agent", "request", "file", path)
	}
	d.tally.by("ask")("refused", 0, 0, 0)
	d.tally.first(d.refused(decided))
	return decided
}

const decidedSchema = "proctor/decision/v1"

// refused is what the operator hears of a refusal.
func (d *desk) refused(w wire.Decided) wire.Refused {
	path := w.Subject.Path.Raw()
	r := wire.Refused{Door: wire.DoorTrust, What: display.Escape(path), Reason: w.Reason, Review: []string{}, Remedy: []string{}}
	if w.Remedy == "" {
		return r
	}
	about := []string{path}
	if !utf8.ValidString(path) {
		about = []string{display.PathFlag, base64.StdEncoding.EncodeToString([]byte(path))}
	}
	about = append(about, "--session", d.session, "--expect-sha256", w.Subject.SHA256)
	r.Review = append([]string{"proctor", "trust", "show"}, about...)
	r.Remedy = append([]string{"proctor", "trust", "approve"}, about...)
	return r
}

// keep stores a refused content under its digest. What does not fit is not kept:
// then only the audit can show it.
func (d *desk) keep(sum string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept[sum] || d.bytes+int64(len(content)) > maxKeptSize || len(d.kept) == maxKeptFiles {
		return
	}
	if err := d.part.CreateFile(keptFile(sum), content); err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	d.kept[sum] = true
	d.bytes += int64(len(content))
}

// Ask enters a request. A file's content must have been shown, so that there is
// something to look at.
func (d *desk) Ask(s wire.Subject, text string) (wire.Request, bool, error) {
	if err := s.Check(); err != nil {
		return wire.Request{}, false, err
	}
	if s.Kind == wire.SubjectFile {
		if _, in := insideOf(d.product, s.Path.Raw()); !in {
			return wire.Request{}, false, errors.New("the file is not in the product")
		}
		d.mu.Lock()
		shown := d.kept[s.SHA256]
		d.mu.Unlock()
		if !shown {
			return wire.Request{}, false, errors.New("show the content first: " + display.Command("proctor-agent", "trust", "decide", s.Path.Raw()))
		}
	}
	r, fresh, err := d.book.Ask(s, text)
	if err != nil {
		return r, false, err
	}
	if fresh {
		_ = d.tally.tell(wire.EventRequest, r) // a launcher that went away is noticed elsewhere
	}
	return d.answered(r), fresh, nil
}

// Request is a request with its answer of now.
func (d *desk) Request(id string) (wire.Request, bool) {
	r, ok := d.book.Get(id)
	if !ok {
		return r, false
	}
	return d.answered(r), true
}

// Requests are all of them.
func (d *desk) Requests() []wire.Request {
	all := d.book.All()
	for i, r := range all {
		all[i] = d.answered(r)
	}
	return all
}

func (d *desk) answered(r wire.Request) wire.Request {
	state, err := d.view()
	if err != nil {
		return r // still waiting
	}
	return requests.Answered(state, d.session, r)
}

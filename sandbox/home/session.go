package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sidecar/wire"
)

// ErrBusy says that another process holds the session's lock.
var ErrBusy = errors.New("the session is in use by another process")

// State is what the launcher remembers of a session, for lists and clean-up.
// It decides nothing: the ledger and the seal do.
type State struct {
	Schema   string    `json:"schema"` // "proctor/session/v1"
	Session  string    `json:"session"`
	Product  []byte    `json:"product"` // raw bytes of the path
	Engine   string    `json:"engine"`
	Runtime  string    `json:"runtime"`
	Phase    string    `json:"phase"`
	Launcher int       `json:"launcher_pid"`
	Birth    string    `json:"launcher_birth"` // start time of that process, so that a reused pid is noticed
	Block    uint32    `json:"first_id"`       // the leased block
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	Verdict  string    `json:"verdict"`
	Seals    int       `json:"seals"`
	Applied  bool      `json:"applied"`
	Waivers  []string  `json:"waivers"`
	Command  []string  `json:"command"`
}

// Session is a session whose lock this process holds.
type Session struct {
	ID    string
	State State
	home  *Home
	lock  *flock.Flock
}

// NewSession makes a session with a new random id and takes its lock.
func (h *Home) NewSession(ctx context.Context) (*Session, error) {
	for range 8 {
		id := newSessionID()
		s, err := h.begin(ctx, id)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make session: %w", err)
		}
		return s, nil
	}
	return nil, errors.New("make session: no free id")
}

// begin makes a session's directory under a name that no session has, takes its
// lock there, and only then gives it its own: whoever sees a session sees it
// locked and with its state. A launcher that looks for dead sessions, or a list
// that only looks at the lock, cannot come in between.
func (h *Home) begin(_ context.Context, id string) (*Session, error) {
	temp := h.Path("sessions", ".new-"+id)
	if err := os.Mkdir(temp, 0o700); err != nil {
		return nil, err
	}
	s := &Session{ID: id, home: h, lock: flock.New(filepath.Join(temp, "lock"), flock.SetPermissions(0o600))}
	s.State = State{
		Schema: "proctor/session/v1", Session: id, Phase: "new",
		Launcher: os.Getpid(), Birth: Birth(os.Getpid()), Started: time.Now().UTC(),
	}
	_, err := s.lock.TryLock()
	if err == nil {
		err = writeJSON(filepath.Join(temp, "state.json"), s.State)
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, h.Path("sessions", id), unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return nil, errors.Join(err, s.lock.Unlock(), os.RemoveAll(temp))
	}
	return s, nil
}

// Lock takes the session's lock, or answers ErrBusy at once. The state is what
// was saved last; a session that died before its first save has an empty one.
func (h *Home) Lock(_ context.Context, id string) (*Session, error) {
	if !ValidSession(id) {
		return nil, fmt.Errorf("session %q: not a session id", id)
	}
	if _, err := os.Lstat(h.Path("sessions", id)); err != nil {
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	lock := flock.New(h.Path("sessions", id, "lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock session %s: %w", id, err)
	}
	if !ok {
		return nil, fmt.Errorf("session %s: %w", id, ErrBusy)
	}
	s := &Session{ID: id, home: h, lock: lock}
	if s.State, err = h.State(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, lock.Unlock())
	}
	return s, nil
}

// State reads what was saved of a session, without its lock.
func (h *Home) State(id string) (State, error) {
	var st State
	if !ValidSession(id) {
		return st, fmt.Errorf("session %q: not a session id", id)
	}
	return st, readJSON(h.Path("sessions", id, "state.json"), &st)
}

// Busy reports whether some process holds the session's lock.
func (h *Home) Busy(id string) bool {
	lock := flock.New(h.Path("sessions", id, "lock"), flock.SetFlag(os.O_RDONLY))
	ok, err := lock.TryRLock()
	if ok {
		_ = lock.Unlock()
	}
	return err == nil && !ok
}

// Save writes the state.
func (s *Session) Save() error { return writeJSON(s.Path("state.json"), s.State) }

// SetPhase saves the phase that begins now.
func (s *Session) SetPhase(phase string) error {
	s.State.Phase = phase
	return s.Save()
}

// Facts are what the launcher told the seal step, kept so that the session can
// be audited again.
type Facts struct {
	Schema       string           `json:"schema"` // "proctor/facts/v1"
	Request      wire.SealRequest `json:"request"`
	Timeout      time.Duration    `json:"timeout_ns"`
	MaxEntries   int64            `json:"max_entries"`
	MaxFileSize  int64            `json:"max_file_size"`
	MaxTotalSize int64            `json:"max_total_size"`
}

// KeepFacts stores the facts; Facts reads them.
func (s *Session) KeepFacts(f Facts) error { return writeJSON(s.Path("facts.json"), f) }

// Facts reads what KeepFacts stored. The error wraps fs.ErrNotExist where the
// session never came that far.
func (s *Session) Facts() (Facts, error) {
	var f Facts
	return f, readJSON(s.Path("facts.json"), &f)
}

// Path is a path in the session's own host directory.
func (s *Session) Path(elem ...string) string {
	return s.home.Path(append([]string{"sessions", s.ID}, elem...)...)
}

// StageParent is the private directory that holds the session's stage.
func (s *Session) StageParent() string { return s.home.Path("stages", s.ID) }

// Stage is the private copy of the product.
func (s *Session) Stage() string { return filepath.Join(s.StageParent(), "tree") }

// Unlock gives the lock back. Idempotent.
func (s *Session) Unlock() error { return s.lock.Unlock() }

// Birth is when a process started, in the kernel's own words: with the pid it
// names one process for good. "" when the process is not there.
func Birth(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The command name is in parentheses and may hold anything; field 22 of
	// proc_pid_stat(5) is the 20th after it.
	at := strings.LastIndexByte(string(data), ')')
	if at < 0 {
		return ""
	}
	fields := strings.Fields(string(data[at+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

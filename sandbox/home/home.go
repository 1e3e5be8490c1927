package home

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/google/renameio/v2"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
)

// ErrNotInitialised says that `proctor init` has not run for this home.
var ErrNotInitialised = errors.New("no keys and control here yet")

// Home is an opened home directory.
type Home struct{ dir string }

// Config is what `proctor init` decided for one engine, once.
type Config struct {
	Schema string `json:"schema"` // "proctor/home/v1"
	// Engine is the engine whose parts hold keys and control.
	Engine string `json:"engine"`
	// Supervisor and SupervisorRoot are host ids; see sandbox.Identity.
	Supervisor     uint32 `json:"supervisor"`
	SupervisorRoot uint32 `json:"supervisor_root"`
	// FirstID and IDs are the claimed subordinate range; 0 ids means none:
	// agent and supervisor are then the operator's own id.
	FirstID uint32 `json:"first_id"`
	IDs     uint32 `json:"ids"`
	// Place names this pair of keys and control among others on one daemon.
	Place string `json:"place"`
	// Context, Namespace and Image say where, and by which name, an orchestrator has
	// keys, control and the supervisor's image.
	Context   string `json:"context,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Image     string `json:"image,omitempty"`
}

// Open names a home directory; it creates nothing.
func Open(dir string) (*Home, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("home %q is not an absolute path", dir)
	}
	if !utf8.ValidString(dir) {
		return nil, fmt.Errorf("home %q: a path that is not UTF-8 cannot be said in a container's configuration", dir)
	}
	return &Home{dir: filepath.Clean(dir)}, nil
}

// Dir is the home directory's absolute path.
func (h *Home) Dir() string { return h.dir }

// Path is a path below the launcher's own part of home.
func (h *Home) Path(elem ...string) string {
	return filepath.Join(append([]string{h.dir, "host"}, elem...)...)
}

// Make creates home's own directories, 0700, whatever the umask. One that
// exists is left as it is, and refused if another user could write it or any
// directory above it.
func (h *Home) Make() error {
	for _, name := range []string{"sessions", "seals", "stages", "anchors", "engines", "layers", "containerd"} {
		if err := safedir.Make(h.Path(name)); err != nil {
			return fmt.Errorf("make home: %w", err)
		}
	}
	return nil
}

// Config reads what init decided for an engine. ErrNotInitialised where it
// never ran.
func (h *Home) Config(engine string) (Config, error) {
	var c Config
	err := readJSON(h.Path("engines", engine+".json"), &c)
	if errors.Is(err, fs.ErrNotExist) {
		return c, ErrNotInitialised
	}
	return c, err
}

// SetConfig writes what init decided; it refuses to change an existing one.
func (h *Home) SetConfig(c Config) error {
	if _, err := h.Config(c.Engine); !errors.Is(err, ErrNotInitialised) {
		return fmt.Errorf("%s is already initialised for engine %s", h.dir, c.Engine)
	}
	return writeJSON(h.Path("engines", c.Engine+".json"), c)
}

// Sessions lists the ids of all sessions that home knows, sorted.
func (h *Home) Sessions() ([]string, error) {
	entries, err := os.ReadDir(h.Path("sessions"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if ValidSession(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	sort.Strings(ids)
	return ids, nil
}

const sessionAlphabet = "abcdefghijkmnpqrstuvwxyz23456789"

// newSessionID is 12 characters of 5 random bits: long enough not to collide,
// short enough to type.
func newSessionID() string {
	b := make([]byte, 12*5/8+1)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return base32.NewEncoding(sessionAlphabet).WithPadding(base32.NoPadding).EncodeToString(b)[:12]
}

// ValidSession reports whether s has the form of a session id.
func ValidSession(s string) bool {
	if len(s) != 12 {
		return false
	}
	return strings.Trim(s, sessionAlphabet) == ""
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	const most = 8 << 20
	if info.Size() > most {
		return fmt.Errorf("read %s: larger than %d bytes", path, most)
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil && info.Size() > 0 {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := strictjson.Unmarshal(data, v, strictjson.Limits{Size: most}); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'))
}

func writeFile(path string, data []byte) error {
	if err := renameio.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

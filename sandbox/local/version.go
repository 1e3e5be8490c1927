package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox/runtimes"
)

// version is what the runtime answered when it was asked, which costs the start
// of a large program: it is kept, and believed for as long as the very same file
// is there.
func (e *Engine) version(ctx context.Context, runtime, path string) (string, error) {
	before, known := identityOf(path)
	kept := filepath.Join(e.cfg.State, "version-"+runtime)
	if known {
		if b, err := os.ReadFile(kept); err == nil {
			if version, ok := strings.CutPrefix(string(b), before+" "); ok && version != "" {
				return version, nil
			}
		}
	}
	version, err := runtimes.Version(ctx, path)
	if err != nil {
		return "", err
	}
	if after, ok := identityOf(path); known && ok && after == before {
		// Not kept, it is asked again the next time.
		_ = renameio.WriteFile(kept, []byte(before+" "+version), 0o600)
	}
	return version, nil
}

// identityOf tells a file from every other one, and from itself after a change:
// no program can set a change time. It is false for what is no program itself,
// but may run one, such as a script.
func identityOf(path string) (string, bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != "\x7fELF" {
		return "", false
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return "", false
	}
	return fmt.Sprintf("%q dev %d ino %d size %d mtime %d.%09d ctime %d.%09d", path, st.Dev, st.Ino, st.Size,
		st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec), true
}

package home

import (
	"fmt"
	"os"
)

// SealPath is where the session's newest seal is kept, ManifestPath its
// manifest, and StreamPath the reader's stream that it was judged from.
func (h *Home) SealPath(session string) string { return h.Path("seals", session+".json") }

// ManifestPath is where the manifest of the session's newest seal is kept.
func (h *Home) ManifestPath(session string) string { return h.Path("seals", session+".manifest") }

// KeepSeal stores a session's new seal and its manifest; the one before stays
// under its number.
func (h *Home) KeepSeal(session string, number int, seal []byte, manifest string) error {
	if number > 1 {
		for _, p := range []string{h.SealPath(session), h.ManifestPath(session)} {
			old := fmt.Sprintf("%s.%d", p, number-1)
			if err := os.Rename(p, old); err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("keep seal %d of %s: %w", number-1, session, err)
			}
		}
	}
	if err := os.Rename(manifest, h.ManifestPath(session)); err != nil {
		return fmt.Errorf("keep manifest of %s: %w", session, err)
	}
	return writeFile(h.SealPath(session), seal)
}

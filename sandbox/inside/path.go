package inside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lookPath finds the payload as execvp would, in the container's own PATH.
func lookPath(name string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("find %q: %w", name, err)
		}
		return name, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %q: %w", name, os.ErrNotExist)
	}
	return path, nil
}

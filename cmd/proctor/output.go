package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// printJSON writes the verb's one document.
func (a *app) printJSON(v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		a.complain("error: internal: " + err.Error())
		return
	}
	_, _ = fmt.Fprintf(a.out, "%s\n", b)
}

// table writes rows in columns on a terminal, and as tabs elsewhere.
func (a *app) table(header string, rows [][]string) {
	if !terminal(a.out, a.env) {
		for _, r := range rows {
			for i, c := range r {
				if i > 0 {
					_, _ = fmt.Fprint(a.out, "\t")
				}
				_, _ = fmt.Fprint(a.out, c)
			}
			_, _ = fmt.Fprintln(a.out)
		}
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, header)
	for _, r := range rows {
		for i, c := range r {
			if i > 0 {
				_, _ = fmt.Fprint(w, "\t")
			}
			_, _ = fmt.Fprint(w, c)
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush()
}

// toolsDir is where proctor-sidecar and proctor-agent are: beside this
// executable.
func toolsDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	for _, name := range []string{"proctor-sidecar", "proctor-agent"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", &hintError{fmt.Errorf("%s is not beside %s", name, self), "make"}
		}
	}
	return dir, nil
}

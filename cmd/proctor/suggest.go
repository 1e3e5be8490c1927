package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkVerb refuses a word that is no verb before any flag is looked at: the
// flags of a mistyped verb are not its fault.
func checkVerb(root *cobra.Command, args []string) (*cobra.Command, error) {
	c, rest, err := root.Find(args)
	if err != nil || !c.HasAvailableSubCommands() {
		return c, err
	}
	word := firstWord(c, rest)
	if word == "" || strings.HasPrefix(word, cobra.ShellCompRequestCmd) {
		return c, nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	err = &usageError{fmt.Errorf("%q is no verb of %s", word, c.CommandPath())}
	if near := nearest(word, names); near != "" {
		err = &hintError{err, "did you mean: " + c.CommandPath() + " " + near}
	}
	return c, err
}

// firstWord is the first argument that is neither a flag nor a flag's value.
func firstWord(c *cobra.Command, args []string) string {
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case word == "--":
			return ""
		case strings.HasPrefix(word, "--"):
			if f := c.Flag(word[2:]); f != nil && f.NoOptDefVal == "" {
				i++
			}
		case !strings.HasPrefix(word, "-"):
			return word
		}
	}
	return ""
}

// flagError says which flag was probably meant.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	usage := error(&usageError{err})
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return usage
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
		return &hintError{usage, "did you mean: " + c.CommandPath() + " --" + near}
	}
	return usage
}

// nearest is the name that differs least from word, or "" where none is near:
// at most one change for each three letters, or word begins it.
func nearest(word string, names []string) string {
	best, least := "", len(word)/3+1
	for _, name := range names {
		switch d := distance(word, name); {
		case len(word) > 1 && strings.HasPrefix(name, word):
			return name
		case d < least || d == least && best == "":
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters have to be inserted, dropped, changed or swapped
// with their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

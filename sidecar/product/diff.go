package product

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Side is one side of a Diff. Content is a file's bytes or a link's target; only
// Type, Mode, Size and SHA256 of the entry are used.
type Side struct {
	Entry   Entry
	Content []byte
}

// MaxDiff is the largest file whose lines are compared, in bytes. Larger ones,
// and content that was given cut, are only named.
const MaxDiff = 1 << 20

// Diff writes the difference between two states of the file or link at path in
// git's unified form; nil is a path that is not there. Files with a NUL byte in
// their first 8,000 are binary and only named, like those over MaxDiff. Nothing
// is written when the sides are equal. The lines are the files' own bytes:
// escape them before a terminal shows them.
func Diff(w io.Writer, path string, before, after *Side) error {
	if before == nil && after == nil || before != nil && after != nil && sameSide(before, after) {
		return nil
	}
	var b bytes.Buffer
	from, to := quoteName("a/"+path), quoteName("b/"+path)
	fmt.Fprintf(&b, "diff --git %s %s\n", from, to)
	if before == nil {
		from = "/dev/null"
		fmt.Fprintf(&b, "new file mode %s\n", gitMode(after))
	}
	if after == nil {
		to = "/dev/null"
		fmt.Fprintf(&b, "deleted file mode %s\n", gitMode(before))
	}
	if before != nil && after != nil && gitMode(before) != gitMode(after) {
		fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", gitMode(before), gitMode(after))
	}
	writeLines(&b, from, to, before, after)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write diff: %w", err)
	}
	return nil
}

func sameSide(a, b *Side) bool {
	return gitMode(a) == gitMode(b) && a.Entry.Size == b.Entry.Size && a.Entry.SHA256 == b.Entry.SHA256
}

func writeLines(b *bytes.Buffer, from, to string, before, after *Side) {
	old, oldCut := lines(before)
	now, newCut := lines(after)
	switch {
	case oldCut || newCut:
		fmt.Fprintf(b, "Files %s and %s differ and are too large to show\n", from, to)
	case isBinary(old) || isBinary(now):
		fmt.Fprintf(b, "Binary files %s and %s differ\n", from, to)
	case !bytes.Equal(old, now):
		text := diff.Diff(from, old, to, now)
		if _, hunks, ok := bytes.Cut(text, []byte("\n@@")); ok {
			fmt.Fprintf(b, "--- %s\n+++ %s\n@@", from, to)
			b.Write(hunks)
		}
	}
}

// lines is a side's content and whether there is more of it.
func lines(s *Side) (content []byte, cut bool) {
	if s == nil || s.Entry.Type != TypeFile && s.Entry.Type != TypeSymlink {
		return nil, false
	}
	return s.Content, int64(len(s.Content)) != s.Entry.Size || len(s.Content) > MaxDiff
}

func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 }

// gitMode is the mode as git's diffs show it, with all permission bits.
func gitMode(s *Side) string {
	kind := "100"
	switch s.Entry.Type {
	case TypeSymlink:
		return "120000"
	case TypeDir:
		kind = "040"
	case TypeFile:
	default:
		return string(s.Entry.Type)
	}
	return fmt.Sprintf("%s%03o", kind, s.Entry.Mode&0o7777)
}

// quoteName quotes a name as git does: in double quotes with C's escapes, octal
// for what is not printable ASCII, when it holds anything of the kind.
func quoteName(name string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
			quoted = true
		case c == '\n' || c == '\t' || c == '\r':
			b.WriteString(map[byte]string{'\n': `\n`, '\t': `\t`, '\r': `\r`}[c])
			quoted = true
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
			quoted = true
		default:
			b.WriteByte(c)
		}
	}
	if !quoted {
		return name
	}
	return `"` + b.String() + `"`
}

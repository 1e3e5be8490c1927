package seal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// maxLines is how many differences a report names.
const maxLines = 50

// tree adds the rows of manifest and product. Both are read once, side by side,
// in the byte order of their paths.
func (v *verification) tree(st Statement) {
	sealed := st.SubjectDigest("tree")
	c := &comparison{st: st, exact: v.o.Exact}
	if v.o.Manifest != nil {
		c.manifest = product.NewManifestReader(v.o.Manifest)
	}
	if v.o.Product != nil {
		c.product = product.NewDecoder(v.o.Product, v.o.Limits)
	}
	if c.manifest == nil && c.product == nil {
		v.row(NotChecked, RowManifest, "not given")
		v.row(NotChecked, RowProduct, "no --product given")
		return
	}
	c.run()
	good := v.manifestRow(c, st, sealed)
	v.productRow(c, sealed, good)
}

// manifestRow says whether the manifest is the one that the seal binds.
func (v *verification) manifestRow(c *comparison, st Statement, sealed string) bool {
	if c.manifest == nil {
		v.row(NotChecked, RowManifest, "not given")
		return false
	}
	m := st.Predicate.Manifest
	sum := c.manifest.Digest()
	tree, worktree := c.manifest.Trees()
	switch {
	case c.manifestErr != nil:
		v.row(NO, RowManifest, "%v", c.manifestErr)
	case hex.EncodeToString(sum[:]) != m.SHA256:
		v.row(NO, RowManifest, "sha256:%x, sealed sha256:%s", sum, m.SHA256)
	case sealed != "" && (tree != sealed || worktree != st.SubjectDigest("worktree")):
		v.row(NO, RowManifest, "its entries are not the sealed tree")
	default:
		v.row(OK, RowManifest, "%d entries, sha256:%s", m.Entries, m.SHA256)
		return true
	}
	return false
}

// productRow says whether the product is what was sealed.
func (v *verification) productRow(c *comparison, sealed string, manifest bool) {
	if c.product == nil {
		v.row(NotChecked, RowProduct, "no --product given")
		return
	}
	sum, err := c.product.Summary()
	switch {
	case c.productErr != nil || err != nil:
		v.unknown = true
		v.row(NO, RowProduct, "could not be read: %v", errors.Join(c.productErr, err))
	case !sum.Complete:
		v.unknown = true
		v.row(NO, RowProduct, "could not be read in full")
	case sealed == "":
		v.row(NotChecked, RowProduct, "the seal is about no product: it could not be read in full")
	case sum.Tree == sealed:
		v.row(OK, RowProduct, "%d of %d entries, tree sha256:%s", sum.Entries, sum.Entries, sealed)
	case !manifest:
		v.row(NO, RowProduct, "tree sha256:%s, sealed sha256:%s; what differs cannot be told without the manifest", sum.Tree, sealed)
	default:
		v.compared(c, sealed)
	}
}

func (v *verification) compared(c *comparison, sealed string) {
	total := c.st.Predicate.Manifest.Entries
	differing := c.settle()
	if differing == 0 && len(c.rewritten) == 0 && c.leftOut == 0 {
		v.row(NO, RowProduct, "tree sha256 is another one, and no entry says why")
		return
	}
	if differing == 0 {
		note := ""
		if len(c.rewritten) > 0 {
			note += fmt.Sprintf("; %s as git rewrites it", strings.Join(c.rewritten, ", "))
		}
		if c.leftOut > 0 {
			note += fmt.Sprintf("; %d entries that were left out of the session are not judged", c.leftOut)
		}
		v.row(OK, RowProduct, "%d of %d entries, tree sha256:%s%s", total, total, sealed, note)
		return
	}
	v.row(NO, RowProduct, "%d differ, %d missing, %d not in the seal", c.changed, c.missing, c.added)
	row := &v.report.Rows[len(v.report.Rows)-1]
	row.Lines = append(row.Lines, c.lines...)
	if more := differing - int64(len(c.lines)); more > 0 {
		row.Lines = append(row.Lines, fmt.Sprintf("and %d more", more))
	}
}

// comparison merges a manifest and a tree stream.
type comparison struct {
	st          Statement
	exact       bool
	manifest    *product.ManifestReader
	product     *product.Decoder
	manifestErr error
	productErr  error

	changed, missing, added, leftOut int64

	lines []string
	// pending are git indexes that differ in bytes only, until the stream says
	// what they mean. Their paths are the seal's, so they are few.
	sealed    map[string]string // git indexes of the seal: path to digest
	pending   map[string]struct{}
	indexes   map[string][32]byte
	rewritten []string
}

func (c *comparison) run() {
	c.pending, c.indexes, c.sealed = map[string]struct{}{}, map[string][32]byte{}, map[string]string{}
	for _, i := range c.st.Predicate.GitIndexes {
		c.sealed[i.Path.Raw()] = i.SHA256
	}
	sealed, have := c.nextSealed(), c.nextFound()
	for sealed != nil || have != nil {
		switch {
		case have == nil || (sealed != nil && sealed.Path < have.Path):
			c.note(&c.missing, "missing", sealed.Path)
			sealed = c.nextSealed()
		case sealed == nil || have.Path < sealed.Path:
			c.extra(*have)
			have = c.nextFound()
		default:
			c.both(*sealed, *have)
			sealed, have = c.nextSealed(), c.nextFound()
		}
	}
}

func (c *comparison) nextSealed() *product.Entry {
	if c.manifest == nil || c.manifestErr != nil {
		return nil
	}
	e, err := c.manifest.Next()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			c.manifestErr = err
		}
		return nil
	}
	return &e
}

// nextFound returns the product's next entry, and keeps the facts about git
// indexes that it passes.
func (c *comparison) nextFound() *product.Entry {
	for c.product != nil && c.productErr == nil {
		item, err := c.product.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			c.productErr = err
		case item.Entry != nil:
			return item.Entry
		case item.Fact != nil && item.Fact.Kind == product.FactGitIndex:
			if c.sealed[item.Fact.Path] != "" {
				c.indexes[item.Fact.Path] = item.Fact.SHA256
			}
		}
	}
	return nil
}

func (c *comparison) note(count *int64, what, path string) {
	*count++
	if len(c.lines) < maxLines {
		c.lines = append(c.lines, what+"  "+path)
	}
}

func (c *comparison) extra(e product.Entry) {
	for _, p := range c.st.Predicate.LeftOut {
		if raw := p.Raw(); e.Path == raw || strings.HasPrefix(e.Path, raw+"/") {
			c.leftOut++
			return
		}
	}
	c.note(&c.added, "not in the seal", e.Path)
}

func (c *comparison) both(sealed, have product.Entry) {
	if sealed == have {
		return
	}
	if c.sealed[have.Path] != "" && !c.exact && sealed.Type == product.TypeFile && have.Type == product.TypeFile && sealed.Mode == have.Mode {
		c.pending[have.Path] = struct{}{}
		return
	}
	what := "differs"
	if sealed.Type != have.Type {
		what = fmt.Sprintf("%s, sealed as %s", have.Type, sealed.Type)
	} else if sealed.SHA256 == have.SHA256 && sealed.Size == have.Size {
		what = fmt.Sprintf("mode %04o, sealed %04o", have.Mode, sealed.Mode)
	}
	c.note(&c.changed, what, have.Path)
}

// settle judges the git indexes, now that all facts are known, and returns how
// many entries differ.
func (c *comparison) settle() int64 {
	for _, i := range c.st.Predicate.GitIndexes {
		path := i.Path.Raw()
		if _, ok := c.pending[path]; !ok {
			continue
		}
		if got, ok := c.indexes[path]; ok && hex.EncodeToString(got[:]) == i.SHA256 {
			c.rewritten = append(c.rewritten, path)
		} else {
			c.note(&c.changed, "differs", path)
		}
	}
	return c.changed + c.missing + c.added
}

// GitIndex is what a git index of the sealed tree means, without the stat
// fields that git rewrites on its own: audit.IndexDigest, hex.
type GitIndex struct {
	Path   wire.Path `json:"path"`
	SHA256 string    `json:"sha256"`
}

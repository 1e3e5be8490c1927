package product

import "strings"

// Limits bounds a walk. What is beyond a limit is named by a FactLimit and not
// read. Zero fields take the defaults.
type Limits struct {
	Entries    int64 // of the tree; default 2,000,000
	FileBytes  int64 // of one file; default 32 GiB
	TotalBytes int64 // of all files; default 256 GiB
	NameBytes  int64 // held names of the directories on the way down; default 256 MiB
	PathBytes  int64 // sum of all paths, which bounds the stream; default 2 GiB
	Depth      int   // of directories; default 16,384
	Facts      int64 // reported by the Extractor; default 500,000
}

func (l Limits) withDefaults() Limits {
	set := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	set(&l.Entries, 2_000_000)
	set(&l.FileBytes, 32<<30)
	set(&l.TotalBytes, 256<<30)
	set(&l.NameBytes, 256<<20)
	set(&l.PathBytes, 2<<30)
	set(&l.Facts, 500_000)
	if l.Depth == 0 {
		l.Depth = 16_384
	}
	return l
}

// Extractor looks at the content of chosen files while it is being read. Its
// methods are called from two goroutines.
type Extractor interface {
	// Wants returns how many bytes of the file Extract needs, at most 64 MiB; 0
	// is none. A file that is longer is given cut, with Entry.Size telling so.
	Wants(path string) int
	// Extract returns what it noticed about a wanted file, or about a symbolic
	// link, whose content is its target. content is valid during the call.
	Extract(e Entry, content []byte) []Fact
	// Finish is called once, after the last entry, by the goroutine that called
	// Walk. It may read more files of the tree through t.
	Finish(t *Tree) []Fact
}

// maxWanted bounds what an Extractor may ask for, in bytes a file.
const maxWanted = 64 << 20

// join is path.Join for clean parts.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// base is the last component of path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

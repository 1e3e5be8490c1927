package audit

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/proctor-project/proctor/sidecar/product"
)

// A git index (gitformat-index(5)) holds, for each path, the times, device,
// inode, ids and size that the file had, which every `git status` may rewrite,
// and the mode, object and flags that mean something. IndexDigest is over the
// second kind alone, and over the extensions that mean something.

var errIndex = errors.New("not a git index")

// IndexDigest is the SHA-256 of what a git index means: mode, object, flags and
// name of every entry, and every extension that is not a cache of the file
// system's state. The cached tree counts, because git commits it. Versions 2, 3
// and 4 with SHA-1 or SHA-256 objects are read; the error says that b is none.
func IndexDigest(b []byte) ([32]byte, error) {
	for _, hashSize := range [...]int{20, 32} {
		if !trailerFits(b, hashSize) {
			continue
		}
		if sum, err := indexDigest(b[:len(b)-hashSize], hashSize); err == nil {
			return sum, nil
		}
	}
	return [32]byte{}, errIndex
}

// trailerFits checks the trailing checksum, which index.skipHash makes zero.
func trailerFits(b []byte, hashSize int) bool {
	if len(b) < 12+hashSize {
		return false
	}
	body, trailer := b[:len(b)-hashSize], b[len(b)-hashSize:]
	if bytes.Equal(trailer, make([]byte, hashSize)) {
		return true
	}
	if hashSize == 20 {
		sum := sha1.Sum(body)
		return bytes.Equal(trailer, sum[:])
	}
	sum := sha256.Sum256(body)
	return bytes.Equal(trailer, sum[:])
}

func indexDigest(b []byte, hashSize int) (sum [32]byte, err error) {
	if string(b[:4]) != "DIRC" {
		return sum, errIndex
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return sum, errIndex
	}
	h := sha256.New()
	fmt.Fprintf(h, "proctor git index v1\n%d %d\n", hashSize, count)
	rest, name := b[12:], []byte(nil)
	for range count {
		e, err := indexEntry(rest, hashSize, version, name)
		if err != nil {
			return sum, err
		}
		rest, name = rest[e.size:], e.name
		h.Write(e.mode)
		h.Write(e.object)
		h.Write(binary.BigEndian.AppendUint32(nil, e.flags))
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(name))))
		h.Write(name)
	}
	for len(rest) > 0 {
		if len(rest) < 8 {
			return sum, errIndex
		}
		n := int64(binary.BigEndian.Uint32(rest[4:]))
		if n > int64(len(rest)-8) {
			return sum, errIndex
		}
		switch string(rest[:4]) {
		case "UNTR", "FSMN", "EOIE", "IEOT": // file system state and offsets
		default:
			h.Write(rest[:8+n])
		}
		rest = rest[8+n:]
	}
	h.Sum(sum[:0])
	return sum, nil
}

// indexItem is one entry of an index.
type indexItem struct {
	mode, object, name []byte
	flags              uint32
	size               int
}

const (
	statBefore = 4 * 6 // ctime, mtime, dev, ino
	statAfter  = 4 * 3 // uid, gid, size
	maxName    = 1 << 16
)

func indexEntry(b []byte, hashSize int, version uint32, previous []byte) (indexItem, error) {
	fixed := statBefore + 4 + statAfter + hashSize + 2
	if len(b) < fixed+3 {
		return indexItem{}, errIndex
	}
	e := indexItem{mode: b[statBefore : statBefore+4], object: b[fixed-2-hashSize : fixed-2]}
	flags := binary.BigEndian.Uint16(b[fixed-2:])
	e.flags = uint32(flags&0xf000) << 16 // without the name's length
	e.size = fixed
	if flags&0x4000 != 0 {
		if version < 3 {
			return indexItem{}, errIndex
		}
		e.flags |= uint32(binary.BigEndian.Uint16(b[fixed:]))
		e.size += 2
	}
	var shared []byte
	if version == 4 {
		strip, n := offset(b[e.size:])
		if n == 0 || strip > uint64(len(previous)) {
			return indexItem{}, errIndex
		}
		e.size += n
		shared = previous[:uint64(len(previous))-strip]
	}
	end := bytes.IndexByte(b[e.size:], 0)
	if end < 0 || len(shared)+end > maxName {
		return indexItem{}, errIndex
	}
	e.name = append(bytes.Clone(shared), b[e.size:e.size+end]...)
	e.size += end + 1
	if version < 4 { // one to eight NUL bytes, to a multiple of eight
		for e.size%8 != 0 {
			if e.size >= len(b) || b[e.size] != 0 {
				return indexItem{}, errIndex
			}
			e.size++
		}
	}
	return e, nil
}

// offset reads git's variable width number: seven bits a byte, most significant
// first, with one added for every continuation. n is 0 when it is not one.
func offset(b []byte) (v uint64, n int) {
	for i, c := range b {
		if i == 9 {
			break
		}
		v = v<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return v, i + 1
		}
		v++
	}
	return 0, 0
}

// gitIndexFact reports the digest of a git index; a file of that name in a git
// directory that is none has no such fact.
func gitIndexFact(path string, content []byte) []product.Fact {
	sum, err := IndexDigest(content)
	if err != nil {
		return nil
	}
	return []product.Fact{{Path: path, Kind: product.FactGitIndex, SHA256: sum}}
}

// IndexDigests reads a stream to its end and returns the IndexDigest of every
// git index in it, by path: what product.ApplyInput needs of the baseline.
func IndexDigests(dec *product.Decoder) (map[string][32]byte, error) {
	c := &cursor{dec: dec, indexes: make(map[string][32]byte)}
	for {
		r, err := c.next()
		if err != nil {
			return nil, fmt.Errorf("read git indexes: %w", err)
		}
		if r == nil {
			return c.indexes, nil
		}
	}
}

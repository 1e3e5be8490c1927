package product

import (
	"crypto/sha256"
	"errors"
)

var errFileChanged = errors.New("changed while it was read")

// digest reads the file fd, whose size it.entry holds, fills in its SHA-256 and
// returns the first wanted bytes of content.
func (k *worker) digest(it *item, fd, wanted int) ([]byte, error) {
	return k.pump(it, fd, wanted, nil)
}

// pump reads the file, hashes it, and gives every piece to out, which may be
// nil.
func (k *worker) pump(it *item, fd, wanted int, out func(piece []byte, off int64) error) ([]byte, error) {
	size := it.entry.Size
	if size < readBuffer { // in one piece
		n, err := readWhole(fd, k.buf[:size+1], int(size))
		if err != nil {
			return nil, err
		}
		if int64(n) != size {
			return nil, errFileChanged
		}
		it.entry.SHA256 = sha256.Sum256(k.buf[:n])
		if out != nil {
			if err := out(k.buf[:n], 0); err != nil {
				return nil, err
			}
		}
		return k.buf[:min(n, wanted)], nil
	}
	k.hash.Reset()
	k.keep = k.keep[:0]
	for off := int64(0); ; {
		n, err := read(fd, k.buf)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			if off != size {
				return nil, errFileChanged
			}
			break
		}
		if off+int64(n) > size {
			return nil, errFileChanged
		}
		k.hash.Write(k.buf[:n])
		if missing := wanted - len(k.keep); missing > 0 {
			k.keep = append(k.keep, k.buf[:min(missing, n)]...)
		}
		if out != nil {
			if err := out(k.buf[:n], off); err != nil {
				return nil, err
			}
		}
		off += int64(n)
		if k.w.ctx.Err() != nil {
			return nil, k.w.ctx.Err()
		}
	}
	k.hash.Sum(it.entry.SHA256[:0])
	return k.keep, nil
}

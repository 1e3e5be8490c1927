package ledger

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/keys/strictjson"
)

// FuzzLine: what is read as a line is written as the same act, and follows.
func FuzzLine(f *testing.F) {
	e := approve("/a/\xff", "x")
	e.Seq, e.Prev = 2, hexOf(sha256.Sum256(nil))
	line, err := marshalLine(e)
	must(f, err)
	f.Add(line)
	f.Add(fmt.Appendf(nil, `{"seq":2,"dropped":"%s"}`, digest("x")))
	f.Add([]byte(strings.Replace(string(line), `"kind":"approve"`, `"kind":"revoke"`, 1)))
	f.Fuzz(func(t *testing.T, line []byte) {
		s := newScanner(links{count: 1, hash: sha256.Sum256(nil)})
		entry, err := s.line(line)
		if err != nil {
			if s.at.count != 1 {
				t.Fatal("a refused line counts")
			}
			return
		}
		if s.at.count != 2 || s.at.size != int64(len(line))+1 {
			t.Fatalf("count %d, size %d", s.at.count, s.at.size)
		}
		if entry == nil {
			if s.at.dropped == ([32]byte{}) {
				t.Fatal("dropped and not noted")
			}
			return
		}
		again, err := marshalLine(*entry)
		must(t, err)
		twice, err := newScanner(links{count: 1, hash: sha256.Sum256(nil)}).line(again)
		must(t, err)
		third, err := marshalLine(*twice)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("not stable: %v", err)
		}
	})
}

// FuzzHead: a signed head is read strictly.
func FuzzHead(f *testing.F) {
	good, err := strictjson.Marshal(start("c").next([]byte("x"), sha256.Sum256([]byte("x"))).head("c", 1))
	must(f, err)
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"count":1`), []byte(`"count":0`), 1))
	f.Fuzz(func(t *testing.T, payload []byte) {
		h, err := parseHead(payload, Trust{ControlID: "c", Verifier: plain{}})
		if err != nil {
			return
		}
		if !h.links().matches(h) {
			t.Fatal("a head does not match itself")
		}
	})
}

// plain believes everything: what is tested is what comes after.
type plain struct{}

func (plain) Verify(env []byte, _ string) ([]byte, error) { return env, nil }

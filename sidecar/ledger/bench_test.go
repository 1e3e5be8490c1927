package ledger

import (
	"fmt"
	"testing"
)

func grown(b *testing.B, n int) (fixture, *Ledger) {
	f := newFixture(b)
	d, err := openFast(f)
	must(b, err)
	for i := range n {
		act(b, d, f.signer, approve(fmt.Sprintf("/home/me/project/some/path/%d/.envrc", i), "x"))
	}
	return f, d
}

// BenchmarkApprove and BenchmarkDecide are the budget "ledger with 100,000
// acts: decision unchanged, approve under 50 ms".
func BenchmarkApprove(b *testing.B) {
	for _, n := range []int{10, 10000} {
		f, l := grown(b, n)
		l.Close()
		b.Run(fmt.Sprintf("fresh process, %d acts", n), func(b *testing.B) {
			for b.Loop() {
				l := f.open(b)
				act(b, l, f.signer, approve("/x", "y"))
				l.Close()
			}
		})
		b.Run(fmt.Sprintf("first view, %d acts", n), func(b *testing.B) {
			for b.Loop() {
				l := f.open(b)
				_, err := l.View()
				must(b, err)
				l.Close()
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 10000} {
		_, l := grown(b, n)
		b.Run(fmt.Sprintf("%d acts", n), func(b *testing.B) {
			for b.Loop() {
				if !approved(b, l, "/home/me/project/some/path/5/.envrc", "x") {
					b.Fatal("not approved")
				}
			}
		})
	}
}

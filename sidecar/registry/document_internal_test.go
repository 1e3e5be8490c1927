package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/packages"
)

// stuck is a client that reads nothing.
type stuck struct {
	http.ResponseWriter
	begun *atomic.Int64
	leave chan struct{}
}

func (s stuck) Write(p []byte) (int, error) {
	s.begun.Add(1)
	<-s.leave
	return len(p), nil
}

type oneDocument struct{ doc *packages.Document }

func (oneDocument) Registry() string { return "https://registry.example" }

func (d oneDocument) Document(context.Context, string) (*packages.Document, error) {
	return d.doc, nil
}

type allowAll struct{}

func (allowAll) PackageDenied(string) (string, bool)  { return "", false }
func (allowAll) PackageAllowed(string) (string, bool) { return "*", true }

// TestDocumentsAtOnce: few documents are made and held at once, however many ask
// for one and read nothing; who waits is answered afterwards.
func TestDocumentsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		integrity := "sha512-" + strings.Repeat("A", 86) + "=="
		text := fmt.Sprintf(`{"name":"a","versions":{"1.0.0":{"name":"a","version":"1.0.0","dist":{"integrity":%q}}}}`, integrity)
		doc, err := packages.ParseDocument("https://registry.example", "a", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(Config{
			Registry: oneDocument{doc}, Cache: &Cache{}, Rules: allowAll{}, Transport: http.DefaultTransport,
			Decide:  func(packages.Identity) packages.Decision { return packages.Decision{Allowed: true} },
			Named:   func(string) ([]packages.Identity, error) { return nil, nil },
			Row:     func(string, any) error { return nil },
			Refused: func(door.Refusal) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		const clients = 10 * documentsAtOnce
		begun, leave := &atomic.Int64{}, make(chan struct{})
		for range clients {
			go d.ServeHTTP(stuck{httptest.NewRecorder(), begun, leave}, httptest.NewRequest(http.MethodGet, "/a", nil))
		}
		synctest.Wait()
		if n := begun.Load(); n != documentsAtOnce {
			t.Errorf("%d documents are held at once", n)
		}
		close(leave)
		synctest.Wait()
		if n := begun.Load(); n != clients {
			t.Errorf("%d of %d clients were answered", n, clients)
		}
	})
}

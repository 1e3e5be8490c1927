package door

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of one door's server.
type Bounds struct {
	// Connections are open at once; for a further one, the oldest that is not
	// being answered is closed.
	Connections   int
	Header        int // bytes of a request's line and headers
	HeaderTimeout time.Duration
	// BodyTimeout bounds a request from its first byte to the end of its body;
	// 0 leaves that to the handler (see Rolling).
	BodyTimeout time.Duration
	IdleTimeout time.Duration
	// Stop is called once when the door begins to close; nil is nothing.
	Stop func()
}

// Run answers on the listener until ctx ends, closes every connection and
// returns when no request is being answered any more. A handler that takes its
// connection over closes it when the request's context ends.
func Run(ctx context.Context, l net.Listener, h http.Handler, b Bounds) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var busy sync.WaitGroup
	srv := &http.Server{
		Handler:           counted(&busy, answering(h)),
		ConnContext:       withConn,
		ReadHeaderTimeout: b.HeaderTimeout,
		IdleTimeout:       b.IdleTimeout,
		ReadTimeout:       b.BodyTimeout,
		MaxHeaderBytes:    b.Header,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(newBounded(l, b.Connections)) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		if b.Stop != nil {
			b.Stop()
		}
		err := srv.Close()
		if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
		cancel()
		busy.Wait()
		return err
	}
}

func counted(busy *sync.WaitGroup, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy.Add(1)
		defer busy.Done()
		h.ServeHTTP(w, r)
	})
}

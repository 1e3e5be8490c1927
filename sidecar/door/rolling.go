package door

import (
	"io"
	"net/http"
	"time"
)

// Rolling bounds how long the client of a request may stand still, while its
// body is read and while its answer is written, however long the whole takes.
// The returned writer and request replace the given ones.
func Rolling(w http.ResponseWriter, r *http.Request, idle time.Duration) (http.ResponseWriter, *http.Request) {
	rc := http.NewResponseController(w)
	again := r.Clone(r.Context())
	again.Body = &rollingBody{ReadCloser: r.Body, rc: rc, idle: idle}
	return &rollingWriter{ResponseWriter: w, rc: rc, idle: idle}, again
}

type rollingBody struct {
	io.ReadCloser
	rc   *http.ResponseController
	idle time.Duration
}

func (b *rollingBody) Read(p []byte) (int, error) {
	_ = b.rc.SetReadDeadline(time.Now().Add(b.idle))
	return b.ReadCloser.Read(p)
}

type rollingWriter struct {
	http.ResponseWriter
	rc   *http.ResponseController
	idle time.Duration
}

func (w *rollingWriter) Write(p []byte) (int, error) {
	_ = w.rc.SetWriteDeadline(time.Now().Add(w.idle))
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *rollingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Package sinkfakes plays the receivers of Herald's sinks: an HTTP endpoint, Slack
// and a mail server. They answer as the real ones do, keep the published limits,
// can be told to misbehave, and remember every byte. Tests and the demonstration
// use them; they listen on loopback addresses only.
package sinkfakes

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Request is one request that a fake received.
type Request struct {
	At     time.Time
	Method string
	Path   string // with the query
	Host   string
	Header http.Header
	Body   []byte
	Status int // of the answer
}

// Answer is what a fake gives instead of its own answer. Handler, if set, does
// everything.
type Answer struct {
	Status  int
	Header  map[string]string
	Body    string
	Handler http.HandlerFunc
}

// Hook is an HTTP receiver. It answers 204 unless told otherwise.
type Hook struct {
	log      log
	server   *http.Server
	listener net.Listener
	scheme   string
	done     chan struct{}
}

// log is what fakes share: what came in, and what is to be answered next.
type log struct {
	mu       sync.Mutex
	script   []Answer
	fallback *Answer
	received []Request
	conns    int
	changed  chan struct{}
}

// NewHook listens on a loopback address, such as 127.0.0.1:0 or [::1]:0, with TLS
// if config is not nil.
func NewHook(address string, config *tls.Config) (*Hook, error) {
	h := &Hook{}
	return h, h.serve(address, config, http.HandlerFunc(h.answer))
}

func (h *Hook) serve(address string, config *tls.Config, handler http.Handler) error {
	l, err := Listen(address)
	if err != nil {
		return err
	}
	h.listener, h.scheme, h.done = l, "http", make(chan struct{})
	h.log.changed = make(chan struct{})
	if config != nil {
		h.scheme = "https"
		l = tls.NewListener(l, config)
	}
	h.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				h.log.connected()
			}
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() {
		defer close(h.done)
		_ = h.server.Serve(l)
	}()
	return nil
}

// Listen opens a TCP listener and refuses any address but loopback.
func Listen(address string) (net.Listener, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !ap.Addr().IsLoopback() {
		return nil, fmt.Errorf("listen on %s: want a loopback address", address)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// URL is the address of the fake with a path added.
func (h *Hook) URL(path string) string { return h.scheme + "://" + h.listener.Addr().String() + path }

// Close ends the fake and waits for it.
func (h *Hook) Close() error {
	err := h.server.Close()
	<-h.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Script queues answers, one per request; when they are used up the fake answers
// by itself again.
func (h *Hook) Script(answers ...Answer) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.log.script = append(h.log.script, answers...)
}

// Always answers every further request the same; nil: by itself again.
func (h *Hook) Always(a *Answer) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.log.fallback = a
}

// Received gives all requests so far.
func (h *Hook) Received() []Request {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return append([]Request(nil), h.log.received...)
}

// Connections counts the connections made so far.
func (h *Hook) Connections() int {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return h.log.conns
}

// Changed is closed at the next request or connection.
func (h *Hook) Changed() <-chan struct{} {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return h.log.changed
}

func (h *Hook) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	a, scripted := h.log.next()
	if !scripted {
		a = Answer{Status: http.StatusNoContent}
	}
	h.log.record(r, body, a.Status)
	a.write(w, r, body)
}

func (a Answer) write(w http.ResponseWriter, r *http.Request, body []byte) {
	if a.Handler != nil {
		r.Body = io.NopCloser(bytes.NewReader(body)) // for handlers that read it themselves
		a.Handler(w, r)
		return
	}
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body)
}

func (l *log) next() (Answer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.script) > 0 {
		a := l.script[0]
		l.script = l.script[1:]
		return a, true
	}
	if l.fallback != nil {
		return *l.fallback, true
	}
	return Answer{}, false
}

func (l *log) record(r *http.Request, body []byte, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received = append(l.received, Request{
		At: time.Now(), Method: r.Method, Path: r.URL.RequestURI(), Host: r.Host, Header: r.Header.Clone(), Body: body, Status: status,
	})
	l.wake()
}

func (l *log) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns++
	l.wake()
}

func (l *log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

package telemetry

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ServerOptions is what a [Server] serves.
type ServerOptions struct {
	Listen   string                                // address and port; port 0: any free one
	Token    func(context.Context) (string, error) // bearer token of all pages but /healthz and /readyz; nil: none. Asked for at each request, so that it can change
	Open     []string                              // paths of Pages that are given without the token too: they hold no data
	Health   *Health                               // nil: always ready
	Registry *prometheus.Registry                  // nil: no /metrics
	Pages    http.Handler                          // everything else; nil: nothing else
	Log      *slog.Logger                          // nil: no log
	Grace    time.Duration                         // how long requests under way may take at the end; zero or less: 5 s
	Patience time.Duration                         // how long a reader may leave what is sent lying before it is cut off; zero or less: 30 s
}

// Server is the HTTP listener of a process.
type Server struct {
	http     *http.Server
	listener net.Listener
	grace    time.Duration
}

const (
	headerTimeout  = 10 * time.Second
	requestTimeout = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	usualGrace     = 5 * time.Second
	usualPatience  = 30 * time.Second
	maxHeaderBytes = 64 << 10
)

// NewServer opens the listener, so that a port in use is known at once. Whoever makes a Server calls Run or Close.
//
// There is no limit on the time of an answer as a whole, since pages may stream; there is one on each part of it, so
// that readers who stop reading hold nothing.
func NewServer(ctx context.Context, o ServerOptions) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("open http listener: %w", err)
	}
	server := &http.Server{
		Handler:           handler(o),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	if o.Log != nil {
		server.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)
	}
	grace := o.Grace
	if grace <= 0 {
		grace = usualGrace
	}
	return &Server{http: server, listener: listener, grace: grace}, nil
}

// Addr is the address that is listened on, with the real port.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends a Server that is not run.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until the context ends. Requests under way then have half of the grace time to finish by themselves; after
// that their contexts end, which is how streams are told; what is still there at the end of the grace time is cut. It
// returns nil when it was asked to end.
func (s *Server) Run(ctx context.Context) error {
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	s.http.BaseContext = func(net.Listener) context.Context { return requests }
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	nudge := time.AfterFunc(s.grace/2, endRequests)
	defer nudge.Stop()
	err := s.http.Shutdown(limited)
	if err != nil {
		_ = s.http.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", ended)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop http: %w", err)
	}
	return nil
}

// handler puts the pages together. Health is open to anybody: probes carry no token, and it tells only names.
func handler(o ServerOptions) http.Handler {
	health := o.Health
	if health == nil {
		health = NewHealth()
	}
	inner := http.NewServeMux()
	if o.Pages != nil {
		inner.Handle("/", o.Pages)
	}
	if o.Registry != nil {
		inner.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{Registry: o.Registry}))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", health.ServeAlive)
	mux.HandleFunc("GET /readyz", health.ServeReady)
	patience := o.Patience
	if patience <= 0 {
		patience = usualPatience
	}
	mux.Handle("/", inJSON(guard(aloud(inner, o.Log), o), patience))
	return mux
}

// aloud has a page that breaks down end its own request only, as net/http does, and says so where operators look:
// net/http's own log is for what peers do wrong.
func aloud(next http.Handler, log *slog.Logger) http.Handler {
	if log == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p != http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
				log.Error("a page broke down", "method", r.Method, "error", p, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// guard lets only those in who bring the token. If it cannot be read nobody gets in. Without one nothing has been proved:
// what a request brings is taken away, so that no page takes it for a token that was looked at.
func guard(next http.Handler, o ServerOptions) http.Handler {
	if o.Token == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Authorization")
			next.ServeHTTP(w, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.Method == http.MethodGet || r.Method == http.MethodHead) && slices.Contains(o.Open, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		want, err := o.Token(r.Context())
		if err != nil || want == "" {
			if o.Log != nil {
				o.Log.ErrorContext(r.Context(), "http token unreadable", "error", err)
			}
			http.Error(w, "the token of this listener cannot be read", http.StatusServiceUnavailable)
			return
		}
		scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || !same(strings.TrimSpace(got), want) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="herald"`)
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// same compares in a time that depends on neither text nor length.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

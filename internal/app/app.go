// Package app is the one place that knows everybody: it builds a role from a
// checked configuration, runs it and stops it in reverse order. It has no rule
// about purchases.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/telemetry"
	"github.com/heraldbridge/herald/internal/watch"
)

// Options are what a process is made of.
type Options struct {
	Config  *config.Config
	Role    config.Role
	Log     *slog.Logger
	Version string
}

// App is a process: New wires what cannot wait, Run does the rest.
type App struct {
	Options
	registry *prometheus.Registry
	health   *telemetry.Health
	routes   *route.Set
	sinks    []builtSink
	conns    []watch.Connection
	api      *swap
	ready    chan struct{}
	addr     string
	notices  sync.WaitGroup // notices being published
}

// New checks and builds everything that needs no other server. Its errors are
// config.Errors, each with its place in the file.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{Options: o, registry: telemetry.NewRegistry(), health: telemetry.NewHealth(), api: &swap{}, ready: make(chan struct{})}
	var errs []error
	if a.delivers() {
		var err error
		a.routes, err = compileRoutes(o.Config)
		errs = append(errs, err)
		a.sinks, err = buildSinks(ctx, o.Config)
		errs = append(errs, err)
	}
	if a.watches() {
		var err error
		a.conns, err = buildConnections(ctx, o.Config, o.Version)
		errs = append(errs, err)
	}
	if err := joinMistakes(errs); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *App) watches() bool {
	return a.Role == config.RoleHerald || a.Role == config.RoleWatcher
}

func (a *App) delivers() bool {
	return a.Role == config.RoleHerald || a.Role == config.RoleNotifier
}

// Ready is closed when everything runs; Addr is known from then on.
func (a *App) Ready() <-chan struct{} { return a.ready }

// Addr is the address that the process listens on, once it is ready.
func (a *App) Addr() string { return a.addr }

// Registry gives the metrics of this process.
func (a *App) Registry() *prometheus.Registry { return a.registry }

// Run runs the role until ctx ends, then stops what it started in reverse
// order. NATS or Redis being away at the start is waited for, with /readyz
// saying so.
func (a *App) Run(ctx context.Context) error {
	server, err := a.server(ctx)
	if err != nil {
		return err
	}
	a.addr = server.Addr().String()
	a.Log.Info("listening", "role", string(a.Role), "listen", a.addr)
	// The listener outlives the work, so that health is told to the end.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var serveErr error
	wg.Go(func() {
		if serveErr = server.Run(serving); serveErr != nil {
			cancel(serveErr)
		}
	})
	workErr := a.work(ctx)
	stopServing()
	wg.Wait()
	if err := errors.Join(serveErr, workErr); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	a.Log.Info("stopped")
	return nil
}

// work opens the stores and runs the loops until ctx ends.
func (a *App) work(ctx context.Context) error {
	st, err := a.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop while waiting for a store
		}
		return err
	}
	defer st.close(a.Log)
	loops, err := a.loops(ctx, st)
	if err != nil {
		return err
	}
	close(a.ready)
	a.Log.Info("running", "connections", len(a.conns), "sinks", len(a.sinks), "version", a.Version)
	var wg sync.WaitGroup
	for _, l := range loops {
		wg.Go(func() { a.supervise(ctx, l) })
	}
	wg.Wait()
	a.notices.Wait()
	return nil
}

// loop is a part of the process that runs until its context ends.
type loop struct {
	name string
	run  func(context.Context) error
}

// loops builds the loops of the role.
func (a *App) loops(ctx context.Context, st *stores) ([]loop, error) {
	mux := http.NewServeMux()
	loops := []loop{{"stores", func(ctx context.Context) error { return a.watchStores(ctx, st) }}}
	mux.Handle("/v1/events", console.Handler(console.Options{Feed: feed{st.bus}, Match: compileMatch}))
	if a.watches() {
		w, err := watch.New(a.watchOptions(st))
		if err != nil {
			return nil, fmt.Errorf("build watcher: %w", err)
		}
		mux.Handle("/v1/watches", w.Handler())
		mux.Handle("/v1/watches/", w.Handler())
		loops = append(loops, loop{"watch", w.Run})
	}
	silences := newSilences(st.state)
	if a.delivers() && len(a.sinks) > 0 {
		loops = append(loops, loop{"silences", silences.run})
	}
	for _, s := range a.sinks {
		l, err := deliver.New(a.deliverOptions(ctx, s, st, silences.current))
		if err != nil {
			return nil, fmt.Errorf("build sink %s: %w", s.cfg.Name, err)
		}
		loops = append(loops, loop{"sink " + s.cfg.Name, l.Run})
	}
	a.api.set(mux)
	return loops, nil
}

// supervise keeps one loop running. One that fails is named unhealthy and begun
// again after a pause; it never ends another.
func (a *App) supervise(ctx context.Context, l loop) {
	const pause = 2 * time.Second
	for {
		a.health.Set(l.name, nil)
		err := l.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		a.health.Set(l.name, err)
		a.Log.Error("part failed, beginning it again", "part", l.name, "err", err, "pause", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// swap is a handler that can be exchanged while it serves.
type swap struct {
	mu sync.RWMutex
	h  http.Handler
}

func (s *swap) set(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h = h
}

// ServeHTTP answers 503 until a handler is set.
func (s *swap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	h := s.h
	s.mu.RUnlock()
	if h == nil {
		http.Error(w, "starting: waiting for NATS or Redis, see /readyz", http.StatusServiceUnavailable)
		return
	}
	h.ServeHTTP(w, r)
}

// compileMatch compiles an expression for tails.
func compileMatch(expression string) (func(events.Event, time.Time) (bool, error), error) {
	p, err := route.CompileMatch(expression)
	if err != nil {
		return nil, err
	}
	return p.Match, nil
}

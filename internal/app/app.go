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
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/telemetry"
	"github.com/heraldbridge/herald/internal/watch"
)

// Options are what a process is made of.
type Options struct {
	Config  *config.Config
	File    string           // that Config was read from, to be read again; empty: none
	Hangup  <-chan os.Signal // each is a wish to read File again; nil: none
	Role    config.Role
	Log     *slog.Logger
	Version string
}

// tracingGrace is how long the end of a process waits for a trace collector.
const tracingGrace = 3 * time.Second

// App is a process: New wires what cannot wait, Run does the rest.
type App struct {
	Options
	registry *prometheus.Registry
	health   *telemetry.Health
	now      atomic.Pointer[wiring]
	api      *swap
	ready    chan struct{}
	addr     string
	notices  sync.WaitGroup // notices being published
	paces    paces
	tracer   trace.Tracer // set by Run
}

// wiring is what is made of a configuration. A reload makes another one.
type wiring struct {
	cfg    *config.Config
	routes *route.Set
	sinks  []builtSink
	hosts  []host
	client *http.Client // to Envoy, one for all connections and reloads
}

// New checks and builds everything that needs no other server. Its errors are
// config.Errors, each with its place in the file.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{Options: o, registry: telemetry.NewRegistry(), health: telemetry.NewHealth(), api: &swap{}, ready: make(chan struct{})}
	w, err := build(ctx, o.Config, o.Role, o.Version, &wiring{client: envoy.NewHTTPClient(envoy.HTTPOptions{})})
	if err != nil {
		return nil, err
	}
	a.now.Store(w)
	return a, nil
}

// build makes the wiring of a configuration. Of the one before it keeps the
// connections that have not changed, so that their reads go on.
func build(ctx context.Context, cfg *config.Config, role config.Role, version string, before *wiring) (*wiring, error) {
	w := &wiring{cfg: cfg, client: before.client}
	var errs []error
	if delivers(role) {
		var err error
		w.routes, err = compileRoutes(cfg)
		errs = append(errs, err)
		w.sinks, err = buildSinks(ctx, cfg)
		errs = append(errs, err)
	}
	if watches(role) {
		var err error
		w.hosts, err = buildHosts(ctx, cfg, version, before)
		errs = append(errs, err)
	}
	return w, joinMistakes(errs)
}

func watches(r config.Role) bool { return r == config.RoleHerald || r == config.RoleWatcher }

func delivers(r config.Role) bool { return r == config.RoleHerald || r == config.RoleNotifier }

func (a *App) wiring() *wiring { return a.now.Load() }

func (a *App) watches() bool { return watches(a.Role) }

func (a *App) delivers() bool { return delivers(a.Role) }

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
	tracer, stop, err := telemetry.Tracing(ctx, telemetry.TracingOptions{
		Endpoint: a.Config.Tracing.OTLPEndpoint, Service: string(a.Role), Version: a.Version, Log: a.Log, Metrics: a.registry,
	})
	if err != nil {
		return err
	}
	defer a.endTracing(ctx, stop)
	a.tracer = tracer
	st, err := a.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop while waiting for a store
		}
		return err
	}
	defer st.close(a.Log)
	ctx, again := context.WithCancelCause(ctx)
	defer again(nil)
	loops, err := a.loops(ctx, st)
	if err != nil {
		return err
	}
	loops = append(loops, a.mending(st, again)...)
	close(a.ready)
	w := a.wiring()
	a.Log.Info("running", "connections", len(w.hosts), "sinks", len(w.sinks), "version", a.Version)
	var wg sync.WaitGroup
	for _, l := range loops {
		wg.Go(func() { a.supervise(ctx, l) })
	}
	wg.Wait()
	a.notices.Wait()
	if err := context.Cause(ctx); errors.Is(err, errBeginAgain) {
		return err
	}
	return nil
}

// endTracing hands in the last spans.
func (a *App) endTracing(ctx context.Context, stop func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracingGrace)
	defer cancel()
	if err := stop(ctx); err != nil {
		a.Log.Warn("the last spans were not handed in", "err", err)
	}
}

// loop is a part of the process that runs until its context ends.
type loop struct {
	name string
	run  func(context.Context) error
}

// loops builds the loops of the role.
func (a *App) loops(ctx context.Context, st *stores) ([]loop, error) {
	var loops []loop
	mux := http.NewServeMux()
	var w *watch.Watcher
	if a.watches() {
		var err error
		registrations := newRegistrar(st.bus.Conn(), a.Log)
		if w, err = watch.New(a.watchOptions(st, registrations)); err != nil {
			return nil, fmt.Errorf("build watcher: %w", err)
		}
		mux.Handle("/v1/watches", w.Handler())
		mux.Handle("/v1/watches/", w.Handler())
		loops = append(loops, loop{"watch", w.Run}, loop{"registrations", func(ctx context.Context) error {
			return registrations.run(ctx, w.Answer)
		}})
	}
	loops = append(loops, loop{"health", func(ctx context.Context) error { return a.watchHealth(ctx, st, w) }})
	silences := newSilences(ctx, st.state)
	first, err := a.buildLoops(ctx, a.wiring(), st, silences.current)
	if err != nil {
		return nil, err
	}
	crew := newCrew(a, st, first)
	if a.delivers() {
		loops = append(loops, loop{"silences", silences.run}, loop{"sinks", crew.run})
	}
	reload := newReloader(a, st, crew, w, silences)
	mux.Handle("/v1/reload", reload)
	pages, status := a.consoleOf(st, crew.current, w)
	mux.Handle("/", pages)
	a.api.set(console.Guard(mux))
	return append(loops, status, loop{"reload", reload.run}), nil
}

// buildLoops builds the loop of every sink.
func (a *App) buildLoops(ctx context.Context, w *wiring, st *stores, silences func() []events.Silence) ([]*deliver.Loop, error) {
	var out []*deliver.Loop
	for _, s := range w.sinks {
		l, err := deliver.New(a.deliverOptions(ctx, w, s, st, silences))
		if err != nil {
			return nil, fmt.Errorf("build sink %s: %w", s.cfg.Name, err)
		}
		out = append(out, l)
	}
	return out, nil
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

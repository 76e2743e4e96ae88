package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
	"github.com/heraldbridge/herald/internal/watch"
)

// state is the union of what the loops keep; both stores of dedupe have it.
type state interface {
	Cursor(ctx context.Context, purchaseID string) (events.Cursor, bool, error)
	Advance(ctx context.Context, cursors map[string]events.Cursor) error
	TakeWatchSet(ctx context.Context, connection, owner string) (events.WatchSet, bool, error)
	PutWatchSet(ctx context.Context, connection, owner string, s events.WatchSet) error
	Standings(ctx context.Context, sink string, purchases []string) (map[string]events.Standing, error)
	PutStandings(ctx context.Context, sink string, m map[string]events.Standing) error
	Silences(ctx context.Context) ([]events.Silence, error)
}

// leases is what owns connections and sinks.
type leases interface {
	Acquire(ctx context.Context, name string, leave func()) (context.Context, func(), error)
}

// stores are the bus and the state of a process, and how to leave them.
type stores struct {
	bus    *stream.Bus
	state  state
	leases leases
	redis  func(context.Context) error // how Redis is; nil without one
	undo   []func() error              // in the order of opening
}

func (s *stores) close(log *slog.Logger) {
	for i := len(s.undo) - 1; i >= 0; i-- {
		if err := s.undo[i](); err != nil {
			log.Warn("close store", "err", err)
		}
	}
}

// open waits for NATS, then for Redis; a failure unwinds what was opened.
func (a *App) open(ctx context.Context) (_ *stores, err error) {
	st := &stores{}
	defer func() {
		if err != nil {
			st.close(a.Log)
		}
	}()
	a.health.Set("nats", errors.New("waiting for NATS"))
	if err := a.openBus(ctx, st); err != nil {
		return nil, err
	}
	if err := claimFormat(ctx, st.bus.JetStream(), a.Log); err != nil {
		return nil, err
	}
	a.health.Set("nats", nil)
	if a.Config.Redis.URL == "" {
		kv, err := dedupe.OpenKV(ctx, st.bus.JetStream(), dedupe.KVOptions{Replicas: a.Config.NATS.Replicas, Log: a.Log, Metrics: a.registry})
		if err != nil {
			return nil, fmt.Errorf("open state in JetStream key-value: %w", err)
		}
		st.state, st.leases = kv, dedupe.Sole{}
		return st, nil
	}
	a.health.Set("redis", errors.New("waiting for Redis"))
	opts, err := redisOptions(a.Config.Redis)
	if err != nil {
		return nil, err
	}
	opts.Log, opts.Metrics = a.Log, a.registry
	rd, err := dedupe.OpenRedis(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("open Redis (redis.url): %w", err)
	}
	a.health.Set("redis", nil)
	st.undo = append(st.undo, rd.Close)
	st.state, st.leases, st.redis = rd, rd, rd.Healthy
	return st, nil
}

func (a *App) openBus(ctx context.Context, st *stores) error {
	n := a.Config.NATS
	opts := stream.Options{
		URL: n.URL, Replicas: n.Replicas, MaxBytes: int64(n.MaxBytes),
		Retention: time.Duration(n.Retention), Log: a.Log, Metrics: a.registry, Name: "herald-" + string(a.Role),
	}
	if n.URL == "" {
		opts.Embedded = &stream.Embedded{Dir: a.Config.DataDir, SyncAlways: n.Sync == config.SyncAlways}
	} else if err := natsAccess(ctx, n, &opts); err != nil {
		return err
	}
	bus, err := stream.Open(ctx, opts)
	if err != nil {
		return fmt.Errorf("open NATS: %w", err)
	}
	st.bus = bus
	st.undo = append(st.undo, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return bus.Close(ctx)
	})
	return nil
}

// watchHealth tells /readyz whether the stores answer, and whether Envoy still
// takes this version. The watcher is nil where there is none.
func (a *App) watchHealth(ctx context.Context, st *stores, w *watch.Watcher) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		a.health.Set("nats", st.bus.Healthy())
		if w != nil {
			a.health.Set("envoy", w.Halted())
		}
		if st.redis != nil {
			probe, cancel := context.WithTimeout(ctx, 2*time.Second)
			err := st.redis(probe)
			cancel()
			if ctx.Err() == nil {
				a.health.Set("redis", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// silences keeps the silences in force at hand for pure decisions.
type silences struct {
	state state
	now   atomic.Pointer[[]events.Silence]
}

// newSilences reads them once, so that the first alarm after a start finds them.
func newSilences(ctx context.Context, s state) *silences {
	out := &silences{state: s}
	out.now.Store(&[]events.Silence{})
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	out.read(ctx)
	return out
}

func (s *silences) current() []events.Silence { return *s.now.Load() }

// read takes up the silences in force. A store that does not answer changes
// nothing: the last answer stays in force.
func (s *silences) read(ctx context.Context) {
	if list, err := s.state.Silences(ctx); err == nil {
		s.now.Store(&list)
	}
}

// run reads them again every second.
func (s *silences) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		s.read(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

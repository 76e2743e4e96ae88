package app

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/stream"
)

// compileRoutes compiles the subscriptions. Its errors are config.Errors with
// the place of the expression.
func compileRoutes(cfg *config.Config) (*route.Set, error) {
	specs := make([]route.Spec, 0, len(cfg.Subscriptions))
	index := map[string]int{}
	for i, s := range cfg.Subscriptions {
		index[s.Name] = i
		specs = append(specs, route.Spec{
			Name: s.Name, Match: s.Match.Text, Urgent: s.Urgent.Text, For: time.Duration(s.For),
			Repeat: time.Duration(s.Repeat), Resolve: s.Resolve, Sinks: s.Sinks,
		})
	}
	set, err := route.Compile(specs)
	if err == nil {
		return set, nil
	}
	var mistakes config.Errors
	for _, e := range flatten(err) {
		path := "subscriptions"
		var c *route.CompileError
		if errors.As(e, &c) {
			path = fmt.Sprintf("subscriptions[%d].%s", index[c.Subscription], c.Field)
			e = errors.New(c.Problem)
			if c.Line > 0 {
				e = fmt.Errorf("%s (at %d:%d of the expression)", c.Problem, c.Line, c.Column)
			}
		}
		mistakes = append(mistakes, mistake(cfg, path, e))
	}
	return nil, mistakes
}

// flatten gives the parts of a joined error.
func flatten(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

// joinMistakes makes one config.Errors of many, so that a user sees all
// mistakes at once; any other error comes first.
func joinMistakes(errs []error) error {
	var all config.Errors
	for _, err := range errs {
		var m config.Errors
		switch {
		case err == nil:
		case errors.As(err, &m):
			all = append(all, m...)
		default:
			return err
		}
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

func (a *App) deliverOptions(ctx context.Context, w *wiring, s builtSink, st *stores, silences func() []events.Silence) deliver.Options {
	schedule := make([]time.Duration, 0, len(s.cfg.Retry.Schedule))
	for _, d := range s.cfg.Retry.Schedule {
		schedule = append(schedule, time.Duration(d))
	}
	k := a.keysOf(ctx, w, s)
	return deliver.Options{
		Name: s.cfg.Name, Sink: k, Changed: k.changed, Source: newSource(st.bus, s),
		Standings: st.state, Graveyard: st.bus, Leases: st.leases, Audit: st.bus.Audit, Silences: silences,
		Notify: a.notify(ctx, st, s.cfg.Name), Set: w.routes, Personal: s.personal,
		Latest: st.bus.Last, Serve: a.serveWishes(st.bus, s.cfg.Name),
		Limit: s.limit, Concurrency: s.inFlight, MaxRate: s.cfg.MaxRate, Pace: a.paces.of(s.cfg), Schedule: schedule, Jitter: s.cfg.Retry.Jitter,
		NewestOnly: s.newestOnly, StreamCreated: st.bus.StreamID,
		Grace: time.Duration(a.Config.ShutdownGrace), Tracer: a.tracer, Log: a.Log, Metrics: a.registry,
	}
}

// source is a stream consumer as the loop wants it.
type source struct {
	*stream.Consumer
	bus  *stream.Bus
	name string // of the sink
}

// newSource takes no more messages in hand than the loop can use.
func newSource(bus *stream.Bus, s builtSink) *source {
	c := bus.Consumer(s.cfg.Name)
	c.InHand = deliver.InHand * s.inFlight
	return &source{c, bus, s.cfg.Name}
}

// Begin starts the consumer over.
func (s *source) Begin(ctx context.Context, at deliver.Start) error {
	return s.Consumer.Begin(ctx, stream.Start(at))
}

// Next gives the next message.
func (s *source) Next(ctx context.Context) (deliver.Message, error) {
	env, handle, err := s.Consumer.Next(ctx)
	if errors.Is(err, stream.ErrBeginAgain) {
		return deliver.Message{}, fmt.Errorf("%w: %w", deliver.ErrBeginAgain, err)
	}
	return deliver.Message{Envelope: env, Handle: handle}, err
}

// Newest gives the newest message of every purchase.
func (s *source) Newest(ctx context.Context) iter.Seq2[events.Envelope, error] {
	return s.bus.Newest(ctx)
}

// feed is the bus as the console reads it.
type feed struct{ bus *stream.Bus }

// Tail follows stored events from a moment on.
func (f feed) Tail(ctx context.Context, since time.Time) iter.Seq2[events.Envelope, error] {
	return f.bus.Tail(ctx, stream.From{Time: since})
}

// notify publishes what a sink's loop has to say as a notice, without making the
// loop wait.
func (a *App) notify(ctx context.Context, st *stores, sink string) func(events.Notice) {
	return func(n events.Notice) {
		n.Sink = sink
		e := events.NewNotice("sink-"+sink, n.Kind, time.Now(), n)
		a.notices.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
			defer cancel()
			if _, err := st.bus.Publish(ctx, e, 0); err != nil {
				a.Log.Warn("publish notice", "sink", sink, "kind", string(n.Kind), "err", err)
			}
		})
	}
}

// noticeTimeout bounds the publishing of one notice; what it says is logged and
// counted as well.
const noticeTimeout = 10 * time.Second

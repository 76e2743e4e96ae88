// Package consoletest plays everything that the console reads and asks: stored
// events, records of deliveries, dead letters, silences, sinks and connections,
// kept in memory. Tests of the API, of the command line and of the page use it.
package consoletest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/events"
)

// World is what there is. Its fields are set before it is used; afterwards its
// methods change it.
type World struct {
	mu       sync.Mutex
	stored   []events.Envelope
	changed  chan struct{} // closed at the next event
	Outcomes []events.Delivery
	Letters  []events.DeadLetter
	Quiet    []events.Silence
	SinkList []console.Sink
	ConnList []console.Connection
	Standing map[string]map[string]events.Standing // sink -> key
	Subs     []console.Subscription                // of the running configuration
	Hoard    []console.Record                      // for searches
	Known    []console.Secret
	Wishes   []console.Wish                                                // that were asked
	Answer   func(sink string, w console.Wish) (console.WishResult, error) // nil: done
	Err      error                                                         // of every store; nil: none
}

// New gives a world with the sample events, stored in order.
func New() *World {
	w := &World{changed: make(chan struct{}), Standing: map[string]map[string]events.Standing{}}
	for _, e := range events.Samples() {
		w.Store(e)
	}
	return w
}

// Empty gives a world without events.
func Empty() *World {
	return &World{changed: make(chan struct{}), Standing: map[string]map[string]events.Standing{}}
}

// Store adds an event, now.
func (w *World) Store(e events.Event) events.Envelope { return w.StoreAt(e, time.Now()) }

// StoreAt adds an event, stored at a time.
func (w *World) StoreAt(e events.Event, at time.Time) events.Envelope {
	w.mu.Lock()
	defer w.mu.Unlock()
	raw, err := events.Encode(e)
	subject, serr := events.EventSubject(e)
	if err = errors.Join(err, serr); err != nil {
		panic(err) // a test's own mistake
	}
	env := events.Envelope{Event: e, Raw: raw, Subject: subject, Sequence: uint64(len(w.stored) + 1), Stored: at.UTC()}
	w.stored = append(w.stored, env)
	close(w.changed)
	w.changed = make(chan struct{})
	return env
}

// StoreBad adds what is no event.
func (w *World) StoreBad() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stored = append(w.stored, events.Envelope{
		Raw: []byte("{"), Subject: "envoy.purchase.x.y", Sequence: uint64(len(w.stored) + 1), Stored: time.Now(), Bad: errors.New("no event"),
	})
}

// Options are the world as the console takes it.
func (w *World) Options() console.Options {
	return console.Options{
		Feed: w, Match: Match, Archive: w, Audit: audit{w}, Graveyard: w, Silences: w, Owners: w, Parts: parts{w},
		Standings: w, Route: w.Route, Vault: vault{w}, Version: "test",
	}
}

func (w *World) snapshot() ([]events.Envelope, chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stored), w.changed, w.Err
}

// Tail follows events.
func (w *World) Tail(ctx context.Context, since time.Time) iter.Seq2[events.Envelope, error] {
	return func(yield func(events.Envelope, error) bool) {
		for n := 0; ; {
			list, changed, _ := w.snapshot()
			for ; n < len(list); n++ {
				if !list[n].Stored.Before(since) && !yield(list[n], nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(events.Envelope{}, ctx.Err())
				return
			}
		}
	}
}

func seq[T any](list []T, err error, keep func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, one := range list {
			if keep(one) && !yield(one, nil) {
				return
			}
		}
	}
}

// Newest gives the newest event of each subject.
func (w *World) Newest(context.Context) iter.Seq2[events.Envelope, error] {
	list, _, err := w.snapshot()
	last := map[string]uint64{}
	for _, e := range list {
		last[e.Subject] = e.Sequence
	}
	return seq(list, err, func(e events.Envelope) bool {
		return last[e.Subject] == e.Sequence && strings.HasPrefix(e.Subject, "envoy.purchase.")
	})
}

// History gives the events of a purchase.
func (w *World) History(_ context.Context, id string) iter.Seq2[events.Envelope, error] {
	list, _, err := w.snapshot()
	return seq(list, err, func(e events.Envelope) bool { return strings.HasSuffix(e.Subject, "."+id) })
}

// Stored gives the events since a time.
func (w *World) Stored(_ context.Context, since time.Time) iter.Seq2[events.Envelope, error] {
	list, _, err := w.snapshot()
	return seq(list, err, func(e events.Envelope) bool { return !e.Stored.Before(since) })
}

type audit struct{ w *World }

// Deliveries gives records.
func (a audit) Deliveries(_ context.Context, f console.DeliveryFilter) iter.Seq2[events.Delivery, error] {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return seq(slices.Clone(a.w.Outcomes), a.w.Err, func(d events.Delivery) bool {
		return (f.Sink == "" || d.Sink == f.Sink) && (f.PurchaseID == "" || d.PurchaseID == f.PurchaseID) && !d.At.Before(f.Since)
	})
}

// Dead gives letters.
func (w *World) Dead(_ context.Context, sink string) iter.Seq2[events.DeadLetter, error] {
	w.mu.Lock()
	defer w.mu.Unlock()
	return seq(slices.Clone(w.Letters), w.Err, func(d events.DeadLetter) bool { return sink == "" || d.Sink == sink })
}

// DeadOne gives the letters of an event.
func (w *World) DeadOne(ctx context.Context, id string) ([]events.DeadLetter, error) {
	var out []events.DeadLetter
	for d, err := range w.Dead(ctx, "") {
		if err != nil {
			return nil, err
		}
		if d.EventID == id {
			out = append(out, d)
		}
	}
	return out, nil
}

// Unbury removes a letter.
func (w *World) Unbury(_ context.Context, sink, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Letters = slices.DeleteFunc(slices.Clone(w.Letters), func(d events.DeadLetter) bool { return d.Sink == sink && d.EventID == id })
	return w.Err
}

// Silences gives those in force.
func (w *World) Silences(context.Context) ([]events.Silence, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.Quiet), w.Err
}

// PutSilence adds one.
func (w *World) PutSilence(_ context.Context, s events.Silence) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Quiet = append(w.Quiet, s)
	return w.Err
}

// DeleteSilence removes one.
func (w *World) DeleteSilence(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Quiet = slices.DeleteFunc(slices.Clone(w.Quiet), func(s events.Silence) bool { return s.ID == id })
	return w.Err
}

// Standings gives what a sink remembers.
func (w *World) Standings(_ context.Context, sink string, keys []string) (map[string]events.Standing, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]events.Standing{}
	for _, k := range keys {
		if s, ok := w.Standing[sink][k]; ok {
			out[k] = s
		}
	}
	return out, w.Err
}

// Ask answers wishes, and forgets a letter that is replayed.
func (w *World) Ask(ctx context.Context, sink string, wish console.Wish) (console.WishResult, error) {
	w.mu.Lock()
	w.Wishes = append(w.Wishes, wish)
	answer := w.Answer
	w.mu.Unlock()
	if answer != nil {
		return answer(sink, wish)
	}
	if wish.Kind == console.WishReplay {
		if err := w.Unbury(ctx, sink, wish.Event); err != nil {
			return console.WishResult{}, err
		}
	}
	return console.WishResult{Status: console.WishDone}, nil
}

// Asked gives the wishes so far.
func (w *World) Asked() []console.Wish {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.Wishes)
}

type parts struct{ w *World }

// Sinks gives the sinks.
func (p parts) Sinks(context.Context) ([]console.Sink, error) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return slices.Clone(p.w.SinkList), p.w.Err
}

// Connections gives the connections.
func (p parts) Connections(context.Context) ([]console.Connection, error) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return slices.Clone(p.w.ConnList), p.w.Err
}

type vault struct{ w *World }

// Records gives what is stored.
func (v vault) Records(context.Context) iter.Seq2[console.Record, error] {
	return seq(v.w.Hoard, v.w.Err, func(console.Record) bool { return true })
}

// Secrets gives the known ones.
func (v vault) Secrets(context.Context) ([]console.Secret, []string) { return v.w.Known, nil }

// Match knows four forms: true, unsettled, situation == "x", connection == "x".
func Match(expression string) (func(events.Event, time.Time) (bool, error), error) {
	name, word, _ := strings.Cut(expression, " == ")
	word = strings.Trim(word, `"`)
	var test func(p *events.Purchase) bool
	switch name {
	case "true":
		test = func(*events.Purchase) bool { return true }
	case "unsettled":
		test = func(p *events.Purchase) bool { return p.Unsettled }
	case "situation":
		test = func(p *events.Purchase) bool { return string(p.Situation) == word }
	case "connection":
		test = func(p *events.Purchase) bool { return p.Connection == word }
	default:
		return nil, fmt.Errorf("1:1: undeclared reference to '%s'", name)
	}
	return func(e events.Event, _ time.Time) (bool, error) { return e.Purchase != nil && test(e.Purchase), nil }, nil
}

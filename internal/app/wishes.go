package app

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
)

const (
	wishRoom  = 256             // wishes that are answered at once
	wishWait  = 7 * time.Second // after which whoever asked is told that it is under way
	takeWait  = 5 * time.Second // until the loop takes a wish
	unburying = 10 * time.Second
)

// desk answers what operators ask of one sink. Only the process that owns the
// sink has one open, so that each wish has one answer.
type desk struct {
	a    *App
	bus  *stream.Bus
	sink string
	loop *deliver.Loop

	mu      sync.Mutex
	letters map[string]bool // event ids of replays under way
}

// serveWishes gives what a loop runs while it owns its sink.
func (a *App) serveWishes(bus *stream.Bus, sink string) func(context.Context, *deliver.Loop) {
	return func(ctx context.Context, l *deliver.Loop) {
		d := &desk{a: a, bus: bus, sink: sink, loop: l, letters: map[string]bool{}}
		if err := d.serve(ctx); err != nil {
			a.Log.Error("wishes about the sink are not answered", "sink", sink, "err", err)
		}
	}
}

// serve listens until ctx ends and everything under way is answered.
func (d *desk) serve(ctx context.Context) error {
	subject, err := console.WishSubject(d.sink)
	if err != nil {
		return err
	}
	arrived := make(chan *nats.Msg, wishRoom)
	sub, err := d.bus.Conn().ChanSubscribe(subject, arrived)
	if err != nil {
		return fmt.Errorf("listen for wishes: %w", err)
	}
	var under sync.WaitGroup
	defer under.Wait()
	places := make(chan struct{}, wishRoom)
	for {
		select {
		case <-ctx.Done():
			_ = sub.Unsubscribe() // a connection that is gone has no subscriptions
			d.turnAway(arrived)
			return nil
		case m := <-arrived:
			select {
			case places <- struct{}{}:
				under.Go(func() {
					defer func() { <-places }()
					d.answer(ctx, m)
				})
			default:
				d.reply(m, refused("too many wishes are under way; ask again later"))
			}
		}
	}
}

// turnAway answers what nobody will take up any more.
func (d *desk) turnAway(arrived <-chan *nats.Msg) {
	for {
		select {
		case m := <-arrived:
			d.reply(m, refused(console.ErrNoOwner.Error()))
		default:
			return
		}
	}
}

func refused(why string) console.WishResult {
	return console.WishResult{Status: console.WishRefused, Problem: why}
}

func (d *desk) reply(m *nats.Msg, r console.WishResult) {
	body, err := json.Marshal(r)
	if err == nil {
		err = m.Respond(body)
	}
	if err != nil {
		d.a.Log.Debug("answer to a wish not sent", "sink", d.sink, "err", err) // who asked hears of it by the time-out
	}
}

// answer fulfils one wish. Who waits for longer than a request lasts is told
// that it is under way; it goes on all the same.
func (d *desk) answer(ctx context.Context, m *nats.Msg) {
	done := make(chan console.WishResult, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { done <- d.fulfil(ctx, m.Data) })
	wait := time.NewTimer(wishWait)
	defer wait.Stop()
	select {
	case r := <-done:
		d.reply(m, r)
	case <-wait.C:
		d.reply(m, console.WishResult{Status: console.WishTaken})
	}
}

func (d *desk) fulfil(ctx context.Context, body []byte) console.WishResult {
	var w console.Wish
	if err := json.Unmarshal(body, &w); err != nil {
		return refused("the request is no wish")
	}
	switch w.Kind {
	case console.WishTest:
		return d.do(ctx, deliver.Wish{Kind: deliver.WishTest, By: w.By})
	case console.WishReplay:
		return d.replay(ctx, w)
	}
	return refused("this is not a thing that a sink's owner does")
}

// replay sends a dead letter again. It leaves the dead letters only once the
// receiver has accepted it.
func (d *desk) replay(ctx context.Context, w console.Wish) console.WishResult {
	if !events.ValidEventID(w.Event) {
		return refused("this is no id of an event")
	}
	if !d.begin(w.Event) {
		return refused("a replay of this letter is under way already")
	}
	defer d.end(w.Event)
	letter, err := d.letter(ctx, w.Event)
	if err != nil {
		return refused(err.Error())
	}
	r := d.do(ctx, deliver.Wish{Kind: deliver.WishReplay, Letter: letter, By: w.By})
	if r.Status != console.WishDone {
		return r
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unburying)
	defer cancel()
	if err := d.bus.Unbury(ctx, d.sink, w.Event); err != nil {
		d.a.Log.Warn("a replayed letter is still among the dead letters", "sink", d.sink, "event", w.Event, "err", err)
		r.Problem = "accepted, but the letter could not be removed; drop it"
	}
	return r
}

func (d *desk) begin(event string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.letters[event] {
		return false
	}
	d.letters[event] = true
	return true
}

func (d *desk) end(event string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.letters, event)
}

// letter finds the sink's dead letter of an event.
func (d *desk) letter(ctx context.Context, event string) (events.DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, takeWait)
	defer cancel()
	found, err := d.bus.DeadOne(ctx, event)
	if err != nil {
		return events.DeadLetter{}, fmt.Errorf("read the dead letter: %w", err)
	}
	for _, l := range found {
		if l.Sink == d.sink {
			return l, nil
		}
	}
	return events.DeadLetter{}, fmt.Errorf("no dead letter of this event rests for sink %s", d.sink)
}

// do hands a wish to the loop.
func (d *desk) do(ctx context.Context, w deliver.Wish) console.WishResult {
	ctx, cancel := context.WithTimeout(ctx, takeWait)
	defer cancel()
	r, err := d.loop.Do(ctx, w)
	if err != nil {
		return refused("the owner of the sink is busy beginning or ending; ask again")
	}
	out := console.WishResult{Problem: r.Problem, Detail: r.Detail, Millis: r.Took.Milliseconds()}
	switch r.Status {
	case deliver.WishDone:
		out.Status = console.WishDone
	case deliver.WishFailed:
		out.Status = console.WishFailed
	case deliver.WishRefused:
		out.Status = console.WishRefused
	}
	return out
}

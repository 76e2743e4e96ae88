package watch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/backoff"
	"github.com/heraldbridge/herald/internal/events"
)

// publication is an event that is not known to be stored yet. Its purchase is not read until it is.
type publication struct {
	event events.Event
	said  *said // what it is made of; nil: of the event before
	since time.Time
	open  bool // a look would show the purchase, so there is none meanwhile
}

// announce publishes an event of p and tries until it is stored.
func (t *term) announce(ctx context.Context, p *purchase, pub publication, now time.Time) {
	pub.since, pub.open = now, !pub.event.Purchase.Terminal
	p.publishing = &pub
	if pub.open {
		t.sense.unstored++
	}
	t.schedule(p, now)
	after, traced := p.cursor.Sequence, t.trace(ctx, &pub, now)
	t.spawn(ctx, func(ctx context.Context) effect {
		seq, err := t.store(ctx, pub.event, after)
		traced(err)
		switch {
		case err == nil:
			return func(ctx context.Context, now time.Time) { t.acknowledged(ctx, p, seq, now) }
		case errors.Is(err, events.ErrNewer):
			return func(context.Context, time.Time) {
				t.fail(fmt.Errorf("publish %s: %w", pub.event.ID, err))
			}
		default:
			return nil // the term is over
		}
	})
}

// store publishes until the event is stored, another owner is ahead, or the term ends.
func (t *term) store(ctx context.Context, e events.Event, after uint64) (uint64, error) {
	delays := backoff.Policy{Base: time.Second, Max: 30 * time.Second}
	for try := 0; ; try++ {
		if err := t.owned.Err(); err != nil {
			return 0, fmt.Errorf("publish without lease: %w", err)
		}
		limited, cancel := context.WithTimeout(ctx, 15*time.Second)
		seq, err := t.w.publisher.Publish(limited, e, after)
		cancel()
		switch {
		case err == nil:
			return seq, nil
		case errors.Is(err, events.ErrNewer):
			return 0, err
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
		t.w.metrics.publishErrors.Inc()
		if try == 0 || try%10 == 9 {
			t.log.Error("publish event", "event", e.ID, "try", try+1, "error", err)
		}
		pause(ctx, delays.Delay(try)+100*time.Millisecond)
	}
}

// acknowledged moves the cursor on, and then the purchase.
func (t *term) acknowledged(ctx context.Context, p *purchase, seq uint64, now time.Time) {
	pub := p.publishing
	e := pub.event
	if pub.open {
		t.sense.unstored--
	}
	p.publishing = nil
	t.sense.published = now
	label := string(e.Purchase.Reading.Cause)
	if e.Type == events.TypeOverdue {
		label = "overdue"
	}
	t.w.metrics.events.WithLabelValues(label).Inc()
	p.cursor = p.cursor.Advanced(e, seq, now, pub.said != nil && pub.said.passed)
	if p.baseline {
		t.saveSet(now, nil) // it is like any other from now on
	}
	p.known, p.baseline, p.probe = true, false, false
	if p.said, p.last = pub.said, nil; p.said == nil {
		p.last = &e
	}
	t.writer.putCursor(p.id, p.cursor)
	if p.gone {
		return
	}
	if p.snap == nil || len(p.pending) > 0 {
		t.drain(ctx, p, now)
		return
	}
	t.judgeAgain(ctx, p, now) // held money may have been seen meanwhile
	t.checkOverdue(ctx, p, now)
}

// notices publishes what a connection has to say, one after the other.
type notices struct {
	queue []events.Event
	busy  bool
	stamp time.Time // of the newest, so that no two have the same time
}

const noticeLimit = 256 // that wait to be stored; beyond it the oldest are lost, and counted in the log

// say queues a notice.
func (t *term) say(ctx context.Context, kind events.NoticeKind, now time.Time, n events.Notice) {
	at := now
	if !at.After(t.notices.stamp) {
		at = t.notices.stamp.Add(time.Millisecond)
	}
	t.notices.stamp = at.Truncate(time.Millisecond)
	if len(t.notices.queue) >= noticeLimit {
		t.log.Error("drop notice", "kind", t.notices.queue[0].Notice.Kind)
		t.notices.queue = t.notices.queue[1:]
	}
	t.notices.queue = append(t.notices.queue, events.NewNotice(t.conn.Name, kind, at, n))
	t.log.Warn("notice", "kind", kind, "purchase", n.PurchaseID, "code", n.Code, "text", n.Text)
	t.tell(ctx)
}

func (t *term) tell(ctx context.Context) {
	if t.notices.busy || len(t.notices.queue) == 0 {
		return
	}
	t.notices.busy = true
	e := t.notices.queue[0]
	t.notices.queue = t.notices.queue[1:]
	t.spawn(ctx, func(ctx context.Context) effect {
		if _, err := t.store(ctx, e, 0); err != nil && !errors.Is(err, events.ErrNewer) {
			return nil
		}
		return func(ctx context.Context, _ time.Time) {
			t.w.metrics.notices.WithLabelValues(string(e.Notice.Kind)).Inc()
			t.notices.busy = false
			t.tell(ctx)
		}
	})
}

// writer stores cursors and the watch set beside the loop, newest first come, and tries until the store takes them.
// The events themselves are safe before: what is lost here is found again in the stream.
type writer struct {
	w          *Watcher
	connection string
	owner      string // no other has this name: sets of others are refused once ours was read
	wake       chan struct{}
	hurry      chan struct{} // a set waits, and perhaps a host for it
	seat       *seat         // woken when a set is written

	mu      sync.Mutex
	cursors map[string]events.Cursor
	set     *events.WatchSet
	done    []func(error)
	writing bool // a set is on its way
	taken   bool // another owner has the set
	trouble bool
}

var errNotLoaded = errors.New("the watch set is not read yet")

func newWriter(w *Watcher, connection string, s *seat) *writer {
	return &writer{
		w: w, connection: connection, owner: rand.Text(), seat: s,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), cursors: map[string]events.Cursor{},
	}
}

func (w *writer) putCursor(id string, c events.Cursor) {
	w.mu.Lock()
	w.cursors[id] = c
	w.mu.Unlock()
	ping(w.wake)
}

func (w *writer) putSet(s events.WatchSet, done []func(error)) {
	w.mu.Lock()
	w.set, w.writing = &s, true
	w.done = append(w.done, done...)
	w.mu.Unlock()
	ping(w.hurry)
	ping(w.wake)
}

// free tells whether a set can be taken: the one before was tried.
func (w *writer) free() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.writing
}

// overtaken tells, once, that another owner has the set. None is free to be given until goOn.
func (w *writer) overtaken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.taken
	w.taken = false
	return taken
}

// goOn has sets given again: what is stored is known, and ours.
func (w *writer) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = false
}

func ping(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// troubled tells whether the store refused the newest write.
func (w *writer) troubled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// Cursors may wait for more of their kind: a trip to the store costs about as much as the reading that it is about.
const (
	writerLinger = 500 * time.Millisecond
	lastTrip     = 2 * time.Second // for what waits at the end
)

func (w *writer) run(ctx context.Context) {
	delays := backoff.Policy{Base: time.Second, Max: 15 * time.Second}
	linger := time.NewTimer(0)
	defer linger.Stop()
	for fails := 0; ; {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTrip)
			defer cancel()
			_ = w.flushCursors(last) // the stream has all of it; a set is for the next owner to write
			w.answer(ctx.Err())
			return
		case <-w.wake:
		}
		linger.Reset(writerLinger)
		select {
		case <-ctx.Done():
		case <-w.hurry:
		case <-linger.C:
		}
		for ctx.Err() == nil {
			if w.flush(ctx) == nil {
				fails = 0
				break
			}
			fails++
			pause(ctx, delays.Delay(fails)+200*time.Millisecond)
		}
	}
}

// flush writes all that waits. What fails stays, unless something newer has come.
func (w *writer) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err := w.flushSet(ctx)
	if err == nil { // else the store is in trouble
		err = w.flushCursors(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = err != nil
	return err
}

func (w *writer) flushSet(ctx context.Context) error {
	w.mu.Lock()
	set, done := w.set, w.done
	w.set, w.done = nil, nil
	w.mu.Unlock()
	if set == nil {
		return nil
	}
	err := w.w.sets.PutWatchSet(ctx, w.connection, w.owner, *set)
	if errors.Is(err, events.ErrTaken) {
		w.lose(done)
		return nil
	}
	for _, f := range done {
		f(err)
	}
	w.mu.Lock()
	if err != nil && w.set == nil {
		w.set = set
	}
	w.writing = false
	w.mu.Unlock()
	if err != nil {
		w.w.metrics.storeErrors.WithLabelValues("set").Inc()
	}
	w.seat.ping()
	return err
}

// lose has the loop take the set again, if it still may. Who waits for this one waits for the next.
func (w *writer) lose(done []func(error)) {
	w.mu.Lock()
	w.taken, w.done = true, append(done, w.done...)
	w.mu.Unlock()
	w.seat.ping()
}

func (w *writer) flushCursors(ctx context.Context) error {
	w.mu.Lock()
	cursors := w.cursors
	w.cursors = map[string]events.Cursor{}
	w.mu.Unlock()
	if len(cursors) == 0 {
		return nil
	}
	err := w.w.cursors.Advance(ctx, cursors)
	if err == nil {
		return nil
	}
	w.w.metrics.storeErrors.WithLabelValues("cursor").Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, c := range cursors {
		if _, newer := w.cursors[id]; !newer {
			w.cursors[id] = c
		}
	}
	return err
}

// answer tells those who wait that nothing more will be written.
func (w *writer) answer(err error) {
	w.mu.Lock()
	done := w.done
	w.done = nil
	w.mu.Unlock()
	for _, f := range done {
		f(err)
	}
}

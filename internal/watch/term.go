package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/deadline"
	"github.com/heraldbridge/herald/internal/envoy"
)

// effect is what the end of a job does to the term. Only the loop runs effects.
type effect func(ctx context.Context, now time.Time)

// term is one ownership of a connection: everything that is known about it, and the loop that owns it all.
type term struct {
	w      *Watcher
	k      *keeper
	conn   Connection
	policy Policy
	log    *slog.Logger
	owned  context.Context //nolint:containedctx // the lease itself: its Err is exact by the clock, and is asked before each call
	budget *budget
	seat   *seat
	began  time.Time

	ends    deadline.Shared // of holds
	inbox   chan effect
	over    chan struct{} // closed when the loop is over
	jobs    sync.WaitGroup
	toLoad  []wanted // purchases whose records are not read yet
	loading int      // reads of records that are under way
	failed  error

	loadFails int // reads of records in a row that failed

	byID   map[string]*purchase
	byKey  map[string]*purchase // those that only a key is known of
	agenda agenda
	due    []*purchase

	sight    sight
	roll     roll
	looking  bool
	listing  bool
	wantList bool
	calm     time.Time // no dispatch before
	origin   origin    // of what is being taken
	swing    float64   // part by which the paces of discovery are longer now, -0.1 to 0.1
	lookLine line
	listLine line

	agentID   string // of the connection's own host, as remembered or seen
	agentSeen bool   // in this term: a token can become another host's

	account account
	memory  memory
	writer  *writer
	park    *park
	sense   sense
	notices notices
	levels  levels
}

func newTerm(owned context.Context, k *keeper) *term {
	t := &term{
		w: k.w, k: k, conn: k.conn, policy: k.w.policy, log: k.w.log.With("connection", k.conn.Name),
		owned: owned, budget: k.budget, seat: newSeat(), began: time.Now(),
		inbox: make(chan effect), over: make(chan struct{}),
		byID: map[string]*purchase{}, byKey: map[string]*purchase{},
		memory: newMemory(), levels: newLevels(k.w.metrics),
	}
	t.writer = newWriter(k.w, k.conn.Name, t.seat)
	t.sense.heard, t.sense.refused = t.began, map[envoy.Tool]bool{}
	return t
}

// run is the loop. It returns when ctx ends and all jobs have ended; the error says why it ended itself.
func (t *term) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer t.close()
	defer t.jobs.Wait()
	defer cancel()
	t.budget.join(t.seat, t.began)
	t.jobs.Go(func() { t.writer.run(ctx) })
	t.loadSet(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for t.failed == nil {
		select {
		case <-ctx.Done():
			return nil
		case e := <-t.inbox:
			e(ctx, time.Now())
		case <-t.seat.wake:
		case <-timer.C:
		}
		if ctx.Err() != nil || t.owned.Err() != nil {
			return nil
		}
		now := time.Now()
		t.tick(ctx, now)
		wake := t.dispatch(ctx, now)
		wake = earlier(wake, t.flushSet(now))
		t.show()
		timer.Reset(max(time.Millisecond, wake.Sub(now)))
	}
	return t.failed
}

func (t *term) close() {
	for _, done := range t.memory.waiting {
		done(context.Canceled)
	}
	t.budget.leave(t.seat, time.Now())
	t.levels.clear()
	t.w.metrics.crowd.set(t.conn.Name, nil)
	close(t.over)
}

// spawn runs a job beside the loop; what it returns is run by the loop.
func (t *term) spawn(ctx context.Context, job func(context.Context) effect) {
	t.jobs.Go(func() {
		if e := job(ctx); e != nil {
			t.hand(ctx, e)
		}
	})
}

// hand gives an effect to the loop.
func (t *term) hand(ctx context.Context, e effect) {
	select {
	case t.inbox <- e:
	case <-ctx.Done():
	}
}

// schedule works out when something may be due about p.
func (t *term) schedule(p *purchase, now time.Time) {
	if p.gone {
		return
	}
	p.at = never
	if !p.busy() {
		if s := plan(p.view(now), t.sight, t.roll, t.policy, now); s.Do != actStop {
			p.at = s.At
		}
	}
	t.agenda.put(p)
}

// scheduleAll is for what concerns every purchase: a new look, a new list.
func (t *term) scheduleAll(now time.Time) {
	for _, p := range t.byID {
		t.schedule(p, now)
	}
	for _, p := range t.byKey {
		t.schedule(p, now)
	}
}

// fail ends the term.
func (t *term) fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

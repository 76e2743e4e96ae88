package watch

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

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

	inbox  chan effect
	over   chan struct{} // closed when the loop is over
	jobs   sync.WaitGroup
	slots  chan struct{} // bounds the store reads that run together
	failed error

	byID   map[string]*purchase
	byKey  map[string]*purchase // those that only a key is known of
	agenda agenda
	due    []*purchase

	sight    sight
	roll     roll
	looking  bool
	listing  bool
	wantList bool
	lookLine line
	listLine line
	agentID  string

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
		inbox: make(chan effect), over: make(chan struct{}), slots: make(chan struct{}, 8),
		byID: map[string]*purchase{}, byKey: map[string]*purchase{},
		memory: newMemory(), levels: newLevels(k.w.metrics),
	}
	t.writer = newWriter(k.w, k.conn.Name)
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
		t.show()
		timer.Reset(max(time.Millisecond, wake.Sub(now)))
	}
	return t.failed
}

func (t *term) close() {
	t.budget.leave(t.seat, time.Now())
	t.levels.clear()
	close(t.over)
}

// spawn runs a job beside the loop; what it returns is run by the loop.
func (t *term) spawn(ctx context.Context, job func(context.Context) effect) {
	t.jobs.Go(func() {
		e := job(ctx)
		if e == nil {
			return
		}
		select {
		case t.inbox <- e:
		case <-ctx.Done():
		}
	})
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

// errand is one call that is wanted now.
type errand struct {
	do   act
	p    *purchase // of a status call
	step step
	wish wish
}

// dispatch makes the calls that are due and that the budget gives, and says when to come again.
func (t *term) dispatch(ctx context.Context, now time.Time) time.Time {
	for {
		if !t.ready(now) {
			t.budget.pass(t.seat, now)
			return now.Add(time.Second)
		}
		e, at, ok := t.best(now)
		if !ok {
			t.budget.pass(t.seat, now)
			return earlier(at, t.sense.next)
		}
		granted, wait := t.budget.take(t.seat, e.wish, now)
		if !granted {
			if wait <= 0 {
				wait = time.Second // another goes first and will wake us
			}
			return earlier(now.Add(wait), t.sense.next)
		}
		t.w.metrics.budgetWaits.Observe(max(0, now.Sub(e.wish.since).Seconds()))
		t.start(ctx, e, now)
	}
}

// ready tells whether calls make sense: what was watched before is known, or the store had its chance to say.
func (t *term) ready(now time.Time) bool {
	return t.memory.loaded || now.Sub(t.began) > 5*time.Second
}

// best finds the most urgent errand of the connection. Without one it says when the next is due.
func (t *term) best(now time.Time) (errand, time.Time, bool) {
	if t.park != nil {
		return t.trial(now)
	}
	t.gather(now)
	var best *errand
	consider := func(e errand) {
		if best == nil || e.wish.before(best.wish, now) {
			best = &e
		}
	}
	for _, p := range t.due {
		t.offer(p, now, consider)
	}
	next := t.discover(now, consider)
	if best != nil {
		return *best, now, true
	}
	if first := t.agenda.first(); first != nil {
		next = earlier(next, first.at)
	}
	if left := t.sight.left.Add(lookHead); t.looking && left.After(now) {
		next = earlier(next, left)
	}
	return errand{}, next, false
}

// gather moves what is due from the agenda to the list of due purchases, and what is not due any more back.
func (t *term) gather(now time.Time) {
	kept := t.due[:0]
	for _, p := range t.due {
		if p.gone {
			continue
		}
		t.schedule(p, now)
		if p.at.After(now) {
			p.dueSince = time.Time{}
			continue
		}
		t.agenda.drop(p)
		kept = append(kept, p)
	}
	for first := t.agenda.first(); first != nil && !first.at.After(now); first = t.agenda.first() {
		p := heap.Pop(&t.agenda).(*purchase)
		t.schedule(p, now)
		if p.at.After(now) {
			continue
		}
		t.agenda.drop(p)
		p.dueSince = now
		kept = append(kept, p)
	}
	t.due = kept
}

// lookHead is how long requests wait for a look that is under way: it may show what forbids them.
const lookHead = 2 * time.Second

// offer puts what p wants before consider.
func (t *term) offer(p *purchase, now time.Time, consider func(errand)) {
	s := plan(p.view(now), t.sight, t.roll, t.policy, now)
	if s.At.After(now) {
		return
	}
	e := errand{do: s.Do, p: p, step: s, wish: wish{class: p.class(now), since: p.dueSince}}
	switch s.Do {
	case actLook:
		if t.mayLook() {
			consider(e)
		}
	case actList:
		if !t.listing {
			consider(e)
		}
	case actHold, actRead:
		if (!t.looking || now.Sub(t.sight.left) >= lookHead) && t.introduced(p, now) {
			consider(e)
		}
	case actStop:
	}
}

// mayLook tells whether a look may go out: not while what it would show has an event that is not stored yet.
func (t *term) mayLook() bool {
	return !t.looking && t.sense.unstored == 0
}

// introduced tells whether it is known whose purchases are ours, or will not be. Before, only what this
// connection has watched or published already is read: the others may be those of another host of the user.
func (t *term) introduced(p *purchase, now time.Time) bool {
	return p.ours || t.policy.Others || !t.sight.asked.IsZero() || t.lookLine.refused > 0 || now.Sub(t.began) > 15*time.Minute
}

// discover offers the looks and lists that are due without any purchase wanting them, and says when the next is.
func (t *term) discover(now time.Time, consider func(errand)) time.Time {
	look := t.began
	if !t.sight.asked.IsZero() {
		look = t.sight.asked.Add(t.discoverEvery(now))
	}
	look = later(look, t.sight.closed)
	list := t.began
	if !t.wantList && !t.roll.asked.IsZero() {
		list = t.roll.asked.Add(listEvery)
	}
	list = later(list, t.roll.closed)
	next := never
	if t.mayLook() {
		next = earlier(next, look)
		if !look.After(now) {
			consider(errand{do: actLook, wish: wish{class: classDiscover, since: look}})
		}
	}
	// The first list waits for the first look: a look shows more.
	if !t.listing && !t.sight.tried.IsZero() {
		next = earlier(next, list)
		if !list.After(now) {
			consider(errand{do: actList, wish: wish{class: classDiscover, since: list}})
		}
	}
	return next
}

// discoverEvery is slower where the host registers its purchases and none has been open for an hour.
func (t *term) discoverEvery(now time.Time) time.Duration {
	if t.memory.registers && now.Sub(t.sense.open) > time.Hour {
		return max(5*time.Minute, t.policy.DiscoverEvery)
	}
	return t.policy.DiscoverEvery
}

// start makes a call.
func (t *term) start(ctx context.Context, e errand, now time.Time) {
	switch e.do {
	case actHold, actRead:
		t.ask(ctx, e.p, e.step, now)
	case actLook:
		t.look(ctx, now)
	case actList:
		t.list(ctx, now)
	case actStop:
	}
}

// fail ends the term.
func (t *term) fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

package watch

import (
	"container/heap"
	"context"
	"slices"
	"time"
)

// errand is one call that is wanted now.
type errand struct {
	do   act
	p    *purchase // of a status call
	step step
	wish wish
}

// dispatch makes the calls that are due, the most urgent first, as far as the budget gives them, and says when to come
// again. What is called is decided in the moment in which the budget gives the call.
func (t *term) dispatch(ctx context.Context, now time.Time) time.Time {
	if !t.ready(now) {
		t.budget.pass(t.seat, now)
		return now.Add(time.Second)
	}
	if now.Before(t.calm) {
		return earlier(t.calm, t.sense.next)
	}
	errands, next := t.errands(now)
	if len(errands) > 100 {
		t.calm = now.Add(10 * time.Millisecond) // looking through them all has its price
	}
	for _, e := range errands {
		if !t.still(e, now) {
			if e.do == actHold || e.do == actRead {
				next = earlier(next, t.sight.left.Add(lookHead))
			}
			continue // whatever else stands in its way wakes us when it ends
		}
		granted, wait := t.grant(e, now)
		if !granted {
			if wait <= 0 {
				wait = time.Second // another goes first and will wake us
			}
			return earlier(now.Add(wait), t.sense.next)
		}
		t.w.metrics.budgetWaits.Observe(max(0, now.Sub(e.wish.since).Seconds()))
		t.start(ctx, e, now)
	}
	t.budget.pass(t.seat, now)
	return earlier(next, t.sense.next)
}

// grant asks for leave to make a call now. The trial of a refused token waits for the gate of the process as well as
// for its budget: one that the budget made late must not follow on the heels of the next.
func (t *term) grant(e errand, now time.Time) (bool, time.Duration) {
	take := func() (bool, time.Duration) { return t.budget.take(t.seat, e.wish, now) }
	if t.park != nil && t.park.reason == ParkToken {
		return t.w.auth.pass(now, take)
	}
	return take()
}

// ready tells whether calls make sense: what was watched before is known, or the store had its chance to say.
func (t *term) ready(now time.Time) bool {
	return t.memory.loaded || now.Sub(t.began) > 5*time.Second
}

// errands are the calls that are wanted now, the most urgent first, and when the next will be.
func (t *term) errands(now time.Time) ([]errand, time.Time) {
	if t.park != nil {
		e, at, ok := t.trial(now)
		if !ok {
			return nil, at
		}
		return []errand{e}, never
	}
	t.gather(now)
	var list []errand
	add := func(e errand) { list = append(list, e) }
	for _, p := range t.due {
		t.offer(p, now, add)
	}
	next := t.discover(now, add)
	if first := t.agenda.first(); first != nil {
		next = earlier(next, first.at)
	}
	slices.SortStableFunc(list, func(a, b errand) int {
		switch {
		case a.wish.before(b.wish, now):
			return -1
		case b.wish.before(a.wish, now):
			return 1
		default:
			return 0
		}
	})
	return list, next
}

// still tells whether an errand may go out now, after those before it did.
func (t *term) still(e errand, now time.Time) bool {
	switch e.do {
	case actLook:
		return t.park != nil || t.mayLook()
	case actList:
		return !t.listing
	case actHold, actRead:
		return !t.looking || now.Sub(t.sight.left) >= lookHead
	default:
		return false
	}
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
		if p.dueSince.IsZero() { // it was asked about meanwhile, and is due again
			p.dueSince = now
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

// offer adds what p wants.
func (t *term) offer(p *purchase, now time.Time, add func(errand)) {
	s := plan(p.view(now), t.sight, t.roll, t.policy, now)
	if s.At.After(now) || (s.Do == actHold || s.Do == actRead) && !t.introduced(p, now) {
		return
	}
	add(errand{do: s.Do, p: p, step: s, wish: wish{class: p.class(now), since: p.dueSince}})
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
func (t *term) discover(now time.Time, add func(errand)) time.Time {
	look := t.began
	if !t.sight.asked.IsZero() {
		look = t.sight.asked.Add(t.swung(t.discoverEvery(now)))
	}
	look = later(look, t.sight.closed)
	list := t.began
	if !t.wantList && !t.roll.asked.IsZero() {
		list = t.roll.asked.Add(t.swung(listEvery))
	}
	list = later(list, t.roll.closed)
	next := never
	if t.mayLook() {
		next = earlier(next, look)
		if !look.After(now) {
			add(errand{do: actLook, wish: wish{class: classDiscover, since: look}})
		}
	}
	// The first list waits for the first look: a look shows more.
	if !t.listing && !t.sight.tried.IsZero() {
		next = earlier(next, list)
		if !list.After(now) {
			add(errand{do: actList, wish: wish{class: classDiscover, since: list}})
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

// swung is d with the jitter of this look: what many connections began together they do not go on doing together.
func (t *term) swung(d time.Duration) time.Duration { return d + time.Duration(t.swing*float64(d)) }

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

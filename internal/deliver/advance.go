package deliver

import (
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/sinks"
)

const (
	fresh     = time.Second            // for which a decision holds while nothing happens to its lane
	patience  = 3                      // tries of an event for which newer ones of its lane wait
	plainness = 3                      // tries of an event that is plainly refused
	stepBack  = 500 * time.Millisecond // by which a newer message comes after the older one that it waits for
	buryAgain = 5 * time.Second
)

// advance brings the lane's oldest items to where they wait for something: a
// place to send, their time, a write, a burial.
func (s *shift) advance(ln *lane) {
	for !ln.busy && len(ln.items) > 0 {
		it, now := ln.items[0], time.Now()
		st := &ln.rec.standing
		try := st.Tries[it.eventID()]
		switch {
		case it.ask != nil && s.o.NewestOnly && ln.newer(it):
			s.answer(ln, it, WishResult{Status: WishRefused, Problem: notNewest})
		case it.ask != nil:
			s.enqueue(ln)
			return
		case s.said(ln, it):
			s.absorb(ln, it)
		case it.bury != nil:
			s.startBurial(ln, it)
			return
		case it.msg.Bad != nil:
			it.bury = s.deadLetter(it, CauseUndecodable, it.msg.Bad.Error(), try)
		case s.leftOver(it):
			s.settle(ln, it, OutcomeSkipped, "older than the sink", false)
		case s.o.NewestOnly && ln.newer(it):
			s.collapse(ln, it)
		case try.Count >= patience && ln.waited(it) && !it.timer:
			it.bury = s.deadLetter(it, CauseSuperseded, try.Last, try)
		case it.out:
			s.stepBehind(ln, it)
			return
		case try.Due.After(now):
			s.putOff(ln, it, try.Due)
		default:
			if done := s.plan(ln, it); !done {
				return
			}
		}
	}
}

// said reports whether the item was settled before. The lane's sequence says so,
// in the stream it counts in; so does the id that was sent last, for an event
// that was published anew. An event decided again by the clock is not a repeat.
func (s *shift) said(ln *lane, it *item) bool {
	if it.timer || it.bury != nil {
		return false
	}
	st := ln.rec.standing
	return st.Stream.Equal(s.book.created) && covers(st, it.msg.Envelope) || st.LastID != "" && st.LastID == it.eventID()
}

// absorb settles a repeat without a word.
func (s *shift) absorb(ln *lane, it *item) {
	if !it.out {
		s.l.metrics.absorbed.Inc()
		s.acknowledge(it)
	}
	s.release(ln, it)
}

// leftOver reports whether the item was there before the sink was new and is
// not worth telling any more.
func (s *shift) leftOver(it *item) bool {
	if it.timer || !covers(events.Standing{Settled: s.boundary, SettledAt: s.boundaryAt}, it.msg.Envelope) {
		return false
	}
	return it.msg.Event.Purchase == nil || settled(it.msg.Event)
}

// plan decides what the event is worth and has it told, or settles it. It
// reports whether the lane can go on to the next item.
func (s *shift) plan(ln *lane, it *item) (done bool) {
	d := s.decide(ln, it)
	switch {
	case d.Err != nil:
		it.bury = s.deadLetter(it, CauseExpression, d.Err.Error(), ln.rec.standing.Tries[it.eventID()])
		return true
	case d.Action.Told():
		it.plan, it.planned = d, time.Now()
		s.enqueue(ln)
		return false
	}
	changed := len(ln.rec.standing.Alarms) > 0 || len(d.Standing.Alarms) > 0
	ln.rec.standing = d.Standing
	s.waitFor(ln, it, d.Until)
	outcome := OutcomeSkipped
	if d.Action == route.ActionWait {
		outcome = OutcomeWaiting
	}
	s.l.metrics.skipped.Inc()
	s.settle(ln, it, outcome, string(d.Reason), changed)
	return !ln.busy
}

func (s *shift) decide(ln *lane, it *item) route.Decision {
	return route.Decide(route.Input{
		Event: it.msg.Event, Stored: it.msg.Stored, Standing: ln.rec.standing, Sink: s.o.Name,
		Set: s.o.Set, Silences: s.silences, Now: time.Now(), Again: it.timer,
	})
}

// waitFor has the purchase's newest event decided again at that moment.
func (s *shift) waitFor(ln *lane, it *item, until time.Time) {
	switch {
	case it.msg.Event.Purchase == nil:
	case until.IsZero():
		s.waits.remove(it.subject())
	default:
		s.waits.set(wait{lane: ln.key, env: it.msg.Envelope, until: until})
	}
}

// collapse leaves an event out because a newer one of its purchase is in hand.
// What it means for alarms is kept: a match that began, or broke, did so.
func (s *shift) collapse(ln *lane, it *item) {
	if d := s.decide(ln, it); d.Err == nil {
		ln.rec.standing = d.Untold(ln.rec.standing)
	}
	ln.rec.held++
	s.settle(ln, it, OutcomeSuperseded, "a newer event of the purchase is told", true)
}

// stepBehind hands the newer messages of a lane back until a little after the
// older one that they wait for, so that they take no room in hand.
func (s *shift) stepBehind(ln *lane, head *item) {
	delay := max(time.Until(head.due), 0) + stepBack
	for _, it := range ln.items[1:] {
		if it.out || it.ours() {
			continue
		}
		s.handOut(it, delay)
	}
}

// putOff waits for the time of an item's next try. A message is handed back;
// what is decided by the clock waits on the clock.
func (s *shift) putOff(ln *lane, it *item, due time.Time) {
	if it.timer {
		s.waitFor(ln, it, due)
		s.release(ln, it)
		return
	}
	s.handOut(it, time.Until(due))
}

// handOut gives a message back to the stream for a while.
func (s *shift) handOut(it *item, delay time.Duration) {
	if s.owned.Err() != nil {
		return
	}
	if err := it.msg.Handle.NakWithDelay(delay); err != nil {
		s.o.Log.Debug("message not handed back", "error", err) // the ack wait brings it again
	}
	it.out, it.due = true, time.Now().Add(delay)
	s.inHand--
}

// enqueue has the lane wait for a free place to send.
func (s *shift) enqueue(ln *lane) {
	if !ln.queued {
		ln.queued = true
		s.ready = append(s.ready, ln)
	}
}

// pump starts tries while there are places, the pace allows it and the sink is well.
func (s *shift) pump() {
	for len(s.ready) > 0 && s.sending < s.o.Concurrency && s.ending == nil && s.owned.Err() == nil {
		now, at := time.Now(), 0
		if now.Before(s.o.Pace.free()) || !s.mayStart(now) {
			return
		}
		probe := !s.l.breaker.closed()
		if probe {
			at = s.probe()
		}
		ln := s.ready[at]
		s.ready = append(s.ready[:at], s.ready[at+1:]...)
		ln.queued = false
		if ln.busy || len(ln.items) == 0 || s.lanes[ln.key] != ln {
			continue
		}
		s.start(ln, ln.items[0], probe)
	}
}

// probe picks the oldest waiting item of another lane than the one that failed last.
func (s *shift) probe() int {
	best := -1
	for i, ln := range s.ready {
		if ln.key == s.l.breaker.last || len(ln.items) == 0 {
			continue
		}
		if best < 0 || ln.items[0].msg.Sequence < s.ready[best].items[0].msg.Sequence {
			best = i
		}
	}
	return max(best, 0)
}

// start sends what the lane's oldest item is worth now.
func (s *shift) start(ln *lane, it *item, probe bool) {
	n, ok := s.prepare(ln, it)
	if !ok {
		s.touch(ln)
		return
	}
	if !s.o.Pace.take(time.Now()) { // another sink of the same receiver was faster
		s.enqueue(ln)
		return
	}
	ln.busy = true
	s.sending++
	s.l.breaker.probing = s.l.breaker.probing || probe
	ctx := s.trying()
	r := &result{ln: ln, it: it, n: n, probe: probe}
	s.aside(func() func() { return s.send(ctx, r) })
}

// prepare builds the notification of an item, unless time has passed since it was
// planned and there is nothing to tell now.
func (s *shift) prepare(ln *lane, it *item) (n sinks.Notification, ok bool) {
	if it.bury != nil || it.out || s.o.NewestOnly && ln.newer(it) {
		return n, false
	}
	if it.ask != nil {
		return s.replay(ln, it), true
	}
	if time.Since(it.planned) > fresh {
		if it.plan = s.decide(ln, it); it.plan.Err != nil || !it.plan.Action.Told() {
			return n, false
		}
	}
	return s.notification(ln, it, it.plan), true
}

// notification builds what the sink is given. It sees nothing personal that it
// may not have, neither in the event nor in the document.
func (s *shift) notification(ln *lane, it *item, d route.Decision) sinks.Notification {
	event, document := s.strip(it.msg.Envelope)
	n := sinks.Notification{
		Kind: kind(d.Action), Event: event, Document: document, Subscription: d.Subscription, Urgent: d.Urgent, Since: d.Since,
		Thread: ln.rec.standing.Thread, Attempt: ln.rec.standing.Tries[it.eventID()].Count + 1, Held: ln.rec.held,
	}
	if d.Action == route.ActionRemind {
		// A failed try leaves the count in the standing as it was, so a retry has the same.
		n.Reminded = d.Standing.Alarms[d.Subscription].Reminded
	}
	return n
}

// strip gives the event without what the sink may not have, and its document
// where nothing had to go: writing it anew costs more than all else that is done
// here.
func (s *shift) strip(env events.Envelope) (events.Event, events.Document) {
	event := events.ForSink(env.Event, s.o.Personal)
	if event.Purchase == env.Event.Purchase {
		return event, env.Document
	}
	return event, events.Document{}
}

func kind(a route.Action) sinks.Kind {
	switch a {
	case route.ActionOpen:
		return sinks.KindOpen
	case route.ActionUpdate:
		return sinks.KindUpdate
	case route.ActionRemind:
		return sinks.KindRemind
	case route.ActionResolve:
		return sinks.KindResolve
	case route.ActionPass, route.ActionSkip, route.ActionWait:
	}
	return sinks.KindEvent
}

package deliver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// mostAsked bounds the replays that wait in a loop.
const mostAsked = 1000

// ErrNotOwner is the answer to a wish that no owner took in time.
var ErrNotOwner = errors.New("this loop does not own its sink")

// WishKind is what an operator may ask of a sink's owner.
type WishKind string

// The wishes.
const (
	WishReplay WishKind = "replay" // send a dead letter again
	WishTest   WishKind = "test"   // send a marked test notification
)

// Wish is one thing asked.
type Wish struct {
	Kind   WishKind
	Letter events.DeadLetter // of a replay
	By     string            // who asks, for the audit record; may be empty
}

// WishStatus is what became of a wish.
type WishStatus string

// What becomes of a wish.
const (
	WishDone    WishStatus = "done"    // the receiver accepted it
	WishFailed  WishStatus = "failed"  // tried once, and not accepted
	WishRefused WishStatus = "refused" // not tried
)

// WishResult is what became of a wish, and why. Its words hold no secret.
type WishResult struct {
	Status  WishStatus
	Problem string        // of failed and refused
	Detail  string        // what the receiver said
	Took    time.Duration // of the try
}

// ask is a wish on its way.
type ask struct {
	Wish
	reply chan WishResult // has room for the one answer
}

// Do has the owner fulfil a wish and says what became of it. ctx bounds the time
// until the loop takes it; ErrNotOwner says that it did not. Once taken it is
// answered in the end, at the latest when the loop stops or begins again.
//
// A replay goes through the lane of its event, with the event's own id and
// marked as one. It is tried once: a letter that fails stays where it is and can
// be replayed again. A sink that tells the newest only refuses one that is not.
// A test goes out at once, even while the sink is paused or down, and its
// success ends that.
func (l *Loop) Do(ctx context.Context, w Wish) (WishResult, error) {
	a := &ask{Wish: w, reply: make(chan WishResult, 1)}
	select {
	case l.asks <- a:
		return <-a.reply, nil
	case <-ctx.Done():
		return WishResult{}, fmt.Errorf("%w: %w", ErrNotOwner, ctx.Err())
	}
}

// asks are taken only while there is time to fulfil them.
func (s *shift) asks() <-chan *ask {
	if s.ending != nil {
		return nil
	}
	return s.l.asks
}

// wished takes up a wish.
func (s *shift) wished(a *ask) {
	refuse := func(why string) { a.reply <- WishResult{Status: WishRefused, Problem: why} }
	switch {
	case a.Kind == WishTest:
		s.test(a)
	case a.Kind != WishReplay:
		refuse("this is not a thing that a sink's owner does")
	case !s.l.breaker.closed():
		refuse("the sink is " + string(s.l.breaker.state) + "; replay it once the sink is well")
	case s.asked >= mostAsked:
		refuse("too many replays wait already; replay it later")
	default:
		event, document, err := events.Read(a.Letter.Event)
		if err != nil {
			refuse("the letter holds no event, so it cannot be sent")
			return
		}
		env := events.Envelope{Event: event, Raw: a.Letter.Event, Document: document, Subject: a.Letter.Subject, Sequence: a.Letter.Sequence}
		ln := s.lane(laneKey(env))
		ln.add(&item{msg: Message{Envelope: env}, ask: a})
		s.asked++
		s.touch(ln)
	}
}

// test sends a notification about a made-up purchase, past all lanes and whatever
// the state of the sink: the operator wants to know it.
func (s *shift) test(a *ask) {
	now := time.Now()
	e := sample()
	e.ID, e.Time = e.Subject+"-test-"+strconv.FormatInt(now.UnixMilli(), 10), now.UTC()
	event, _ := s.strip(events.Envelope{Event: e})
	ln := &lane{key: "test", rec: &record{}, busy: true}
	it := &item{msg: Message{Envelope: events.Envelope{Event: event}}, ask: a}
	s.asked++
	s.sending++
	s.o.Pace.take(now) // it goes out at once, and the next waits for it
	n := sinks.Notification{Kind: sinks.KindTest, Event: event, Since: now, Attempt: 1}
	ctx := s.trying()
	r := &result{ln: ln, it: it, n: n}
	s.aside(func() func() { return s.send(ctx, r) })
}

// sample is a made-up purchase that is worth an alarm.
func sample() events.Event {
	all := events.Samples()
	for _, e := range all {
		if e.Purchase != nil && e.Purchase.Situation == events.SituationConfirming {
			return e
		}
	}
	return all[0]
}

// replay builds the notification of a dead letter.
func (s *shift) replay(ln *lane, it *item) sinks.Notification {
	event, document := s.strip(it.msg.Envelope)
	n := sinks.Notification{
		Kind: sinks.KindEvent, Event: event, Document: document, Since: event.Time, Thread: ln.rec.standing.Thread,
		Replay: true, Attempt: it.ask.Letter.Attempts + 1,
	}
	if p := event.Purchase; p != nil && !p.SituationSince.IsZero() {
		n.Since = p.SituationSince
	}
	fresh := *ln.rec
	fresh.standing = events.Standing{} // whose subscription it would be if it came now
	if d := s.decide(&lane{key: ln.key, rec: &fresh}, it); d.Err == nil {
		n.Subscription, n.Urgent = d.Subscription, d.Urgent
	}
	return n
}

// stale says why a replay must not go out where only the newest is told; empty:
// it may.
func (s *shift) stale(ctx context.Context, e events.Event) string {
	if !s.o.NewestOnly || s.o.Latest == nil || e.Purchase == nil {
		return ""
	}
	newest, _, err := s.o.Latest(ctx, e.Purchase.Connection, e.Subject)
	switch {
	case err != nil:
		return "whether it is still the newest of its purchase cannot be seen now"
	case newest == nil || newest.ID == e.ID || !replaces(*newest):
		return ""
	}
	at := func(r events.ReadingInfo) events.Position {
		return events.Position{Epoch: r.Epoch, Revision: r.Revision, N: r.N}
	}
	if events.Compare(at(newest.Purchase.Reading), at(e.Purchase.Reading)) < 0 {
		return ""
	}
	return notNewest
}

const notNewest = "it is no longer the newest event of its purchase, and this sink tells the newest only"

// finishWish answers, and keeps what was learned while the sink is still ours.
func (s *shift) finishWish(r *result) {
	res := WishResult{Took: r.took}
	owned := s.owned.Err() == nil
	switch {
	case r.stale != "":
		res.Status, res.Problem = WishRefused, r.stale
		if r.probe {
			s.l.breaker.probing = false
		}
	case r.err == nil:
		res.Status, res.Detail = WishDone, r.receipt.Detail
		if owned {
			s.fulfilled(r)
		}
	case s.sendCtx.Err() != nil:
		res.Status, res.Problem = WishFailed, "the try was cut short; the receiver may have accepted it"
	default:
		f := failureOf(r.err)
		res.Status, res.Problem = WishFailed, f.Error()
		if owned {
			s.denied(r, f)
		}
	}
	s.answer(r.ln, r.it, res)
}

// fulfilled records that the receiver accepted what was asked.
func (s *shift) fulfilled(r *result) {
	test := r.it.ask.Kind == WishTest
	if test {
		s.wake()
	}
	s.well(r.probe || test)
	s.l.metrics.sent.Inc()
	s.l.note(func(st *Status) { st.LastSuccess = time.Now() })
	if !test && r.receipt.Thread != nil {
		r.ln.rec.standing.Thread = r.receipt.Thread
		s.book.dirty[r.ln.key] = r.ln.rec
	}
	s.auditWish(r, OutcomeSent, r.receipt.Detail)
}

// denied records that it did not. A failed test says nothing about the sink that
// the next notification would not find out.
func (s *shift) denied(r *result, f *sinks.Failure) {
	s.l.metrics.failures.WithLabelValues(string(f.Reason)).Inc()
	if r.it.ask.Kind == WishReplay {
		before := s.l.breaker.state
		s.l.breaker.failure(r.ln.key, f, r.probe, time.Now())
		s.l.note(func(st *Status) { st.Failure = f.Error() })
		s.announce(before, f)
	}
	s.auditWish(r, OutcomeBuried, f.Error())
}

// auditWish records an outcome, and who asked for it.
func (s *shift) auditWish(r *result, outcome, detail string) {
	if by := r.it.ask.By; by != "" {
		detail += " (asked by " + by + ")"
	}
	it := *r.it
	if it.ask.Kind == WishTest {
		it.msg.Event.Subject, it.msg.Event.Purchase = "", nil // there is no such purchase
		if outcome == OutcomeBuried {
			outcome = OutcomeSkipped
		}
	}
	s.audit(&it, outcome, string(it.ask.Kind), r.n.Attempt, r.took, detail)
}

// answer ends a wish.
func (s *shift) answer(ln *lane, it *item, res WishResult) {
	it.ask.reply <- res
	ln.drop(it)
	s.asked--
}

// turnAway answers what the end of the shift leaves undone.
func (s *shift) turnAway() {
	for _, ln := range s.lanes {
		for i := len(ln.items) - 1; i >= 0; i-- {
			if it := ln.items[i]; it.ask != nil {
				s.answer(ln, it, WishResult{Status: WishRefused, Problem: "delivery stopped or began again before its turn; ask again"})
			}
		}
	}
}

package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/heraldbridge/herald/internal/backoff"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// longestSend ends a try whatever the sink does, unless the options say when.
const longestSend = 2 * time.Minute

// trying is the context of a try that begins now.
func (s *shift) trying() context.Context {
	return s.limit.Between(s.sendCtx, s.o.Limit, s.o.Limit+s.o.Limit/8)
}

// Cause is why an event was buried: the closed set of DeadLetter.Reason.
type Cause string

// The causes.
const (
	CauseExhausted   Cause = "exhausted"   // every try of the schedule failed
	CauseRefused     Cause = "refused"     // plainly refused three times
	CauseRejected    Cause = "rejected"    // refused for good
	CauseSuperseded  Cause = "superseded"  // it failed while a newer event waited for it
	CauseUndecodable Cause = "undecodable" // the message is no event
	CauseExpression  Cause = "expression"  // a condition could not be worked out for it
)

// Outcomes of the audit record.
const (
	OutcomeSent       = "sent"
	OutcomeRetried    = "retried"
	OutcomeBuried     = "buried"
	OutcomeSkipped    = "skipped"
	OutcomeSuperseded = "superseded"
	OutcomeWaiting    = "waiting"
)

// result is a try or a burial, and what became of it.
type result struct {
	ln      *lane
	it      *item
	n       sinks.Notification
	receipt sinks.Receipt
	err     error
	probe   bool
	newer   bool   // not sent: the stream holds a newer event of the purchase
	stale   string // a replay that was not sent: why
	burial  bool
	took    time.Duration
}

// send makes one try, beside the loop, and notes in r what became of it.
func (s *shift) send(ctx context.Context, r *result) (effect func()) {
	it, e, begun := r.it, r.n.Event, time.Now()
	if it.ask != nil && it.ask.Kind == WishReplay {
		r.stale = s.stale(ctx, e)
	}
	if s.o.NewestOnly && s.o.Latest != nil && !it.ours() && e.Purchase != nil {
		newest, seq, err := s.o.Latest(ctx, e.Purchase.Connection, e.Subject)
		// Not knowing is no reason to be silent.
		r.newer = err == nil && newest != nil && seq > it.msg.Sequence && replaces(*newest)
	}
	if !r.newer && r.stale == "" {
		r.receipt, r.err = s.try(ctx, r.n)
	}
	r.took = time.Since(begun)
	return func() { s.finish(r) }
}

// try calls the sink. A sink that panics has failed at this message only.
func (s *shift) try(ctx context.Context, n sinks.Notification) (r sinks.Receipt, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("sink panicked", "stack", string(debug.Stack()))
			err = &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender, Err: errors.New("the sink panicked")}
		}
	}()
	ctx, traced := s.trace(ctx, n)
	defer func() { traced(err) }()
	return s.o.Sink.Send(ctx, n)
}

// finish takes up the result of a try or a burial.
func (s *shift) finish(r *result) {
	s.sending--
	r.ln.busy = false
	s.touch(r.ln)
	switch {
	case r.it.ask != nil:
		s.finishWish(r)
	case s.owned.Err() != nil: // somebody else's now: nothing is recorded
	case r.burial:
		s.finishBurial(r)
	case r.newer:
		if r.probe {
			s.l.breaker.probing = false
		}
		s.collapse(r.ln, r.it)
	case r.err == nil:
		s.accepted(r)
	case s.sendCtx.Err() != nil:
		// The loop cut it short: it stays in hand and is handed back untried.
	default:
		s.failed(r)
	}
}

// accepted records a success.
func (s *shift) accepted(r *result) {
	now := time.Now()
	s.well(r.probe)
	s.l.metrics.sent.Inc()
	if !r.it.timer {
		s.l.metrics.latency.Observe(max(now.Sub(r.it.msg.Stored), 0).Seconds())
	}
	s.l.note(func(st *Status) { st.LastSuccess = now })
	rec := r.ln.rec
	st := r.it.plan.Standing
	st.LastID, st.LastTime = r.it.msg.Event.ID, now
	if r.receipt.Thread != nil {
		st.Thread = r.receipt.Thread
	}
	rec.standing, rec.held = st, 0
	s.waitFor(r.ln, r.it, r.it.plan.Until)
	s.audit(r.it, OutcomeSent, string(r.n.Kind), r.n.Attempt, r.took, r.receipt.Detail)
	s.settle(r.ln, r.it, "", "", true)
}

// well notes a success with the breaker and wakes what waited for it.
func (s *shift) well(probe bool) {
	was := s.l.breaker.closed()
	s.l.breaker.succeeded(probe)
	if !was && s.l.breaker.closed() {
		s.o.Log.Info("sink is back")
	}
}

// failureOf is what a sink's error says; one that is no Failure is temporary.
func failureOf(err error) *sinks.Failure {
	var f *sinks.Failure
	if errors.As(err, &f) {
		return f
	}
	f = &sinks.Failure{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol, Err: err}
	if errors.Is(err, context.DeadlineExceeded) {
		f.Reason = sinks.ReasonTimeout
	}
	return f
}

// failed decides what a failure means for the message and for the sink.
func (s *shift) failed(r *result) {
	f := failureOf(r.err)
	s.l.metrics.failures.WithLabelValues(string(f.Reason)).Inc()
	s.l.note(func(st *Status) { st.Failure = f.Error() })
	before := s.l.breaker.state
	counts := s.l.breaker.failure(r.ln.key, f, r.probe, time.Now())
	s.announce(before, f)
	if !counts {
		s.audit(r.it, OutcomeRetried, string(f.Reason), r.n.Attempt, r.took, f.Error())
		return // it stays in hand, oldest of its lane, until the sink is well
	}
	s.count(r, f)
}

// count books a failed try against the message, and buries it after the last.
func (s *shift) count(r *result, f *sinks.Failure) {
	now, id := time.Now(), r.it.eventID()
	st := r.it.plan.Untold(r.ln.rec.standing)
	try := r.ln.rec.standing.Tries[id]
	if try.First.IsZero() {
		try.First = now
	}
	try.Count++
	try.Last = f.Error()
	cause := Cause("")
	switch {
	case f.Verdict == sinks.Rejected:
		cause = CauseRejected
	case f.Verdict == sinks.Refused && try.Count >= plainness:
		cause = CauseRefused
	case try.Count > len(s.o.Schedule):
		cause = CauseExhausted
	default:
		try.Due = now.Add(backoff.Jitter(s.o.Schedule[try.Count-1], s.o.Jitter, s.o.Rand))
	}
	st.Tries = overlay(st.Tries, map[string]events.Try{id: try})
	r.ln.rec.standing = st
	if cause != "" {
		r.it.bury = s.deadLetter(r.it, cause, try.Last, try)
	} else {
		s.audit(r.it, OutcomeRetried, string(f.Reason), try.Count, r.took, try.Last)
	}
	s.record(r.ln) // the lane goes on once it is written: hand back, or bury
}

// announce says, once, that the sink's state has changed.
func (s *shift) announce(before State, f *sinks.Failure) {
	now := s.l.breaker.state
	if now == before {
		return
	}
	switch now {
	case StateDown:
		s.o.Log.Warn("sink is down, probing", "error", f)
	case StatePaused, StateGone:
		s.o.Log.Error("sink is paused until its secret or configuration changes", "error", f)
		s.notify(events.NoticeSinkPaused, "The sink is paused: "+f.Error()+". Correct its secret or configuration.", string(f.Reason))
	case StateRunning, StateWaiting, StateStopped:
	}
}

func (s *shift) notify(kind events.NoticeKind, text, code string) {
	s.notice(events.Notice{Kind: kind, Text: text, Code: code})
}

func (s *shift) notice(n events.Notice) {
	if s.o.Notify != nil {
		n.Sink = s.o.Name
		s.o.Notify(n)
	}
}

// wake ends a pause.
func (s *shift) wake() {
	if state := s.l.breaker.state; state != StatePaused && state != StateGone {
		return
	}
	s.l.breaker.close()
	s.o.Log.Info("sink resumed")
	s.notify(events.NoticeSinkResumed, "The sink takes notifications again.", "")
}

// deadLetter writes down why an event is buried.
func (s *shift) deadLetter(it *item, cause Cause, detail string, try events.Try) *events.DeadLetter {
	now := time.Now()
	d := &events.DeadLetter{
		Sink: s.o.Name, EventID: it.eventID(), Subject: it.msg.Subject, Sequence: it.msg.Sequence,
		Reason: string(cause), Detail: detail, Attempts: try.Count, First: try.First, Buried: now, Event: it.msg.Raw,
	}
	if d.First.IsZero() {
		d.First = now
	}
	if d.Event == nil && it.msg.Bad == nil {
		if raw, err := events.Encode(it.msg.Event); err == nil {
			d.Event = raw
		}
	}
	return d
}

// startBurial stores the dead letter; only when it is stored is the message settled.
func (s *shift) startBurial(ln *lane, it *item) {
	if at, later := s.delayed[ln]; later && at.After(time.Now()) {
		return
	}
	ln.busy = true
	s.sending++
	letter := *it.bury
	s.aside(func() func() {
		ctx, cancel := context.WithTimeout(s.sendCtx, longestSend)
		defer cancel()
		r := &result{ln: ln, it: it, err: s.o.Graveyard.Bury(ctx, letter), burial: true}
		return func() { s.finish(r) }
	})
}

// finishBurial settles a buried event. One that could not be stored is tried again.
func (s *shift) finishBurial(r *result) {
	if r.err != nil {
		if s.sendCtx.Err() == nil {
			s.o.Log.Warn("dead letter not stored", "error", r.err)
			s.delayed[r.ln] = time.Now().Add(buryAgain)
		}
		return
	}
	d := r.it.bury
	s.l.metrics.buried.WithLabelValues(d.Reason).Inc()
	if plan := r.it.plan; plan.Action.Told() && d.Reason != string(CauseSuperseded) {
		// Its alarm goes on: the next reminder is the next try.
		r.ln.rec.standing.Alarms = plan.Buried().Alarms
		s.waitFor(r.ln, r.it, plan.Until)
	}
	s.audit(r.it, OutcomeBuried, d.Reason, d.Attempts, 0, d.Detail)
	s.settle(r.ln, r.it, "", "", r.it.msg.Bad == nil)
}

// audit publishes the record of an outcome.
func (s *shift) audit(it *item, outcome, reason string, attempt int, took time.Duration, detail string) {
	d := events.Delivery{
		Sink: s.o.Name, EventID: it.eventID(), PurchaseID: it.msg.Event.Subject, Type: it.msg.Event.Type,
		Outcome: outcome, Reason: reason, Attempt: attempt, At: time.Now(), Millis: took.Milliseconds(), Detail: detail,
	}
	if p := it.msg.Event.Purchase; p != nil {
		d.Revision = p.Reading.Revision
	}
	s.o.Audit(d)
}

// badID names a message that is no event by its place in the stream.
func badID(e events.Envelope) string {
	return fmt.Sprintf("bad-%s", strconv.FormatUint(e.Sequence, 10))
}

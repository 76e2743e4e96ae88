package watch

import (
	"encoding/json"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// act is what can be done next about one purchase.
type act string

const (
	actHold act = "hold" // get_purchase_status that waits for a change
	actRead act = "read" // get_purchase_status that answers at once
	actLook act = "look" // get_account: the active purchase and held money, no payment details
	actList act = "list" // list_purchases
	actStop act = "stop" // nothing more will happen
)

// step is the next thing to do about a purchase, and the earliest time for it.
type step struct {
	Do   act
	At   time.Time
	Args json.RawMessage // of a followed next: go out as they came
}

// column says how dangerous a status read is: what the reply may carry, and what it may start.
type column uint8

const (
	columnOther column = iota // gift cards, and all that is not known yet
	columnCard                // the agent pays with a one-time card
	columnEnvoy               // Envoy checks out, or spending is closed: no payment details come any more
)

func columnOf(s events.Snapshot) column {
	if s.PaymentReady.Closed != nil && *s.PaymentReady.Closed {
		return columnEnvoy
	}
	switch {
	case s.CheckoutBy == "envoy" && (s.Rail == "operated_checkout" || s.Rail == "elixir_marketplace"):
		return columnEnvoy
	case s.CheckoutBy == "agent" && s.Rail == "otu_card":
		return columnCard
	default:
		return columnOther
	}
}

// cellOf is the table: how a purchase that has not ended is followed.
func cellOf(state events.State, col column, holdThroughReady bool) act {
	switch state {
	case events.StateWaitingForUser:
		if col != columnOther {
			return actHold
		}
	case events.StateProcessing, events.StateVerifying:
		if col == columnEnvoy || col == columnCard && holdThroughReady {
			return actHold
		}
	case events.StateNeedsDetails, events.StateNeedsAnswer:
		if col == columnEnvoy {
			return actRead
		}
	case events.StateReady, events.StateCompleted, events.StateFailed, events.StateCancelled, events.StateSuperseded:
	default:
	}
	return actLook
}

// strange tells whether the state is a word that the contract does not have.
func strange(s events.State) bool {
	switch s {
	case events.StateNeedsDetails, events.StateNeedsAnswer, events.StateWaitingForUser, events.StateProcessing,
		events.StateReady, events.StateVerifying, events.StateCompleted, events.StateFailed, events.StateCancelled,
		events.StateSuperseded, "":
		return false
	default:
		return true
	}
}

// ended tells whether the state is one that the contract calls terminal.
func ended(s events.State) bool {
	switch s {
	case events.StateCompleted, events.StateFailed, events.StateCancelled, events.StateSuperseded:
		return true
	default:
		return false
	}
}

// follow is a next that may be followed: it reads this very purchase.
type follow struct {
	reference string          // the purchase as the arguments name it
	args      json.RawMessage // as they came
	after     *int64
	wait      time.Duration
	delay     time.Duration // next.after_seconds
}

// view is all that plan may know about one purchase.
type view struct {
	id       string       // empty while only a key is known
	state    events.State // of the newest snapshot, else of the newest list; empty: never shown
	column   column
	terminal bool
	settled  bool
	onlyLook bool      // a reply about it was ready once: no hold, no read without a list
	slowest  bool      // it was not found: very seldom
	reread   bool      // something says that the reading of its end is old
	mute     bool      // it cannot be asked for: only the hash of its key is known
	since    time.Time // in this state, by our clock
	begun    time.Time // followed by this term since
	age      time.Time // when the slow pace began
	asked    time.Time // newest status request
	replied  time.Time // newest status reply
	shown    time.Time // newest reply of any tool that showed it
	pause    time.Duration
	next     *follow
	closed   time.Time // no status request before: an error said so
	listed   time.Time // when a list that shows it as ended went out, if no request did since
	deadline time.Time // nearest known deadline
}

// sight is the newest answer of get_account, and when the next may be asked for.
type sight struct {
	left     time.Time // when the newest look went out
	asked    time.Time // when the newest answered look went out
	came     time.Time
	tried    time.Time // when the newest look, answered or not, was over
	answer   envoy.ActiveAnswer
	purchase string
	closed   time.Time // no look before: an error said so
}

// absent tells whether the look said that another purchase, or none, is the active one. Not known is not absent.
func (l sight) absent(id string) bool {
	switch l.answer {
	case envoy.ActiveNone:
		return true
	case envoy.ActiveShown:
		return l.purchase != id
	default:
		return false
	}
}

// denies tells whether looks stand against a list that shows the purchase as ended: the newest shows it as active, and
// is newer than the list, or another can be made. A list may lag, and a purchase that had ended can come back.
func (l sight) denies(v view, now time.Time) bool {
	shown := l.answer == envoy.ActiveShown && l.purchase == v.id
	return shown && (!l.asked.Before(v.listed) || !l.closed.After(now))
}

// roll is when the newest list was asked for, and when the next may be.
type roll struct {
	asked  time.Time
	closed time.Time
}

// plan says what to do next about a purchase. It decides by the table alone; next, retries and registrations only
// fill in what the table leaves open. It is asked again after every reply, failure and wait.
func plan(v view, l sight, r roll, p Policy, now time.Time) step {
	switch {
	case v.terminal && v.settled:
		return step{Do: actStop}
	case v.terminal:
		return planEnded(v, l, now)
	case v.onlyLook:
		return planLook(v, l, r, p, now)
	}
	switch cellOf(v.state, v.column, p.HoldThroughReady) {
	case actHold:
		return planHold(v, l, p, now)
	case actRead:
		at := later(later(v.replied, v.asked).Add(pace(v, readEvery)), v.closed)
		return lookBefore(step{Do: actRead, At: at}, v, l, p, now)
	default:
		return planLook(v, l, r, p, now)
	}
}

// pace stretches a pace for a purchase that Envoy says it does not have.
func pace(v view, d time.Duration) time.Duration {
	if v.slowest {
		return slowest
	}
	return d
}

func planHold(v view, l sight, p Policy, now time.Time) step {
	wait, args := v.pause, json.RawMessage(nil)
	if v.next != nil {
		wait, args = max(wait, v.next.delay), v.next.args
	}
	at := later(v.replied.Add(pace(v, wait)), v.closed)
	if v.slowest {
		at = later(at, v.asked.Add(slowest))
	}
	hold := step{Do: actHold, At: at, Args: args}
	if v.column == columnEnvoy {
		return lookBefore(hold, v, l, p, now)
	}
	when := later(at, now)
	if when.Sub(v.shown) <= freshFor {
		return hold
	}
	if l.absent(v.id) && l.came.After(v.asked) && when.Sub(l.asked) < freshFor {
		return step{Do: actRead, At: at}
	}
	return step{Do: actLook, At: later(at, later(l.asked.Add(p.LookEvery), l.closed))}
}

// lookPatience is how long a request of the first column waits for a look that knows: nearly until the connection would
// count as blind, for a card that is released by mistake is gone.
const lookPatience = 4 * time.Minute

// lookBefore puts a look before a request of the first column after a gap. The table would let it go at once, but the
// route may have turned to the agent meanwhile. Where looks do not help, it goes all the same after a while.
func lookBefore(s step, v view, l sight, p Policy, now time.Time) step {
	when := later(s.At, now)
	fresh := when.Sub(v.shown) <= freshFor || l.absent(v.id) && when.Sub(l.asked) < freshFor
	if fresh {
		return s
	}
	look := later(s.At, later(l.asked.Add(p.LookEvery), l.closed))
	if patient := later(s.At, v.begun).Add(lookPatience); look.After(patient) || now.After(patient) {
		return step{Do: s.Do, At: later(s.At, patient), Args: s.Args}
	}
	return step{Do: actLook, At: look}
}

func planLook(v view, l sight, r roll, p Policy, now time.Time) step {
	if !v.listed.IsZero() && !v.mute && !l.denies(v, now) {
		return step{Do: actRead, At: v.closed}
	}
	look := step{Do: actLook, At: later(lookDue(v, l, p, now), l.closed)}
	if v.mute || !l.absent(v.id) || !l.came.After(v.asked) {
		return look
	}
	if v.state == events.StateReady || v.onlyLook {
		// It may be ready still: only a list that shows it as ended permits a read.
		list := step{Do: actList, At: later(r.asked.Add(listPace(now.Sub(v.shown))), r.closed)}
		if list.At.Before(look.At) {
			return list
		}
		return look
	}
	if now.Sub(l.asked) < freshFor && !v.closed.After(now) {
		return step{Do: actRead, At: now}
	}
	return look
}

// lookDue is when a purchase in a look cell wants the next look.
func lookDue(v view, l sight, p Policy, now time.Time) time.Time {
	if l.asked.IsZero() {
		return now
	}
	fast := l.asked.Add(p.LookEvery)
	if v.slowest {
		return later(fast, v.asked.Add(slowest))
	}
	if nearDeadline(v.deadline, now) || l.asked.Before(v.listed) {
		return fast
	}
	every := lookPace(now.Sub(v.since), p.LookEvery)
	if strange(v.state) {
		every = max(strangeEvery, p.LookEvery)
	}
	due := l.asked.Add(every)
	if v.deadline.After(now) {
		due = earlier(due, later(fast, v.deadline.Add(-15*time.Second)))
	}
	return due
}

// planEnded follows a purchase that has ended and is not settled: a look, for the held money and in case it was
// revived, then a read.
func planEnded(v view, l sight, now time.Time) step {
	if l.tried.Before(v.since) {
		return step{Do: actLook, At: later(now, l.closed)}
	}
	if v.reread {
		return step{Do: actRead, At: v.closed}
	}
	last := later(v.shown, v.asked)
	due := later(last.Add(pace(v, slowPace(last.Sub(v.age)))), v.closed)
	if l.tried.Before(due) && !l.closed.After(later(due, now)) {
		return step{Do: actLook, At: due}
	}
	return step{Do: actRead, At: due}
}

package watch

import (
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// said is what the newest event of a purchase was made of. It is kept instead of the event, which is several times as
// large and wanted seldom: whoever wants it has it made again.
type said struct {
	snap  *events.Snapshot // the purchase's own, as long as Envoy shows nothing else
	facts events.Facts
}

// event makes the newest event of p again from what it was made of.
func (t *term) event(p *purchase, s said) *events.Event {
	e := events.New(*s.snap, s.facts, events.Judge(*s.snap, s.facts), p.cursor.Position, events.CauseRevision, nil, p.cursor, t.options())
	e.ID = p.cursor.EventID
	return &e
}

// newest is the newest event of p: made again, or as the stream had it when this term began. Nil: there is none, or it
// is not known.
func (t *term) newest(p *purchase) *events.Event {
	if p.said == nil {
		return p.last
	}
	return t.event(p, *p.said)
}

// recognize lets go of the event that the stream had, once, if what is shown now says the same.
func (t *term) recognize(p *purchase, f events.Facts) {
	if p.last == nil || p.compared {
		return
	}
	p.compared = true
	s := said{snap: p.snap, facts: f}
	again := events.New(*s.snap, f, events.Judge(*s.snap, f), p.cursor.Position, events.CauseRevision, p.last, p.cursor, t.options())
	if len(again.Purchase.Reading.Changed) == 0 {
		p.said, p.last = &s, nil
	}
}

func (t *term) options() events.Options { return events.Options{Personal: t.policy.Personal} }

// overdue gives the deadline of p that has passed by Envoy's clock.
func (p *purchase) overdue() (name string, at time.Time, yes bool) {
	d := deadlinesOf(*p.snap, p.told)
	if !passed(d, p.server) {
		return "", time.Time{}, false
	}
	return events.DueDeadline(events.Event{Purchase: &events.Purchase{
		Terminal: p.over, Unsettled: p.hangs, Deadlines: d, Approval: p.snap.Approval, PaymentReady: p.snap.PaymentReady,
	}}, p.server)
}

// passed tells whether any deadline has passed, whether or not it still binds.
func passed(d events.Deadlines, now time.Time) bool {
	for _, t := range [...]*time.Time{d.NextBy, d.UserActionBy, d.ApprovalBy, d.FundingExpires, d.SpendingExpires} {
		if t != nil && !t.After(now) {
			return true
		}
	}
	return false
}

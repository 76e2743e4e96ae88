package watch

import (
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// said is what an event of a purchase was made of. Of the newest it is kept instead of the event, which is many times as
// large and wanted seldom: whoever wants it has it made again.
type said struct {
	snap   *events.Snapshot // the purchase's own, as long as Envoy shows nothing else
	told   *told
	held   events.HeldAnswer
	passed bool // see events.Facts.PassedApproval
}

// shows is what an event of p would be made of now.
func (p *purchase) shows() said {
	return said{snap: p.snap, told: p.told, held: p.heldAnswer(*p.snap), passed: p.passedApproval(*p.snap)}
}

// facts is what is known beside the snapshot.
func (t *term) facts(p *purchase, s said) events.Facts {
	f := events.Facts{
		Source: events.SourceStatus, Connection: t.conn.Name, PassedApproval: s.passed, Held: s.held,
		ServerTime: p.server, Support: p.ids.support(), ChainRoot: p.chainRoot(),
	}
	if p.looked {
		f.Source = events.SourceLook
	}
	if s.told.about(*s.snap) {
		f.Stopped, f.NextBy = s.told.stopped, s.told.nextBy
		f.UserActionTask, f.UserActionText, f.UserActionBy = s.told.action, s.told.actionText, s.told.actionBy
	}
	return f
}

// event makes the newest event of p again from what it was made of.
func (t *term) event(p *purchase, s said) *events.Event {
	e := t.made(p, s, nil)
	e.ID = p.cursor.EventID
	return &e
}

// made makes the event of the newest reading, to come after prev.
func (t *term) made(p *purchase, s said, prev *events.Event) events.Event {
	f := t.facts(p, s)
	return events.New(*s.snap, f, events.Judge(*s.snap, f), p.cursor.Position, events.CauseRevision, prev, p.cursor, t.options())
}

// newest is the newest event of p: made again, or as the stream had it when this term began. Nil: there is none, or it
// is not known.
func (t *term) newest(p *purchase) *events.Event {
	if p.said == nil {
		return p.last
	}
	return t.event(p, *p.said)
}

// recognize lets go of the event that the stream had, once, if what is shown now says the same. Where the stream has
// lost the newest event, what is shown is what it said.
func (t *term) recognize(p *purchase, s said) {
	if p.said != nil || p.compared {
		return
	}
	p.compared = true
	if p.last != nil {
		if again := t.made(p, s, p.last); len(again.Purchase.Reading.Changed) > 0 {
			return
		}
	}
	p.said, p.last = &s, nil
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

package events

import (
	"cmp"
	"strings"
	"time"
)

// ReadingOf is what Herald would say of a snapshot that was judged as j.
func ReadingOf(s Snapshot, j Judgement) Reading {
	return Reading{Revision: s.Revision, Situation: j.Situation, Money: j.Money,
		Unsettled: j.Unsettled, Terminal: j.Terminal}
}

// Step is what a reading is against the cursor of its purchase.
type Step string

// The steps.
const (
	StepNew   Step = "new"   // to be published
	StepSame  Step = "same"  // published before
	StepLower Step = "lower" // a revision below the cursor: a lagging replica, or a far side that was restored
)

// Follow tells whether r is news against cursor c, and the position and cause
// that it would take. Position and cause mean something for StepNew only. A
// purchase that is not known starts at its own revision; the caller replaces
// the cause by CauseBaseline where this is first contact with the connection.
func Follow(c Cursor, known bool, r Reading) (Step, Position, Cause) {
	switch {
	case !known:
		return StepNew, Position{Revision: r.Revision}, CauseRevision
	case r.Revision > c.Revision:
		return StepNew, Position{Epoch: c.Epoch, Revision: r.Revision}, CauseRevision
	case r.Revision < c.Revision:
		return StepLower, c.Position, ""
	case r == c.Last:
		return StepSame, c.Position, ""
	default:
		return StepNew, Position{Epoch: c.Epoch, Revision: c.Revision, N: c.N + 1}, CauseReading
	}
}

// NewEpoch is the position of the first reading after the far side was
// restored; its cause is CauseReset.
func NewEpoch(c Cursor, r Reading) Position {
	return Position{Epoch: c.Epoch + 1, Revision: r.Revision}
}

// Compare orders positions: -1 if a is before b, 0 if they are the same, +1 if
// a is after b.
func Compare(a, b Position) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.N, b.N))
}

// Position is where a purchase event stands among those of its purchase. An
// overdue event shares the position of the reading it is about. Notices have
// none and give the zero value.
func (e Event) Position() Position {
	if e.Purchase == nil {
		return Position{}
	}
	r := e.Purchase.Reading
	return Position{Epoch: r.Epoch, Revision: r.Revision, N: r.N}
}

// Reading is what a purchase event says; the zero value for notices.
func (e Event) Reading() Reading {
	if e.Purchase == nil {
		return Reading{}
	}
	p := e.Purchase
	return Reading{Revision: p.Reading.Revision, Situation: p.Situation, Money: p.Money,
		Unsettled: p.Unsettled, Terminal: p.Terminal}
}

// Advanced is the cursor after e was stored at seq and acknowledged at now. It
// never goes back: an event before c leaves it as it is. PassedApproval, once
// seen, stays.
func (c Cursor) Advanced(e Event, seq uint64, now time.Time, passedApproval bool) Cursor {
	if e.Purchase == nil || (c.EventID != "" && Compare(e.Position(), c.Position) < 0) {
		return c
	}
	p := e.Purchase
	next := Cursor{
		Position:       e.Position(),
		Last:           e.Reading(),
		Sequence:       seq,
		EventID:        e.ID,
		State:          p.State,
		SituationSince: p.SituationSince,
		Published:      now,
		PassedApproval: c.PassedApproval || passedApproval,
		ChainRoot:      p.ChainRoot,
		OverdueFor:     c.OverdueFor,
	}
	switch {
	case e.Type == TypeOverdue:
		next.OverdueFor = ReadingID(e.ID)
	case p.Reading.Cause == CauseStill && c.OverdueFor != "" && c.OverdueFor == ReadingID(c.EventID):
		// A still event is the same reading under a new id, so its overdue was said already.
		next.OverdueFor = e.ID
	}
	return next
}

const overdueSuffix = "-overdue"

// ReadingID is the id of the reading that an event is about: an overdue event
// is about another, every other event about itself.
func ReadingID(eventID string) string { return strings.TrimSuffix(eventID, overdueSuffix) }

package events

import "time"

// Names of deadlines: the JSON names in Deadlines.
const (
	DeadlineNext       = "next_by"
	DeadlineUserAction = "user_action_by"
	DeadlineApproval   = "approval_by"
	DeadlineFunding    = "funding_expires_at"
	DeadlineSpending   = "spending_expires_at"
)

// deadlines gathers what is known to run out.
func deadlines(s Snapshot, f Facts) Deadlines {
	d := Deadlines{
		NextBy:          utcOf(f.NextBy),
		UserActionBy:    utcOf(f.UserActionBy),
		ApprovalBy:      utcOf(s.Approval.DecideBy),
		SpendingExpires: utcOf(s.PaymentReady.ExpiresAt),
	}
	if s.Funding != nil {
		d.FundingExpires = utcOf(s.Funding.ExpiresAt)
	}
	return d
}

// DueDeadline is the earliest deadline of e that had passed at now, by its JSON
// name. Deadlines that no longer bind are not counted: none after settling, an
// approval that was decided, spending that is closed.
func DueDeadline(e Event, now time.Time) (name string, at time.Time, ok bool) {
	return earliest(e, func(t time.Time) bool { return !t.After(now) })
}

// NextDeadline is the earliest deadline of e that was still to come at now.
func NextDeadline(e Event, now time.Time) (name string, at time.Time, ok bool) {
	return earliest(e, func(t time.Time) bool { return t.After(now) })
}

func earliest(e Event, want func(time.Time) bool) (name string, at time.Time, ok bool) {
	if e.Purchase == nil {
		return "", time.Time{}, false
	}
	for _, d := range binding(e.Purchase) {
		if d.at != nil && want(*d.at) && (!ok || d.at.Before(at)) {
			name, at, ok = d.name, *d.at, true
		}
	}
	return name, at, ok
}

type deadline struct {
	name string
	at   *time.Time
}

// binding lists the deadlines that still bind somebody.
func binding(p *Purchase) []deadline {
	if p.Terminal && !p.Unsettled {
		return nil
	}
	list := []deadline{{DeadlineNext, p.Deadlines.NextBy}}
	if p.Terminal {
		return list
	}
	list = append(list, deadline{DeadlineUserAction, p.Deadlines.UserActionBy},
		deadline{DeadlineFunding, p.Deadlines.FundingExpires})
	switch p.Approval.State {
	case approvalApproved, approvalDenied, approvalExpired:
	default:
		list = append(list, deadline{DeadlineApproval, p.Deadlines.ApprovalBy})
	}
	if closed := p.PaymentReady.Closed; closed == nil || !*closed {
		list = append(list, deadline{DeadlineSpending, p.Deadlines.SpendingExpires})
	}
	return list
}

package watch

import (
	"reflect"
	"time"
	"unique"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// project copies a purchase field by field from the allow-list. A field that is not named here cannot leave.
func project(p envoy.Purchase) events.Snapshot {
	s := events.Snapshot{
		PurchaseID:      p.PurchaseID,
		Revision:        p.Revision,
		Terminal:        p.Terminal,
		State:           events.State(p.State),
		UserTask:        text(p.UserTask),
		ReasonCode:      text(p.ReasonCode),
		StatusText:      p.StatusText,
		Rail:            text(p.Rail),
		RailReason:      text(p.RailReason),
		CheckoutBy:      text(p.CheckoutBy),
		Merchant:        events.Merchant{Name: p.Merchant.Name, URL: p.Merchant.URL},
		Amount:          amount(p.Amount),
		Description:     text(p.Description),
		DetailsComplete: p.Details.Complete,
		DetailsMissing:  append([]string(nil), p.Details.Missing...),
		Approval: events.Approval{
			State: text(p.Approval.State), Method: text(p.Approval.Method), DecideBy: moment(p.Approval.DecideBy),
		},
		PaymentReady: events.PaymentReady{
			Available: p.PaymentReady.Available, Kind: text(p.PaymentReady.Kind),
			ExpiresAt: moment(p.PaymentReady.ExpiresAt), Closed: copyOf(p.PaymentReady.Closed),
		},
		Money: events.MoneyStatus{
			Status: p.Money.Status, Paid: amountOrNil(p.Money.Paid), MerchantOrderRef: text(p.Money.MerchantOrderRef),
		},
		Receipt: receipt(p.Receipt),
		Chain:   events.Chain{Supersedes: text(p.Chain.Supersedes), SupersededBy: text(p.Chain.SupersededBy)},
		Agent: events.Agent{
			ID: p.Agent.AgentID, DisplayName: p.Agent.DisplayName, Verification: p.Agent.Verification,
		},
		CreatedAt: p.CreatedAt,
		UpdatedAt: p.UpdatedAt,
	}
	if q := p.Question; q != nil {
		s.Question = &events.Question{ID: q.ID, Kind: q.Kind, Prompt: q.Prompt, AskedAt: q.AskedAt}
	}
	if f := p.Funding; f != nil {
		s.Funding = &events.Funding{Amount: amount(f.Amount), ExpiresAt: moment(f.ExpiresAt)}
	}
	return s
}

// share lets purchases keep one copy of the texts that many of them have.
func share(s *events.Snapshot) {
	for _, text := range []*string{
		(*string)(&s.State), &s.UserTask, &s.ReasonCode, &s.StatusText, &s.Rail, &s.RailReason, &s.CheckoutBy, &s.Merchant.Name,
		&s.Merchant.URL, &s.Amount.Currency, &s.Amount.Display, &s.Approval.State, &s.Approval.Method, &s.PaymentReady.Kind,
		&s.Money.Status, &s.Agent.ID, &s.Agent.DisplayName, &s.Agent.Verification,
	} {
		if *text != "" {
			*text = unique.Make(*text).Value()
		}
	}
}

func receipt(r *envoy.Receipt) *events.Receipt {
	if r == nil {
		return nil
	}
	out := &events.Receipt{
		Paid: amount(r.Paid), MerchantOrderRef: text(r.MerchantOrderRef), CompletedAt: r.CompletedAt,
	}
	if r.Card != nil {
		out.CardNetwork, out.CardLast4 = r.Card.Network, r.Card.Last4
	}
	return out
}

// held projects one entry of held_purchases.
func held(i envoy.HeldItem) *events.Held {
	return &events.Held{State: i.State, Amount: amountOrNil(i.Amount), Exact: i.Exact, Since: moment(i.Since)}
}

func amount(a envoy.Amount) events.Amount {
	return events.Amount{Minor: a.Minor, Currency: a.Currency, Display: a.Display}
}

func amountOrNil(a *envoy.Amount) *events.Amount {
	if a == nil {
		return nil
	}
	out := amount(*a)
	return &out
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func moment(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	out := *t
	return &out
}

func copyOf(b *bool) *bool {
	if b == nil {
		return nil
	}
	out := *b
	return &out
}

func support(m envoy.Meta) events.Support {
	return events.Support{RequestID: m.RequestID, TraceID: m.TraceID}
}

// ids are what Envoy's support finds a reply by.
type ids struct{ request, trace string }

func idsOf(m envoy.Meta) ids { return ids{m.RequestID, m.TraceID} }

func (i ids) support() events.Support { return events.Support{RequestID: i.request, TraceID: i.trace} }

// followable reads a next. It gives what may be followed, if it reads a purchase at all, and the reference that it
// names.
func followable(n envoy.Next) (*follow, bool) {
	if n.Tool == nil || *n.Tool != string(envoy.ToolStatus) || len(n.Args) == 0 {
		return nil, false
	}
	args, err := envoy.ParseArgs(n.Args)
	if err != nil {
		return nil, false
	}
	f := &follow{reference: args.Purchase, args: n.Args, after: args.AfterRevision, wait: min(args.Wait, holdWait)}
	if n.AfterSeconds != nil && *n.AfterSeconds > 0 {
		f.delay = time.Duration(min(*n.AfterSeconds, 86400)) * time.Second
	}
	return f, true
}

// deadlinesOf gathers what is known to run out.
func deadlinesOf(s events.Snapshot, t *told) events.Deadlines {
	d := events.Deadlines{ApprovalBy: s.Approval.DecideBy, SpendingExpires: s.PaymentReady.ExpiresAt}
	if s.Funding != nil {
		d.FundingExpires = s.Funding.ExpiresAt
	}
	if t.about(s) {
		d.NextBy, d.UserActionBy = t.nextBy, t.actionBy
	}
	return d
}

// nearest gives the first deadline that is not long past; zero when there is none.
func nearest(d events.Deadlines, now time.Time) time.Time {
	var out time.Time
	for _, t := range []*time.Time{d.NextBy, d.UserActionBy, d.ApprovalBy, d.FundingExpires, d.SpendingExpires} {
		if t != nil && t.After(now.Add(-time.Minute)) && (out.IsZero() || t.Before(out)) {
			out = *t
		}
	}
	return out
}

// told is what only a status reply says, and only about the revision that it showed. It is never changed.
type told struct {
	revision   int64
	stopped    bool
	nextBy     *time.Time
	action     string
	actionText string
	actionBy   *time.Time
}

// about tells whether it speaks of this snapshot. Nil is what is said before any reply.
func (t *told) about(s events.Snapshot) bool { return t != nil && t.revision == s.Revision }

// toldBy reads a status reply. One that says what before said gives before.
func toldBy(r *envoy.Status, before *told) *told {
	t := told{
		revision: r.Purchase.Revision,
		stopped:  r.Next.Action == "stop", nextBy: moment(r.Next.By),
	}
	if a := r.UserAction; a != nil {
		t.action, t.actionText, t.actionBy = a.Task, a.Message, moment(a.By)
	}
	if before != nil && reflect.DeepEqual(t, *before) {
		return before
	}
	return &t
}

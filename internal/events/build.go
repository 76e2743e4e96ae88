package events

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Options decides what an event may carry. The zero value leaves personal
// fields out.
type Options struct {
	Personal bool // keep the personal fields, see PersonalFields
}

const sourcePrefix = "/connections/"

// New builds the event of a snapshot field by field: what is not written here
// is not sent. prev is the event before it of the same purchase, if the caller
// has it; otherwise the cursor names it. Free text is scrubbed and what was
// masked is counted.
func New(s Snapshot, f Facts, j Judgement, at Position, cause Cause, prev *Event, c Cursor, opts Options) Event {
	cl := cleaner{personal: opts.Personal}
	p := &Purchase{
		Connection:      f.Connection,
		Reading:         ReadingInfo{Revision: at.Revision, Epoch: at.Epoch, N: at.N, Cause: cause, Changed: []string{}},
		Previous:        previousOf(prev, c),
		Situation:       j.Situation,
		SituationSince:  since(s, f, j, cause, c),
		SituationBasis:  j.SituationBasis,
		Certain:         j.Certain,
		Money:           j.Money,
		MoneyBasis:      j.MoneyBasis,
		MoneyStatus:     cl.money(s.Money),
		Unsettled:       j.Unsettled,
		Terminal:        j.Terminal,
		Inconsistent:    j.Inconsistent,
		SourceOfReading: f.Source,
		Say:             cl.say(s, f),
		WaitingOn:       j.WaitingOn,
		AgentReport:     j.AgentReport,
		ReasonClass:     j.ReasonClass,
		ChainRoot:       chainRoot(s, f, c),
		Support:         cl.support(f.Support),
		Held:            cl.held(f.Held.Entry),
		CreatedAt:       utc(s.CreatedAt),
		UpdatedAt:       utc(s.UpdatedAt),
	}
	cl.describe(p, s, f)
	cl.options(p, s)
	p.Deadlines = deadlines(s, f)
	p.Masked = cl.masked
	if prev != nil && prev.Purchase != nil {
		p.Reading.Changed = changed(prev.Purchase, p)
	}
	return Event{
		ID:          EventID(s.PurchaseID, at),
		Source:      sourcePrefix + f.Connection,
		Type:        TypeChanged,
		Subject:     s.PurchaseID,
		Time:        moment(s, f),
		TraceParent: traceParent(f.TraceParent),
		Purchase:    p,
	}
}

// describe fills in what the purchase is.
func (cl *cleaner) describe(p *Purchase, s Snapshot, f Facts) {
	p.State = State(cl.word(string(s.State)))
	p.UserTask = cl.word(s.UserTask)
	if s.UserTask == "" {
		p.UserTask = cl.word(f.UserActionTask)
	}
	p.ReasonCode = cl.word(s.ReasonCode)
	p.Rail = cl.word(s.Rail)
	p.RailReason = cl.word(s.RailReason)
	p.CheckoutBy = cl.word(s.CheckoutBy)
	p.Merchant = Merchant{Name: cl.text(s.Merchant.Name, nameLimit), URL: cl.link(s.Merchant.URL)}
	p.Amount = cl.amount(s.Amount)
	p.Agent = Agent{ID: cl.id(s.Agent.ID), DisplayName: cl.text(s.Agent.DisplayName, nameLimit),
		Verification: cl.word(s.Agent.Verification)}
	p.Chain = Chain{Supersedes: cl.purchase(s.Chain.Supersedes), SupersededBy: cl.purchase(s.Chain.SupersededBy)}
	p.Approval = Approval{State: cl.word(s.Approval.State), Method: cl.word(s.Approval.Method),
		DecideBy: utcOf(s.Approval.DecideBy)}
	p.PaymentReady = PaymentReady{Available: s.PaymentReady.Available, Kind: cl.word(s.PaymentReady.Kind),
		ExpiresAt: utcOf(s.PaymentReady.ExpiresAt), Closed: copyOf(s.PaymentReady.Closed)}
	p.SpendingClosed = copyOf(s.PaymentReady.Closed)
}

// options fills in what only some purchases have.
func (cl *cleaner) options(p *Purchase, s Snapshot) {
	if cl.personal {
		p.Description = cl.text(s.Description, textLimit)
	}
	for i, name := range s.DetailsMissing {
		if i == missingLimit {
			cl.masked++
			break
		}
		p.DetailsMissing = append(p.DetailsMissing, cl.text(name, nameLimit))
	}
	if q := s.Question; q != nil {
		p.Question = &Question{ID: cl.id(q.ID), Kind: cl.word(q.Kind), AskedAt: utc(q.AskedAt)}
		if cl.personal {
			p.Question.Prompt = cl.text(q.Prompt, textLimit)
		}
	}
	if r := s.Receipt; r != nil {
		p.Receipt = &Receipt{Paid: cl.amount(r.Paid), CardNetwork: cl.word(r.CardNetwork),
			MerchantOrderRef: cl.ref(r.MerchantOrderRef), CompletedAt: utc(r.CompletedAt)}
		if cl.personal && len(r.CardLast4) == 4 && digitsOnly(r.CardLast4) {
			p.Receipt.CardLast4 = r.CardLast4
		}
	}
	if s.Funding != nil {
		p.Funding = &Funding{Amount: cl.amount(s.Funding.Amount), ExpiresAt: utcOf(s.Funding.ExpiresAt)}
	}
}

// say is the only text meant for buyers: what Envoy asks of them, else how it
// explains the state. Envoy calls both safe to show as they are.
func (cl *cleaner) say(s Snapshot, f Facts) string {
	if f.UserActionText != "" {
		return cl.text(f.UserActionText, textLimit)
	}
	return cl.text(s.StatusText, textLimit)
}

// since is when the situation began: as the cursor says if it is unchanged. A
// situation that changes without a revision begins when it was read, as no
// change of the purchase marks it.
func since(s Snapshot, f Facts, j Judgement, cause Cause, c Cursor) time.Time {
	if c.EventID != "" && c.Last.Situation == j.Situation && !c.SituationSince.IsZero() {
		return utc(c.SituationSince)
	}
	if cause == CauseReading && f.ServerTime.After(s.UpdatedAt) {
		return utc(f.ServerTime)
	}
	return moment(s, f)
}

// moment is the time of the newest change that Envoy tells of.
func moment(s Snapshot, f Facts) time.Time {
	if s.UpdatedAt.IsZero() {
		return utc(f.ServerTime)
	}
	return utc(s.UpdatedAt)
}

// chainRoot is the oldest known purchase of the chain, in the end this one.
func chainRoot(s Snapshot, f Facts, c Cursor) string {
	for _, id := range []string{f.ChainRoot, c.ChainRoot} {
		if ValidPurchaseID(id) {
			return id
		}
	}
	return s.PurchaseID
}

// previousOf names the event before, by itself or by the cursor.
func previousOf(prev *Event, c Cursor) *Previous {
	switch {
	case prev != nil && prev.Purchase != nil:
		p := prev.Purchase
		return &Previous{ID: prev.ID, Revision: p.Reading.Revision, State: p.State, Situation: p.Situation}
	case c.EventID != "":
		return &Previous{ID: c.EventID, Revision: c.Revision, State: c.State, Situation: c.Last.Situation}
	default:
		return nil
	}
}

// Still is last again at a later position, unchanged: it keeps the state and
// the timers of an unsettled purchase alive and is delivered to nobody.
func Still(last Event, at Position) Event {
	e := after(last)
	if e.Purchase == nil {
		return e
	}
	e.ID, e.Type = EventID(e.Subject, at), TypeChanged
	r := &e.Purchase.Reading
	r.Epoch, r.Revision, r.N, r.Cause = at.Epoch, at.Revision, at.N, CauseStill
	e.Purchase.Overdue = nil
	if !e.Purchase.UpdatedAt.IsZero() {
		e.Time = e.Purchase.UpdatedAt
	}
	return e
}

// NewOverdue tells that the deadline of that name passed at at without a change
// since last. Its time is the deadline; its id is that of the reading and
// "-overdue", so that there is one for each reading.
func NewOverdue(last Event, deadline string, at time.Time) Event {
	e := after(last)
	if e.Purchase == nil {
		return e
	}
	e.ID, e.Type, e.Time = ReadingID(last.ID)+overdueSuffix, TypeOverdue, utc(at)
	// Not the cause of last: a baseline or still event is passed on to nobody, a missed deadline is.
	e.Purchase.Reading.Cause = CauseReading
	e.Purchase.Overdue = &Overdue{Deadline: deadline, At: utc(at)}
	return e
}

// after copies last into an event that follows it and has changed nothing yet.
func after(last Event) Event {
	e := last
	if last.Purchase == nil {
		return e
	}
	p := *last.Purchase
	p.Previous = previousOf(&last, Cursor{})
	p.Reading.Changed = []string{}
	e.Purchase = &p
	return e
}

// NewNotice is a notice of a connection. The caller sets what n needs beside
// Connection and Kind. Two notices of one kind about different purchases or
// sinks have different ids, even in the same millisecond.
func NewNotice(connection string, kind NoticeKind, now time.Time, n Notice) Event {
	var cl cleaner
	n.Connection, n.Kind = connection, kind
	n.PurchaseID = cl.purchase(n.PurchaseID)
	n.Text = cl.note(n.Text)
	n.Code = cl.word(n.Code)
	n.Support = cl.support(n.Support)
	if !ValidConnection(n.Sink) {
		n.Sink = ""
	}
	n.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(path string) bool { return !validPath(path) })
	return Event{
		ID:     noticeID(connection, kind, now, n),
		Source: sourcePrefix + connection,
		Type:   TypeNotice,
		Time:   utc(now),
		Notice: &n,
	}
}

// changed names the data fields in which b differs from a, sorted. What tells of
// the reading and not of the purchase is left out.
func changed(a, b *Purchase) []string {
	names := []string{}
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		if same(va.Field(i), vb.Field(i)) {
			continue
		}
		name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
		switch name {
		case "connection", "reading", "previous", "source_of_reading", "support", "masked", "overdue", "updated_at":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// same compares by meaning: one moment in two time zones is the same moment,
// and no list is the same as an empty one. Both can be addressed.
func same(a, b reflect.Value) bool {
	if a.Type() == reflect.TypeFor[time.Time]() {
		return a.Addr().Interface().(*time.Time).Equal(*b.Addr().Interface().(*time.Time))
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	default:
		return a.Equal(b)
	}
}

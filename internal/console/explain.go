package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Fate is what became of an event at a sink, in one word.
type Fate string

// The fates.
const (
	FateDelivered  Fate = "delivered"   // the receiver accepted it
	FateRetrying   Fate = "retrying"    // a try failed, another will come
	FateWaiting    Fate = "waiting"     // it is told later, if it still matches then
	FateSilenced   Fate = "silenced"    // a silence postpones it
	FateNotMatched Fate = "not_matched" // no subscription of the sink matches
	FateBaseline   Fate = "baseline"    // first contact is no news
	FateStill      Fate = "still"       // nothing had changed
	FateSuperseded Fate = "superseded"  // a newer event of the purchase was told instead
	FateBuried     Fate = "buried"      // it rests as a dead letter
	FateTold       Fate = "told"        // the alarm that it belongs to was told already
	FateEnded      Fate = "ended"       // the alarm that it belongs to is over, and nobody is told of that
	FateSettled    Fate = "settled"     // the sink is done with it; no record says more
	FatePending    Fate = "pending"     // the sink has not come to it yet
)

// Explanation says why each event of a purchase did or did not reach each sink.
type Explanation struct {
	Purchase string           `json:"purchase"`
	Events   []ExplainedEvent `json:"events"` // oldest first
	Cut      bool             `json:"cut,omitempty"`
}

// ExplainedEvent is one event and its fate at each sink.
type ExplainedEvent struct {
	ID        string           `json:"id"`
	Type      events.Type      `json:"type"`
	Situation events.Situation `json:"situation"`
	Cause     events.Cause     `json:"cause"`
	Revision  int64            `json:"revision"`
	Stored    time.Time        `json:"stored"`
	Sinks     []SinkFate       `json:"sinks"`
}

// SinkFate is the fate of one event at one sink, with the reason in plain words.
type SinkFate struct {
	Sink         string    `json:"sink"`
	Fate         Fate      `json:"fate"`
	Why          string    `json:"why"`
	Subscription string    `json:"subscription,omitempty"` // that matches
	Attempts     int       `json:"attempts,omitempty"`
	At           time.Time `json:"at,omitzero"`    // of the newest record
	Until        time.Time `json:"until,omitzero"` // when it is told or tried again
}

// inquiry is everything that an explanation is made of.
type inquiry struct {
	router    Router
	now       time.Time
	newest    map[string]uint64 // subject -> sequence of its newest event
	records   map[string][]SinkView
	letters   []DeadView
	standings map[string]map[string]events.Standing // sink -> key -> standing
	sinks     map[string]Sink
	silences  []quiet
}

// quiet is a silence that can be asked.
type quiet struct {
	events.Silence
	match func(events.Event, time.Time) (bool, error)
}

func (c *console) explain(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	id := r.PathValue("purchase")
	history, cut, err := c.history(r.Context(), id)
	if err != nil {
		return err
	}
	q, err := c.inquire(r.Context(), id, history)
	if err != nil {
		return err
	}
	names := q.names()
	out := Explanation{Purchase: id, Cut: cut}
	for _, env := range history {
		p := env.Event.Purchase
		e := ExplainedEvent{ID: env.Event.ID, Type: env.Event.Type, Situation: p.Situation, Cause: p.Reading.Cause, Revision: p.Reading.Revision, Stored: env.Stored}
		for _, sink := range names {
			e.Sinks = append(e.Sinks, q.fate(env, sink))
		}
		out.Events = append(out.Events, e)
	}
	return give(w, out)
}

// inquire gathers what is known.
func (c *console) inquire(ctx context.Context, id string, history []events.Envelope) (*inquiry, error) {
	q := &inquiry{now: time.Now(), newest: map[string]uint64{}, standings: map[string]map[string]events.Standing{}, sinks: map[string]Sink{}}
	var list []events.Silence
	var err error
	if c.Silences != nil {
		if list, err = c.Silences.Silences(ctx); err != nil {
			return nil, err
		}
	}
	if q.router, err = c.Route(nil, list); err != nil {
		return nil, err
	}
	for _, s := range list {
		if m, err := c.Match(s.Match); err == nil {
			q.silences = append(q.silences, quiet{s, m})
		}
	}
	if q.records, err = c.records(ctx, id); err != nil {
		return nil, err
	}
	if q.letters, err = c.lettersOf(ctx, q.records); err != nil {
		return nil, err
	}
	if c.Parts != nil {
		all, err := c.Parts.Sinks(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			q.sinks[s.Name] = s
		}
	}
	keys := map[string]bool{}
	for _, env := range history {
		q.newest[env.Subject] = max(q.newest[env.Subject], env.Sequence)
		keys[standingKey(env.Event)] = true
	}
	return q, c.standingsOf(ctx, q, keys)
}

func (c *console) standingsOf(ctx context.Context, q *inquiry, keys map[string]bool) error {
	if c.Standings == nil {
		return nil
	}
	list := make([]string, 0, len(keys))
	for k := range keys {
		list = append(list, k)
	}
	for _, sink := range q.names() {
		found, err := c.Standings.Standings(ctx, sink, list)
		if err != nil {
			return err
		}
		q.standings[sink] = found
	}
	return nil
}

// standingKey is the conversation that sinks remember an event under.
func standingKey(e events.Event) string {
	if e.Purchase != nil && e.Purchase.ChainRoot != "" {
		return e.Purchase.ChainRoot
	}
	return e.Subject
}

// names gives the sinks of the running configuration and those that have
// records or letters, sorted.
func (q *inquiry) names() []string {
	set := map[string]bool{}
	for _, s := range q.router.Sinks() {
		set[s] = true
	}
	for _, s := range q.sinks {
		set[s.Name] = true
	}
	for _, list := range q.records {
		for _, v := range list {
			set[v.Sink] = true
		}
	}
	out := make([]string, 0, len(set))
	for s := range set {
		out = append(out, s)
	}
	sort.Strings(out)
	return out
}

// fate finds what became of an event at a sink: by a letter, then by the
// records, then by what the sink has said that it is done with.
func (q *inquiry) fate(env events.Envelope, sink string) SinkFate {
	f := SinkFate{Sink: sink}
	first := q.router.Decide(Question{Event: env.Event, Stored: env.Stored, Sink: sink, Now: env.Stored})
	f.Subscription = first.Subscription
	records := q.recordsAt(env.Event.ID, sink)
	for _, d := range records {
		f.Attempts, f.At = max(f.Attempts, d.Attempt), d.At
	}
	if d := q.letter(env.Event.ID, sink); d != nil {
		f.Fate, f.Attempts, f.At = FateBuried, d.Attempts, d.Buried
		f.Why = fmt.Sprintf("rests as a dead letter (%s) after %s: %s", d.Reason, tries(d.Attempts), d.Detail)
		return f
	}
	if sent := lastSent(records); sent != nil {
		f.Fate, f.Attempts, f.At = FateDelivered, sent.Attempt, sent.At
		f.Why = fmt.Sprintf("the receiver accepted it after %s", tries(sent.Attempt))
		return f
	}
	if len(records) == 0 {
		q.unrecorded(&f, env, first)
		return f
	}
	q.byRecord(&f, env, records[len(records)-1])
	return f
}

func (q *inquiry) recordsAt(event, sink string) []events.Delivery {
	for _, v := range q.records[event] {
		if v.Sink == sink {
			return v.Attempts
		}
	}
	return nil
}

func (q *inquiry) letter(event, sink string) *DeadView {
	i := slices.IndexFunc(q.letters, func(d DeadView) bool { return d.EventID == event && d.Sink == sink })
	if i < 0 {
		return nil
	}
	return &q.letters[i]
}

func lastSent(records []events.Delivery) *events.Delivery {
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Outcome == outcomeSent {
			return &records[i]
		}
	}
	return nil
}

// unrecorded explains an event of which no record tells: they are kept for a
// week, and an event that was there before the sink leaves none.
func (q *inquiry) unrecorded(f *SinkFate, env events.Envelope, first Verdict) {
	st := q.standings[f.Sink][standingKey(env.Event)]
	s, known := q.sinks[f.Sink]
	switch {
	case st.Settled >= env.Sequence || known && s.Floor >= env.Sequence:
		f.Fate, f.Why = FateSettled, "the sink is done with it and no record says more: records are kept for a week, and what was there before the sink leaves none"
		if !first.Told && first.Action != "wait" {
			q.byReason(f, first.Reason)
		}
	default:
		f.Fate, f.Why = FatePending, "the sink has not come to it yet"
		if why := trouble(s); known && why != "" {
			f.Why += ": " + why
		}
	}
}

// trouble says why a sink does not deliver.
func trouble(s Sink) string {
	switch s.State {
	case "down":
		return "its receiver cannot be reached (" + s.Failure + ")"
	case "paused":
		return "it is paused until its secret or configuration changes (" + s.Failure + ")"
	case "gone":
		return "its receiver is gone for good (" + s.Failure + ")"
	case "running":
		return fmt.Sprintf("%d events wait before and after it", s.Backlog)
	}
	if s.Owner == "" {
		return "no process owns the sink now"
	}
	return ""
}

// byRecord explains an event by its newest record, which is no success.
func (q *inquiry) byRecord(f *SinkFate, env events.Envelope, d events.Delivery) {
	switch d.Outcome {
	case outcomeRetried:
		try := q.standings[f.Sink][standingKey(env.Event)].Tries[env.Event.ID]
		f.Fate, f.Until = FateRetrying, try.Due
		f.Why = fmt.Sprintf("%s failed: %s", tries(max(d.Attempt, try.Count)), orElse(d.Detail, d.Reason))
		if why := trouble(q.sinks[f.Sink]); why != "" && q.sinks[f.Sink].State != "running" {
			f.Why += "; " + why
		}
	case outcomeBuried:
		f.Fate, f.Why = FateBuried, "it was buried ("+d.Reason+"); the letter has been replayed or dropped since"
	case outcomeSuperseded:
		f.Fate, f.Why = FateSuperseded, "a newer event of the purchase is told instead"
	case outcomeWaiting:
		q.waits(f, env, d)
	case outcomeSkipped:
		q.byReason(f, d.Reason)
	default:
		f.Fate, f.Why = FateSettled, d.Outcome+": "+d.Reason
	}
}

// waits explains an event that is to be decided again by the clock. Only the
// newest event of a purchase still is.
func (q *inquiry) waits(f *SinkFate, env events.Envelope, d events.Delivery) {
	if env.Sequence < q.newest[env.Subject] {
		f.Fate, f.Why = FateSuperseded, "it waited ("+d.Reason+") until a newer event of the purchase took its place"
		return
	}
	now := q.router.Decide(Question{
		Event: env.Event, Stored: env.Stored, Sink: f.Sink, Now: q.now, Again: true,
		Standing: q.standings[f.Sink][standingKey(env.Event)],
	})
	f.Fate, f.Until = FateWaiting, now.Until
	f.Subscription = orElse(now.Subscription, f.Subscription)
	switch {
	case now.Told:
		f.Until, f.Why = q.now, "it is due now"
	case now.Reason == "silenced":
		f.Fate, f.Why = FateSilenced, "a silence postpones it"
		if s := q.silenceOf(env.Event); s != nil {
			f.Why = fmt.Sprintf("silence %s postpones it: %s", s.ID, s.Why)
		}
	case now.Reason == "dwelling":
		f.Why = "it is told when it has matched without a break for long enough"
	default:
		q.byReason(f, now.Reason)
	}
}

// silenceOf is the silence about an event that ends last.
func (q *inquiry) silenceOf(e events.Event) *events.Silence {
	var found *events.Silence
	for i := range q.silences {
		s := &q.silences[i]
		if yes, err := s.match(e, q.now); err == nil && yes && (found == nil || s.Until.After(found.Until)) {
			found = &s.Silence
		}
	}
	return found
}

// byReason puts a reason of the decision into words.
func (q *inquiry) byReason(f *SinkFate, reason string) {
	switch reason {
	case "no_match":
		f.Fate, f.Why = FateNotMatched, "no subscription of this sink matches it"
	case "baseline":
		f.Fate, f.Why = FateBaseline, "it was there at first contact with the connection, which is no news"
	case "still":
		f.Fate, f.Why = FateStill, "nothing had changed: it keeps state and timers alive and is delivered to nobody"
	case "told":
		f.Fate, f.Why = FateTold, "its alarm was told, and no reminder is due"
	case "ended":
		f.Fate, f.Why = FateEnded, "its alarm ended, and nobody is told of that"
	case "dwelling":
		f.Fate, f.Why = FateEnded, "its match ended before it had held for long enough"
	case "silenced":
		f.Fate, f.Why = FateSilenced, "a silence postpones it"
	case "look_back":
		f.Fate, f.Why = FateNotMatched, "no subscription matches it now; one depends on the time and is asked again"
	case "older than the sink":
		f.Fate, f.Why = FateBaseline, "it was settled before the sink was new"
	default:
		f.Fate, f.Why = FateSettled, orElse(reason, "the sink is done with it")
	}
}

func tries(n int) string {
	if n <= 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}

func orElse(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

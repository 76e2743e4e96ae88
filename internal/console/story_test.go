package console_test

import (
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/console/consoletest"
	"github.com/heraldbridge/herald/internal/events"
)

// at makes an event of one purchase at a revision.
func at(revision int64, s events.Situation, cause events.Cause) events.Event {
	e := events.Samples()[3]
	p := *e.Purchase
	p.Situation, p.Reading.Revision, p.Reading.Cause, p.Reading.Changed = s, revision, cause, []string{"situation"}
	if s == events.SituationNeedsSupport {
		p.SituationBasis, p.Certain = "verifying_stop", false
	}
	p.Unsettled = s == events.SituationConfirming || s == events.SituationNeedsSupport
	p.Terminal = s == events.SituationDone || s == events.SituationStopped
	p.ChainRoot = e.Subject
	e.Purchase = &p
	e.ID = events.EventID(e.Subject, events.Position{Revision: revision})
	return e
}

// story stores one purchase with four events, and what two sinks made of them:
// ops keeps alarms about unsettled ones, orders takes everything.
func story(w *consoletest.World) string {
	now := time.Now()
	begin := now.Add(-20 * time.Minute)
	list := []events.Event{
		at(1, events.SituationWorking, events.CauseRevision), at(2, events.SituationReady, events.CauseRevision),
		at(3, events.SituationConfirming, events.CauseRevision), at(4, events.SituationNeedsSupport, events.CauseReading),
	}
	for i, e := range list {
		e.Purchase.SituationSince = begin.Add(time.Duration(i) * time.Minute)
		w.StoreAt(e, begin.Add(time.Duration(i)*time.Minute))
	}
	w.Subs = []console.Subscription{
		{Name: "unsettled", Match: "unsettled", For: console.Duration(time.Hour), Sinks: []string{"ops"}},
		{Name: "all", Match: "true", Sinks: []string{"orders"}},
	}
	record := func(sink string, i int, outcome, reason string, attempt int, after time.Duration) {
		w.Outcomes = append(w.Outcomes, events.Delivery{
			Sink: sink, EventID: list[i].ID, PurchaseID: list[i].Subject, Type: list[i].Type, Revision: int64(i + 1),
			Outcome: outcome, Reason: reason, Attempt: attempt, At: begin.Add(time.Duration(i)*time.Minute + after), Detail: "status (500)",
		})
	}
	record("ops", 0, "skipped", "no_match", 0, time.Second)
	record("orders", 0, "retried", "server_error", 1, time.Second)
	record("orders", 0, "sent", "", 2, 6*time.Second)
	record("orders", 1, "buried", "refused", 3, time.Second)
	record("ops", 2, "waiting", "dwelling", 0, time.Second)
	record("ops", 3, "waiting", "dwelling", 0, time.Second)
	raw, err := events.Encode(list[1])
	if err != nil {
		panic(err)
	}
	w.Letters = append(w.Letters, events.DeadLetter{
		Sink: "orders", EventID: list[1].ID, Subject: "envoy.purchase.sample-host." + list[1].Subject, Sequence: 2, Reason: "refused",
		Detail: "status (400)", Attempts: 3, First: begin, Buried: begin.Add(time.Minute), Event: raw,
	})
	w.SinkList = []console.Sink{
		{Name: "ops", Kind: "slack", State: "running", Configured: true, Owner: "herald on a, pid 1", Floor: 4,
			Since: begin, LastSuccess: begin.Add(time.Minute), Rate: 4.25},
		{Name: "orders", Kind: "webhook", State: "down", Failure: "dial: refused", Configured: true, Owner: "herald on a, pid 1", Floor: 2, Backlog: 2,
			Since: begin.Add(9 * time.Minute), LastSuccess: begin.Add(8 * time.Minute), NextProbe: now.Add(30 * time.Second)},
	}
	return list[0].Subject
}

func TestExplainSaysWhy(t *testing.T) {
	w := consoletest.Empty()
	id := story(w)
	c := open(t, w)
	check := func(want [][2]console.Fate) {
		t.Helper()
		e := ask[console.Explanation](t, c, "/v1/explain/"+id)
		if len(e.Events) != len(want) {
			t.Fatalf("%d events", len(e.Events))
		}
		for i, ev := range e.Events {
			for j, f := range ev.Sinks {
				if f.Fate != want[i][j] || f.Why == "" {
					t.Errorf("event %d at %s: %s (%s), want %s", i+1, f.Sink, f.Fate, f.Why, want[i][j])
				}
			}
		}
	}
	check([][2]console.Fate{
		{console.FateNotMatched, console.FateDelivered},
		{console.FateNotMatched, console.FateBuried},
		{console.FateSuperseded, console.FatePending},
		{console.FateWaiting, console.FatePending},
	})
	last := ask[console.Explanation](t, c, "/v1/explain/"+id).Events[3].Sinks[0]
	if last.Subscription != "unsettled" || last.Until.IsZero() {
		t.Errorf("what waits: %+v", last)
	}
	w.Quiet = []events.Silence{{ID: "sil-1", Match: "unsettled", Until: time.Now().Add(time.Hour), Why: "known"}}
	e := ask[console.Explanation](t, c, "/v1/explain/"+id).Events[3].Sinks[0]
	if e.Fate != console.FateSilenced || e.Why != "silence sil-1 postpones it: known" {
		t.Errorf("silenced: %+v", e)
	}
	w.Quiet, w.Letters = nil, nil
	if f := ask[console.Explanation](t, c, "/v1/explain/"+id).Events[1].Sinks[1]; f.Fate != console.FateBuried || f.Why == "" {
		t.Errorf("a letter that was dropped: %+v", f)
	}
}

func TestExplainOfEveryReason(t *testing.T) {
	for reason, want := range map[string]console.Fate{
		"no_match": console.FateNotMatched, "baseline": console.FateBaseline, "still": console.FateStill, "told": console.FateTold,
		"ended": console.FateEnded, "dwelling": console.FateEnded, "look_back": console.FateNotMatched, "older than the sink": console.FateBaseline,
		"another": console.FateSettled,
	} {
		w := consoletest.Empty()
		env := w.Store(at(1, events.SituationWorking, events.CauseRevision))
		w.Outcomes = []events.Delivery{{Sink: "ops", EventID: env.Event.ID, PurchaseID: env.Event.Subject, Outcome: "skipped", Reason: reason, At: time.Now()}}
		f := ask[console.Explanation](t, open(t, w), "/v1/explain/"+env.Event.Subject).Events[0].Sinks[0]
		if f.Fate != want || f.Why == "" {
			t.Errorf("%s: %+v, want %s", reason, f, want)
		}
	}
}

func TestExplainOfOpenTries(t *testing.T) {
	w := consoletest.Empty()
	env := w.Store(at(1, events.SituationWorking, events.CauseRevision))
	due := time.Now().Add(time.Minute).UTC()
	w.Outcomes = []events.Delivery{{Sink: "orders", EventID: env.Event.ID, PurchaseID: env.Event.Subject, Outcome: "retried", Attempt: 2, Detail: "timeout", At: time.Now()}}
	w.Standing["orders"] = map[string]events.Standing{env.Event.Subject: {Tries: map[string]events.Try{env.Event.ID: {Count: 2, Due: due}}}}
	f := ask[console.Explanation](t, open(t, w), "/v1/explain/"+env.Event.Subject).Events[0].Sinks[0]
	if f.Fate != console.FateRetrying || !f.Until.Equal(due) || f.Attempts != 2 {
		t.Errorf("%+v", f)
	}
}

func TestSimulateTellsTheDifference(t *testing.T) {
	w := consoletest.Empty()
	story(w)
	c := open(t, w)
	simulate := func(q console.SimulateRequest) console.Simulation {
		t.Helper()
		var s console.Simulation
		if err := c.Post(t.Context(), "/v1/simulate", q, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	same := simulate(console.SimulateRequest{Subscriptions: w.Subs})
	if same.Events != 4 || same.Same != 4 || len(same.Added)+len(same.Removed) != 0 || same.Running.BySink["orders"] != 4 || same.New.Total != 4 {
		t.Errorf("the same file: %+v", same)
	}
	other := simulate(console.SimulateRequest{Subscriptions: []console.Subscription{
		{Name: "soon", Match: "unsettled", For: console.Duration(5 * time.Minute), Sinks: []string{"ops"}},
		{Name: "few", Match: `situation == "ready"`, Sinks: []string{"orders"}},
	}})
	if other.New.BySink["ops"] != 1 || other.New.BySink["orders"] != 1 || len(other.Added) != 1 || len(other.Removed) != 3 || other.Same != 1 {
		t.Fatalf("another file: %+v", other)
	}
	if a := other.Added[0]; a.Action != "open" || a.Sink != "ops" || a.Situation != events.SituationNeedsSupport {
		t.Errorf("added: %+v", a)
	}
	if none := simulate(console.SimulateRequest{Subscriptions: w.Subs, Since: "1s"}); none.Events != 0 || none.New.Total != 0 {
		t.Errorf("a short span: %+v", none)
	}
	refused(t, c.Post(t.Context(), "/v1/simulate", map[string]any{"subscriptions": []any{map[string]any{"name": "x", "match": "nope", "sinks": []string{"a"}}}}, nil), 400, "subscriptions")
	refused(t, c.Post(t.Context(), "/v1/simulate", map[string]any{}, nil), 400, "subscriptions")
	refused(t, c.Post(t.Context(), "/v1/simulate", map[string]any{"subscriptions": []any{}, "colour": 1}, nil), 400, "")
}

package route

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/heraldbridge/herald/internal/events"
)

// line is a story of one purchase at one sink: each call decides and, unless
// told otherwise, does what was decided.
type line struct {
	t        testing.TB
	set      *Set
	standing events.Standing
	silences Silences
	now      time.Time
	last     events.Event
	stored   time.Time
}

func story(t testing.TB, specs ...Spec) *line {
	for i := range specs {
		if specs[i].Sinks == nil {
			specs[i].Sinks = []string{"ops"}
		}
	}
	return &line{t: t, set: compile(t, specs...), now: noon}
}

func (l *line) decide(again bool) Decision {
	return Decide(Input{
		Event: l.last, Stored: l.stored, Standing: l.standing, Sink: "ops", Set: l.set, Silences: l.silences, Now: l.now, Again: again,
	})
}

// event decides a new event.
func (l *line) event(e events.Event, want Action) Decision {
	l.t.Helper()
	l.last, l.stored = e, l.now
	return l.check(l.decide(false), want)
}

// after decides the newest event again, so much later.
func (l *line) after(d time.Duration, want Action) Decision {
	l.t.Helper()
	l.now = l.now.Add(d)
	return l.check(l.decide(true), want)
}

func (l *line) check(d Decision, want Action) Decision {
	l.t.Helper()
	if d.Err != nil {
		l.t.Fatalf("decide: %v", d.Err)
	}
	if d.Action != want {
		l.t.Fatalf("action %q (%s), want %q", d.Action, d.Reason, want)
	}
	l.standing = d.Standing
	return d
}

func (l *line) until(d Decision, after time.Duration) {
	l.t.Helper()
	if want := l.now.Add(after); !d.Until.Equal(want) {
		l.t.Errorf("until %s, want %s", d.Until, want)
	}
}

func caused(e events.Event, c events.Cause) events.Event {
	e.Purchase.Reading.Cause = c
	return e
}

func other(e events.Event, id string) events.Event {
	e.ID, e.Subject = strings.Replace(e.ID, e.Subject, id, 1), id
	return e
}

var unsettled = Spec{
	Name: "unsettled", Match: "unsettled", For: 2 * time.Minute, Urgent: `situation == "needs_support"`,
	Repeat: 30 * time.Minute, Resolve: true,
}

func TestPassThrough(t *testing.T) {
	l := story(t, Spec{Name: "all", Match: `type != "money.envoy.connection.notice.v1"`, Urgent: "unsettled"})
	if d := l.event(purchase(1, events.SituationConfirming), ActionPass); !d.Urgent || d.Subscription != "all" || !d.Until.IsZero() {
		t.Errorf("got %+v", d)
	}
	l.after(time.Hour, ActionSkip)
	if d := l.event(caused(purchase(2, events.SituationDone), events.CauseBaseline), ActionSkip); d.Reason != ReasonBaseline {
		t.Errorf("reason %q", d.Reason)
	}
	if d := l.event(caused(purchase(3, events.SituationConfirming), events.CauseStill), ActionSkip); d.Reason != ReasonStill {
		t.Errorf("reason %q", d.Reason)
	}
	notice := events.Event{ID: "n", Type: events.TypeNotice, Notice: &events.Notice{}}
	if d := l.event(notice, ActionSkip); d.Reason != ReasonNoMatch {
		t.Errorf("reason %q", d.Reason)
	}
	l.set = compile(t, Spec{Name: "elsewhere", Match: "true", Sinks: []string{"other"}})
	l.event(purchase(4, events.SituationDone), ActionSkip)
}

func TestFirstMatchWins(t *testing.T) {
	l := story(t, Spec{Name: "one", Match: "terminal"}, Spec{Name: "two", Match: "true"}, Spec{Name: "three", Match: "true", Resolve: true})
	if d := l.event(purchase(1, events.SituationDone), ActionPass); d.Subscription != "one" {
		t.Errorf("got %q", d.Subscription)
	}
	if d := l.event(purchase(2, events.SituationReady), ActionPass); d.Subscription != "two" || len(d.Standing.Alarms) != 0 {
		t.Errorf("got %+v", d)
	}
}

func TestSilencePostpones(t *testing.T) {
	silences, err := CompileSilences([]events.Silence{
		{ID: "0", Match: "unsettled", Until: noon.Add(30 * time.Minute)},
		{ID: "1", Match: "unsettled || terminal", Until: noon.Add(time.Hour)},
		{ID: "2", Match: `merchant.name == "other"`, Until: noon.Add(9 * time.Hour)},
		{ID: "3", Match: "unsettled", Until: noon.Add(-time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	quiet := func(specs ...Spec) *line {
		l := story(t, specs...)
		l.silences = silences
		return l
	}
	t.Run("an opening", func(t *testing.T) {
		l := quiet(Spec{Name: "a", Match: "unsettled", Resolve: true})
		d := l.event(purchase(1, events.SituationConfirming), ActionWait)
		l.until(d, time.Hour)
		if d := l.after(time.Hour, ActionOpen); !d.Since.Equal(noon) {
			t.Errorf("since %s", d.Since)
		}
	})
	t.Run("an end", func(t *testing.T) {
		l := quiet(Spec{Name: "a", Match: "unsettled", Resolve: true})
		l.silences = nil
		l.event(purchase(1, events.SituationConfirming), ActionOpen)
		l.silences = silences
		l.event(purchase(2, events.SituationDone), ActionWait)
		l.after(time.Hour, ActionResolve)
	})
	t.Run("nobody hears of what came and went in it", func(t *testing.T) {
		l := quiet(Spec{Name: "a", Match: "unsettled", Resolve: true})
		l.event(purchase(1, events.SituationConfirming), ActionWait)
		l.event(purchase(2, events.SituationDone), ActionSkip)
	})
	t.Run("no plain webhook", func(t *testing.T) {
		quiet(Spec{Name: "a", Match: "true"}).event(purchase(1, events.SituationConfirming), ActionPass)
	})
}

func TestBrokenSilenceIsLeftOut(t *testing.T) {
	s, err := CompileSilences([]events.Silence{{ID: "bad", Match: "nope", Until: noon.Add(time.Hour)}, {ID: "fails", Match: "1 / revision == 5", Until: noon.Add(time.Hour)}})
	if err == nil || !strings.Contains(err.Error(), "bad") || len(s) != 1 {
		t.Fatalf("got %v, %d silences", err, len(s))
	}
	l := story(t, Spec{Name: "a", Match: "unsettled", Resolve: true})
	l.silences = s
	l.event(purchase(0, events.SituationConfirming), ActionOpen)
}

func TestConditionThatDependsOnTheTime(t *testing.T) {
	l := story(t, Spec{Name: "old", Match: `now - time > duration("150s") && !terminal`, Resolve: true})
	d := l.event(purchase(1, events.SituationWorking), ActionWait)
	l.until(d, time.Minute)
	l.after(time.Minute, ActionWait)
	l.after(time.Minute, ActionWait)
	l.after(time.Minute, ActionOpen)
	l.event(purchase(2, events.SituationDone), ActionResolve)
	// It may cease to hold while it dwells, so the end of the dwell is too late to look.
	l = story(t, Spec{Name: "young", Match: `now - time < duration("150s")`, For: 10 * time.Minute})
	d = l.event(purchase(1, events.SituationWorking), ActionWait)
	l.until(d, time.Minute)
}

func TestErrorsAreTheEvents(t *testing.T) {
	for _, s := range []Spec{
		{Name: "a", Match: "1 / revision == 1"}, {Name: "a", Match: "true", Urgent: "1 / revision == 1"},
		{Name: "a", Match: "true", Urgent: "1 / revision == 1", Resolve: true},
	} {
		l := story(t, s)
		l.last = purchase(0, events.SituationConfirming)
		if d := l.decide(false); d.Err == nil || d.Action.Told() || !strings.Contains(d.Err.Error(), "subscription a") {
			t.Errorf("%+v: got %+v", s, d)
		}
	}
}

func TestUntoldKeepsTheAlarmGoing(t *testing.T) {
	l := story(t, Spec{Name: "a", Match: "unsettled", Repeat: time.Hour, Resolve: true})
	l.last, l.stored = purchase(1, events.SituationConfirming), noon
	prior := l.standing
	d := l.decide(false)
	l.standing = d.Untold(prior)
	if a := l.standing.Alarms["a"]; !a.Since.Equal(noon) || !a.Opened.IsZero() || !a.Told.IsZero() {
		t.Fatalf("alarm %+v", a)
	}
	l.now = l.now.Add(time.Minute)
	if d := l.event(purchase(2, events.SituationConfirming), ActionOpen); !d.Since.Equal(noon) {
		t.Errorf("since %s", d.Since)
	}
	prior = l.standing
	l.last, l.stored = purchase(3, events.SituationDone), l.now
	l.standing = l.decide(false).Untold(prior)
	l.after(time.Minute, ActionResolve)
}

func TestAlarmOfARemovedSubscriptionIsForgotten(t *testing.T) {
	l := story(t, Spec{Name: "a", Match: "unsettled", Resolve: true})
	l.event(purchase(1, events.SituationConfirming), ActionOpen)
	l.set = compile(t, Spec{Name: "b", Match: "terminal", Sinks: []string{"ops"}})
	if d := l.event(purchase(2, events.SituationConfirming), ActionSkip); len(d.Standing.Alarms) != 0 {
		t.Errorf("left over: %v", d.Standing.Alarms)
	}
}

// Whatever happens, buried openings too: deciding changes nothing that was handed in
// and is the same twice, an open alarm is closed once and only after it was told, a wait lies
// ahead, and nobody is told anything about a reading that did not change.
func TestAlarmProperties(t *testing.T) {
	situations := []events.Situation{
		events.SituationConfirming, events.SituationNeedsSupport, events.SituationWorking, events.SituationReady, events.SituationDone,
	}
	set := compile(t, Spec{Name: "unsettled", Match: "unsettled", For: 2 * time.Minute, Urgent: `situation == "needs_support"`,
		Repeat: 30 * time.Minute, Resolve: true, Sinks: []string{"ops"}})
	rapid.Check(t, func(rt *rapid.T) {
		l := &line{t: t, set: set, now: noon}
		open := false
		l.last, l.stored = purchase(0, events.SituationWorking), noon
		for revision := range int64(rapid.IntRange(1, 40).Draw(rt, "steps")) {
			l.now = l.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "seconds")) * time.Second)
			again := rapid.Bool().Draw(rt, "again")
			if !again {
				cause := rapid.SampledFrom([]events.Cause{events.CauseRevision, events.CauseReading, events.CauseStill, events.CauseBaseline}).Draw(rt, "cause")
				situation := rapid.SampledFrom(situations).Draw(rt, "situation")
				if cause == events.CauseStill {
					situation = l.last.Purchase.Situation
				}
				l.last, l.stored = caused(purchase(revision+1, situation), cause), l.now
			}
			before := len(l.standing.Alarms)
			d, same := l.decide(again), l.decide(again)
			if d.Action != same.Action || !d.Until.Equal(same.Until) || len(l.standing.Alarms) != before {
				rt.Fatalf("not pure: %+v, %+v", d, same)
			}
			if d.Action == ActionWait && d.Until.Before(l.now) {
				rt.Fatalf("waits for the past: %+v", d)
			}
			if !again && l.last.Purchase.Reading.Cause == events.CauseStill && d.Action.Told() {
				rt.Fatalf("a still event was told: %+v", d)
			}
			switch d.Action {
			case ActionOpen:
				if open {
					rt.Fatal("opened twice")
				}
				open = true
			case ActionUpdate, ActionRemind, ActionResolve:
				if !open {
					rt.Fatalf("%s of an alarm that nobody was told of", d.Action)
				}
				open = d.Action != ActionResolve
			case ActionPass:
				rt.Fatal("passed on")
			case ActionSkip, ActionWait:
			}
			if l.last.Purchase.Situation == events.SituationDone && !again && open && d.Action != ActionResolve && quiet(l.last) != ReasonStill {
				rt.Fatalf("still open although it is over: %+v", d)
			}
			l.standing = d.Standing
			if d.Action == ActionOpen && rapid.Bool().Draw(rt, "buried") {
				l.standing, open = d.Buried(), false
			}
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	set, err := Compile([]Spec{
		{Name: "unsettled", Match: "unsettled", For: 2 * time.Minute, Urgent: `situation == "needs_support"`, Resolve: true, Sinks: []string{"ops"}},
		{Name: "all", Match: `type == "money.envoy.purchase.changed.v1"`, Sinks: []string{"ops"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	in := Input{Event: purchase(1, events.SituationReady), Stored: noon, Sink: "ops", Set: set, Now: noon}
	b.ReportAllocs()
	for b.Loop() {
		if d := Decide(in); d.Action != ActionPass {
			b.Fatal(d.Action)
		}
	}
}

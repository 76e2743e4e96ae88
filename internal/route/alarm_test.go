package route

import (
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

func TestAlarmLife(t *testing.T) {
	l := story(t, unsettled)
	d := l.event(purchase(1, events.SituationConfirming), ActionWait)
	l.until(d, 2*time.Minute)
	l.after(time.Minute, ActionWait)
	began := noon
	d = l.after(time.Minute, ActionOpen)
	l.until(d, 30*time.Minute)
	if !d.Since.Equal(began) || d.Urgent {
		t.Errorf("since %s, urgent %v", d.Since, d.Urgent)
	}
	l.after(29*time.Minute, ActionWait)
	if d = l.after(time.Minute, ActionRemind); d.Standing.Alarms["unsettled"].Reminded != 1 {
		t.Errorf("reminded %d times", d.Standing.Alarms["unsettled"].Reminded)
	}
	if d = l.event(purchase(2, events.SituationNeedsSupport), ActionUpdate); !d.Urgent || !d.Since.Equal(began) {
		t.Errorf("the same alarm is told as a change: %+v", d)
	}
	l.until(d, 30*time.Minute)
	if d = l.event(purchase(3, events.SituationDone), ActionResolve); len(d.Standing.Alarms) != 0 || !d.Since.Equal(began) {
		t.Errorf("after the end: %+v", d)
	}
	l.after(time.Hour, ActionSkip)
}

func TestUrgentKnowsNoDwell(t *testing.T) {
	l := story(t, unsettled)
	if d := l.event(purchase(1, events.SituationNeedsSupport), ActionOpen); !d.Urgent {
		t.Error("not urgent")
	}
	l = story(t, unsettled)
	l.event(purchase(1, events.SituationConfirming), ActionWait)
	l.now = l.now.Add(time.Minute)
	if d := l.event(purchase(2, events.SituationNeedsSupport), ActionOpen); !d.Since.Equal(noon) {
		t.Errorf("counted from %s, not from when it first held", d.Since)
	}
}

func TestDwellCountsThroughChangesAndBreaks(t *testing.T) {
	l := story(t, unsettled)
	l.event(purchase(1, events.SituationConfirming), ActionWait)
	l.now = l.now.Add(90 * time.Second)
	d := l.event(purchase(2, events.SituationConfirming), ActionWait)
	l.until(d, 30*time.Second)
	if d = l.event(purchase(3, events.SituationWorking), ActionSkip); len(d.Standing.Alarms) != 0 {
		t.Error("a dwell outlived its match")
	}
	d = l.event(purchase(4, events.SituationConfirming), ActionWait)
	l.until(d, 2*time.Minute)
}

func TestBaselineOpensAlarms(t *testing.T) {
	l := story(t, unsettled, Spec{Name: "rest", Match: "true"})
	l.event(caused(purchase(1, events.SituationConfirming), events.CauseBaseline), ActionWait)
	l.after(2*time.Minute, ActionOpen)
	l = story(t, unsettled, Spec{Name: "rest", Match: "true"})
	l.event(caused(purchase(1, events.SituationReady), events.CauseBaseline), ActionSkip)
}

func TestStillIsDeliveredToNobody(t *testing.T) {
	l := story(t, Spec{Name: "a", Match: "unsettled", Repeat: time.Hour})
	l.event(purchase(1, events.SituationConfirming), ActionOpen)
	l.now = l.now.Add(3 * time.Hour)
	d := l.event(caused(purchase(2, events.SituationConfirming), events.CauseStill), ActionWait)
	l.until(d, 0)
	l.after(0, ActionRemind) // the clock tells, not the event
	l.event(caused(purchase(3, events.SituationWorking), events.CauseStill), ActionSkip)
	if _, open := l.standing.Alarms["a"]; !open {
		t.Error("an unchanged reading ended an alarm")
	}
}

func TestWhatClosesNothing(t *testing.T) {
	open := func() *line {
		l := story(t, Spec{Name: "a", Match: "unsettled", Repeat: time.Hour, Resolve: true})
		l.event(purchase(1, events.SituationConfirming), ActionOpen)
		return l
	}
	t.Run("superseding", func(t *testing.T) {
		l := open()
		e := purchase(2, events.SituationWorking)
		e.Purchase.State, e.Purchase.Terminal = events.StateSuperseded, true
		l.event(e, ActionWait)
		l.after(time.Hour, ActionRemind)
		l.event(other(purchase(1, events.SituationWorking), "pur_b"), ActionSkip) // the successor is under way
		l.event(other(purchase(2, events.SituationDone), "pur_b"), ActionResolve)
	})
	t.Run("ready handout", func(t *testing.T) {
		l := open()
		l.event(purchase(2, events.SituationReady), ActionWait)
		l.event(purchase(3, events.SituationReady), ActionWait)
		l.event(purchase(4, events.SituationDone), ActionResolve)
	})
	t.Run("notices", func(t *testing.T) {
		l := open()
		for _, kind := range []events.NoticeKind{events.NoticeGaveUp, events.NoticeBlind} {
			l.event(events.Event{ID: "n", Type: events.TypeNotice, Notice: &events.Notice{Kind: kind, PurchaseID: "pur_a"}}, ActionSkip)
		}
		if _, still := l.standing.Alarms["a"]; !still {
			t.Error("a notice ended the alarm")
		}
	})
	t.Run("but ready ends a wait for the user", func(t *testing.T) {
		l := story(t, Spec{Name: "a", Match: `situation == "waiting_for_user"`, Resolve: true})
		l.event(purchase(1, events.SituationWaitingForUser), ActionOpen)
		l.event(purchase(2, events.SituationReady), ActionResolve)
	})
}

func TestSuccessorTakesTheAlarmOver(t *testing.T) {
	l := story(t, Spec{Name: "a", Match: "unsettled", Repeat: time.Hour, Resolve: true})
	l.event(purchase(1, events.SituationConfirming), ActionOpen)
	old := l.last
	l.event(other(purchase(1, events.SituationConfirming), "pur_b"), ActionUpdate)
	l.last = old
	l.after(2*time.Hour, ActionSkip) // the older purchase does not remind any more
	l.last = other(purchase(1, events.SituationConfirming), "pur_b")
	l.after(0, ActionRemind)
}

// The successor hangs; that the older purchase is over for good says nothing about it.
func TestTheLastWordOfASupersededPurchaseEndsNothing(t *testing.T) {
	l := story(t, Spec{Name: "a", Match: "unsettled", Repeat: time.Hour, Resolve: true})
	l.event(purchase(1, events.SituationConfirming), ActionOpen)
	l.event(other(purchase(1, events.SituationConfirming), "pur_b"), ActionUpdate)
	e := purchase(2, events.SituationWorking)
	e.Purchase.State, e.Purchase.Terminal = events.StateSuperseded, true
	l.event(e, ActionSkip)
	l.last = other(purchase(1, events.SituationConfirming), "pur_b")
	l.after(time.Hour, ActionRemind)
	l.event(other(purchase(2, events.SituationDone), "pur_b"), ActionResolve)
}

// Nobody was told yet: the successor takes over how long it has lasted.
func TestSuccessorTakesADwellOver(t *testing.T) {
	l := story(t, unsettled)
	l.event(purchase(1, events.SituationConfirming), ActionWait)
	first := l.last
	l.now = l.now.Add(time.Minute)
	l.event(other(purchase(0, events.SituationWorking), "pur_b"), ActionSkip) // it does not end what the older one began
	d := l.event(other(purchase(1, events.SituationConfirming), "pur_b"), ActionWait)
	l.until(d, time.Minute)
	second := l.last
	l.last = first
	l.after(time.Minute, ActionSkip)
	l.last = second
	if d := l.after(0, ActionOpen); !d.Since.Equal(noon) {
		t.Errorf("since %s", d.Since)
	}
}

// Money that hangs now like this, now like that, is one alarm: each change is told
// once, none restarts it, and reminders count from what was told last.
func TestFlappingIsOneAlarm(t *testing.T) {
	l := story(t, unsettled)
	l.event(purchase(1, events.SituationConfirming), ActionWait)
	l.now = l.now.Add(time.Minute)
	l.event(purchase(2, events.SituationNeedsSupport), ActionOpen)
	for revision := int64(3); revision < 100; revision++ {
		situation := events.SituationConfirming
		if revision%2 == 0 {
			situation = events.SituationNeedsSupport
		}
		l.now = l.now.Add(7 * time.Minute)
		d := l.event(purchase(revision, situation), ActionUpdate)
		if !d.Since.Equal(noon) || d.Urgent != (revision%2 == 0) || len(d.Standing.Alarms) != 1 {
			t.Fatalf("revision %d: %+v", revision, d)
		}
		l.until(d, 30*time.Minute)
		d = l.after(time.Minute, ActionWait) // asked in between, by whatever cause
		l.until(d, 29*time.Minute)
	}
	l.after(29*time.Minute, ActionRemind)
	d := l.after(time.Minute, ActionWait)
	l.until(d, 29*time.Minute)
	d = l.after(29*time.Minute, ActionRemind)
	if a := d.Standing.Alarms["unsettled"]; a.Reminded != 2 || !a.Since.Equal(noon) {
		t.Errorf("alarm %+v", a)
	}
	l.event(purchase(100, events.SituationDone), ActionResolve)
	l.after(time.Hour, ActionSkip)
}

// An urgent alarm is told as such in every reminder, and not more often.
func TestUrgentIsToldOnceAndRemindedAsSuch(t *testing.T) {
	l := story(t, unsettled)
	l.event(purchase(1, events.SituationNeedsSupport), ActionOpen)
	l.after(time.Minute, ActionWait)
	if d := l.after(29*time.Minute, ActionRemind); !d.Urgent {
		t.Error("the reminder is not urgent")
	}
}

// A reading that is no news by itself is told where it makes an open alarm urgent.
func TestUrgencyIsNews(t *testing.T) {
	l := story(t, unsettled)
	l.event(purchase(1, events.SituationConfirming), ActionWait)
	l.after(2*time.Minute, ActionOpen)
	l.now = l.now.Add(time.Minute)
	if d := l.event(caused(purchase(2, events.SituationNeedsSupport), events.CauseBaseline), ActionUpdate); !d.Urgent {
		t.Error("not urgent")
	}
	l.event(caused(purchase(3, events.SituationNeedsSupport), events.CauseBaseline), ActionWait) // told already
}

// The opening could not be told: the next thing that is told opens the alarm, no
// sooner than a reminder would have come, and nobody hears of the end before.
func TestBuriedOpening(t *testing.T) {
	open := func(s Spec) *line {
		l := story(t, s)
		l.last, l.stored = purchase(1, events.SituationConfirming), l.now
		d := l.decide(false)
		if d.Action != ActionOpen {
			t.Fatalf("action %q", d.Action)
		}
		l.standing = d.Buried()
		return l
	}
	repeating := Spec{Name: "a", Match: "unsettled", Repeat: time.Hour, Resolve: true}
	t.Run("reminder", func(t *testing.T) {
		l := open(repeating)
		d := l.after(time.Minute, ActionWait)
		l.until(d, 59*time.Minute)
		if d = l.after(59*time.Minute, ActionOpen); !d.Since.Equal(noon) {
			t.Errorf("since %s", d.Since)
		}
		l.event(purchase(2, events.SituationDone), ActionResolve)
	})
	t.Run("change", func(t *testing.T) {
		l := open(repeating)
		l.now = l.now.Add(time.Minute)
		l.event(purchase(2, events.SituationNeedsSupport), ActionOpen)
	})
	t.Run("end", func(t *testing.T) {
		open(repeating).event(purchase(2, events.SituationDone), ActionSkip)
	})
	t.Run("no reminders", func(t *testing.T) {
		l := open(Spec{Name: "a", Match: "unsettled", Resolve: true})
		l.after(24*time.Hour, ActionSkip)
		l.event(purchase(2, events.SituationConfirming), ActionOpen)
	})
	t.Run("what was told before", func(t *testing.T) {
		l := open(repeating)
		l.event(purchase(2, events.SituationConfirming), ActionOpen)
		l.last = purchase(3, events.SituationConfirming)
		l.standing = l.decide(false).Buried()
		l.event(purchase(4, events.SituationDone), ActionResolve)
	})
}

func TestResolveOnlyWhereAsked(t *testing.T) {
	l := story(t, Spec{Name: "a", Match: "unsettled", Repeat: time.Hour}, Spec{Name: "rest", Match: "true"})
	l.event(purchase(1, events.SituationConfirming), ActionOpen)
	if d := l.event(purchase(2, events.SituationDone), ActionPass); d.Subscription != "rest" || len(d.Standing.Alarms) != 0 {
		t.Errorf("got %+v", d)
	}
}

// An end is told before all else, and the event that ends it is not told once more.
func TestTheEndIsNotPassedOnAsWell(t *testing.T) {
	l := story(t, Spec{Name: "a", Match: "unsettled", Resolve: true}, Spec{Name: "rest", Match: "true"})
	l.event(purchase(1, events.SituationConfirming), ActionOpen)
	l.event(purchase(2, events.SituationDone), ActionResolve)
	l.after(0, ActionSkip)
}

func TestTwoAlarmsEndOneByOne(t *testing.T) {
	l := story(t,
		Spec{Name: "support", Match: `situation == "needs_support"`, Resolve: true},
		Spec{Name: "money", Match: "unsettled", Resolve: true})
	l.event(purchase(1, events.SituationConfirming), ActionOpen)
	if d := l.event(purchase(2, events.SituationNeedsSupport), ActionOpen); d.Subscription != "support" {
		t.Errorf("got %q", d.Subscription)
	}
	d := l.event(purchase(3, events.SituationDone), ActionResolve)
	l.until(d, 0)
	if d := l.after(0, ActionResolve); len(d.Standing.Alarms) != 0 {
		t.Errorf("left over: %v", d.Standing.Alarms)
	}
	l.after(0, ActionSkip)
}

package deliver

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/sinks"
)

// succeeds is an event of a purchase that replaced another one.
func succeeds(root, purchase string, revision int64, s events.Situation) events.Event {
	e := event(purchase, revision, s)
	e.Purchase.ChainRoot = root
	return e
}

// superseded is the last word of a purchase that was replaced.
func superseded(purchase string, revision int64) events.Event {
	e := event(purchase, revision, events.SituationWorking)
	e.Purchase.State, e.Purchase.Terminal = events.StateSuperseded, true
	return e
}

// Money flaps for two days between two ways to hang: one alarm, told when it begins
// and at each change, in one thread, and one end. A restart in the middle of it
// changes nothing.
func TestTwoDaysOfFlappingAreOneAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.o.Latest = w.stream.latest
		_, stop := w.run()
		begun := time.Now()
		const changes = 2 * 24 * 6
		for r := range int64(changes) {
			s := events.SituationConfirming
			if r%2 == 1 {
				s = events.SituationNeedsSupport
			}
			w.stream.publish(event("pur_a", r+1, s))
			pass(10 * time.Minute)
			if r%50 == 49 {
				stop()
				_, stop = w.run()
			}
		}
		w.stream.publish(event("pur_a", changes+1, events.SituationDone))
		pass(24 * time.Hour)
		stop()
		want := []sinks.Kind{sinks.KindOpen}
		for range changes - 1 {
			want = append(want, sinks.KindUpdate)
		}
		if got := w.sink.kinds(); !slices.Equal(got, append(want, sinks.KindResolve)) {
			t.Fatalf("told %d: %v", len(got), got)
		}
		for i, a := range w.sink.accepted {
			if !a.n.Since.Equal(begun) {
				t.Errorf("%d is since %s", i, a.n.Since)
			}
			if i > 0 && a.n.Thread["ts"] != w.sink.accepted[i-1].n.Event.ID {
				t.Errorf("%d is in thread %v", i, a.n.Thread)
			}
			if urgent := i < changes && i%2 == 1; a.n.Urgent != urgent {
				t.Errorf("%d is urgent: %v", i, a.n.Urgent)
			}
		}
	})
}

// A week of one alarm: as many reminders as the time holds, none twice and none
// left out, whoever owns the sink meanwhile.
func TestAWeekOfReminders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		for day := range 7 {
			pass(24*time.Hour - 7*time.Minute)
			switch day % 3 {
			case 0:
				stop()
				_, stop = w.run()
			case 1:
				w.kill()
			case 2:
				w.stream.breakOff(ErrBeginAgain)
			}
			pass(7 * time.Minute)
		}
		stop()
		tries := w.sink.accepted
		if n := len(tries); n < 330 || n > 336 { // every half hour, a little more for the beginnings
			t.Errorf("%d told in a week", n)
		}
		for i := 1; i < len(tries); i++ {
			if d := tries[i].at.Sub(tries[i-1].at); d < 30*time.Minute || d > 31*time.Minute || tries[i].n.Reminded != i {
				t.Errorf("reminder %d calls itself %d and comes after %s", i, tries[i].n.Reminded, d)
			}
		}
	})
}

// The alarm goes on with the purchase that replaced the one that it began with: same
// thread, same conversation, the same since, reminded once and not by both, and the
// successor's end is its end.
func TestSuccessorCarriesTheAlarmOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.o.Latest = w.stream.latest
		_, stop := w.run()
		begun := time.Now()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		pass(3 * time.Minute)
		w.stream.publish(succeeds("pur_a", "pur_b", 1, events.SituationConfirming))
		pass(time.Second)
		w.stream.publish(superseded("pur_a", 2))
		pass(31 * time.Minute)
		stop()
		_, stop = w.run()
		pass(30 * time.Minute)
		w.stream.publish(succeeds("pur_a", "pur_b", 2, events.SituationDone))
		pass(24 * time.Hour)
		stop()
		wantKinds(t, w, sinks.KindOpen, sinks.KindUpdate, sinks.KindRemind, sinks.KindRemind, sinks.KindResolve)
		for i, a := range w.sink.accepted {
			if !a.n.Since.Equal(begun) || a.n.Key() != "pur_a" || i > 0 && a.n.Thread["ts"] != w.sink.accepted[i-1].n.Event.ID {
				t.Errorf("%d: since %s, conversation %s, thread %v", i, a.n.Since, a.n.Key(), a.n.Thread)
			}
			if i > 0 && a.n.Event.Subject != "pur_b" {
				t.Errorf("%d is about %s", i, a.n.Event.Subject)
			}
		}
	})
}

// The end goes to those who got the beginning, and to nobody else: not where the
// alarm still dwelt, was silenced, or could not be told.
func TestResolveGoesToThoseWhoWereTold(t *testing.T) {
	spec := func(dwell time.Duration) route.Spec {
		return route.Spec{Name: "unsettled", Match: "unsettled", For: dwell, Repeat: 24 * time.Hour, Resolve: true}
	}
	reject := func(n sinks.Notification) error {
		if n.Kind == sinks.KindOpen {
			return &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender}
		}
		return nil
	}
	for name, tt := range map[string]struct {
		dwell   time.Duration
		silence string
		answer  func(sinks.Notification) error
		want    []sinks.Kind
	}{
		"told":           {dwell: time.Minute, want: []sinks.Kind{sinks.KindOpen, sinks.KindResolve}},
		"dwelling":       {dwell: 2 * time.Hour},
		"silenced":       {dwell: time.Minute, silence: "true"},
		"silence misses": {dwell: time.Minute, silence: `merchant.name == "other"`, want: []sinks.Kind{sinks.KindOpen, sinks.KindResolve}},
		"buried":         {dwell: time.Minute, answer: reject},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, spec(tt.dwell))
				w.sink.answers(tt.answer)
				if tt.silence != "" {
					list := []events.Silence{{ID: "s", Match: tt.silence, Until: time.Now().Add(3 * time.Hour), Why: "known"}}
					w.o.Silences = func() []events.Silence { return list }
				}
				_, stop := w.run()
				w.stream.publish(event("pur_a", 1, events.SituationConfirming))
				pass(time.Hour)
				w.stream.publish(event("pur_a", 2, events.SituationDone))
				pass(48 * time.Hour)
				stop()
				wantKinds(t, w, tt.want...)
			})
		})
	}
}

// A silence begins with the message that would have told already planned and
// waiting for its turn: it is not told.
func TestSilenceReachesWhatWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.o.MaxRate = 0.1 // ten seconds for each
		var list []events.Silence
		w.o.Silences = func() []events.Silence { w.mu.Lock(); defer w.mu.Unlock(); return list }
		for _, p := range []string{"pur_a", "pur_b"} {
			w.stream.publish(event(p, 1, events.SituationNeedsSupport))
		}
		_, stop := w.run()
		pass(5 * time.Second)
		w.mu.Lock()
		list = []events.Silence{{ID: "s", Match: "true", Until: time.Now().Add(time.Hour), Why: "known"}}
		w.mu.Unlock()
		pass(30 * time.Minute)
		stop()
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_a-0-1-0"}) {
			t.Errorf("told %v", got)
		}
	})
}

// A silence that is there when the sink begins holds from the first moment.
func TestSilenceHoldsFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.o.Silences = func() []events.Silence {
			return []events.Silence{{ID: "s", Match: "true", Until: time.Now().Add(time.Hour), Why: "known"}}
		}
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		_, stop := w.run()
		pass(100 * time.Millisecond)
		stop()
		wantKinds(t, w)
	})
}

// Where the stream cannot say what is newest, what is at hand is told: not knowing
// is no reason to be silent.
func TestNewestNotKnownIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.o.Latest = func(context.Context, string, string) (*events.Event, uint64, error) {
			return nil, 99, context.DeadlineExceeded
		}
		_, stop := w.run()
		pass(time.Second)
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		pass(time.Second)
		stop()
		wantKinds(t, w, sinks.KindOpen)
	})
}

// While the end of an alarm cannot be told nobody is reminded that it lasts.
func TestNoReminderOfWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, route.Spec{Name: "unsettled", Match: "unsettled", Repeat: 10 * time.Second, Resolve: true})
		fails := 2
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.ID == "pur_a-0-2-0" && fails > 0 {
				fails--
				return errServer
			}
			return nil
		})
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		pass(15 * time.Second)
		w.stream.publish(event("pur_a", 2, events.SituationDone)) // tried at once, after 5 s, after 35 s
		pass(time.Minute)
		stop()
		wantKinds(t, w, sinks.KindOpen, sinks.KindRemind, sinks.KindResolve)
	})
}

// The end that failed gave way to a newer event: that one tells it.
func TestSupersededEndIsToldByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, route.Spec{Name: "unsettled", Match: "unsettled", Resolve: true})
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.ID == "pur_a-0-2-0" {
				return errServer
			}
			return nil
		})
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		w.stream.publish(event("pur_a", 2, events.SituationDone))
		w.stream.publish(event("pur_a", 3, events.SituationDone))
		pass(time.Hour)
		stop()
		wantKinds(t, w, sinks.KindOpen, sinks.KindResolve)
		if dead := w.graves.all(); len(dead) != 1 || dead[0].Reason != string(CauseSuperseded) {
			t.Errorf("buried %+v", dead)
		}
	})
}

// An alarm that was due during an outage is told once it is over, and reminded of a
// full interval after that.
func TestReminderCountsFromWhatWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		begun := time.Now()
		w.sink.answers(func(sinks.Notification) error {
			if time.Since(begun) < 2*time.Hour {
				return errDial
			}
			return nil
		})
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		pass(2*time.Hour + 40*time.Minute)
		stop()
		wantKinds(t, w, sinks.KindOpen, sinks.KindRemind)
		if told := w.sink.accepted; len(told) == 2 {
			if d := told[1].at.Sub(told[0].at); d < 30*time.Minute || d > 31*time.Minute {
				t.Errorf("reminded after %s", d)
			}
		}
	})
}

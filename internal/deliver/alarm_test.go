package deliver

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/sinks"
)

func alarmed(t *testing.T) *world {
	w := newWorld(t, route.Spec{
		Name: "unsettled", Match: "unsettled", For: 2 * time.Minute, Urgent: `situation == "needs_support"`,
		Repeat: 30 * time.Minute, Resolve: true,
	})
	w.o.NewestOnly, w.o.Concurrency = true, 1
	return w
}

func wantKinds(t *testing.T, w *world, want ...sinks.Kind) {
	t.Helper()
	if got := w.sink.kinds(); !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

func TestAlarmIsToldRemindedAndResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		l, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		pass(119 * time.Second)
		wantKinds(t, w)
		if st := l.Status(); st.Waiting != 1 || st.InHand != 0 || !w.stream.acked(1) {
			t.Errorf("a dwelling message is not in hand: %+v", st)
		}
		pass(2 * time.Second)
		wantKinds(t, w, sinks.KindOpen)
		pass(31 * time.Minute)
		wantKinds(t, w, sinks.KindOpen, sinks.KindRemind)
		w.stream.publish(event("pur_a", 2, events.SituationNeedsSupport))
		pass(time.Second)
		w.stream.publish(event("pur_a", 3, events.SituationDone))
		pass(5 * time.Hour)
		stop()
		wantKinds(t, w, sinks.KindOpen, sinks.KindRemind, sinks.KindUpdate, sinks.KindResolve)
		update := w.sink.accepted[2].n
		if !update.Urgent || update.Subscription != "unsettled" || update.Thread["ts"] == "" || update.Since.IsZero() {
			t.Errorf("update %+v", update)
		}
		if l.Status().Waiting != 0 {
			t.Errorf("still waiting: %+v", l.Status())
		}
	})
}

func TestAlarmOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		pass(time.Minute)
		stop()
		begun := time.Now()
		_, stop = w.run()
		pass(3 * time.Minute)
		wantKinds(t, w, sinks.KindOpen)
		if d := w.sink.accepted[0].at.Sub(begun); d < 50*time.Second || d > 70*time.Second {
			t.Errorf("told %s after the restart", d)
		}
		stop()
		_, stop = w.run()
		pass(20 * time.Minute)
		wantKinds(t, w, sinks.KindOpen) // not once more
		pass(20 * time.Minute)
		wantKinds(t, w, sinks.KindOpen, sinks.KindRemind)
		stop()
	})
}

// A new rule sees what hangs now, although its message was settled long ago.
func TestNewRuleSeesWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, route.Spec{Name: "none", Match: "false"})
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		w.stream.publish(event("pur_b", 1, events.SituationDone))
		pass(time.Hour)
		stop()
		w.o.Set = alarmed(t).o.Set
		_, stop = w.run()
		pass(time.Minute)
		stop()
		wantKinds(t, w, sinks.KindOpen) // it has hung for longer than the dwell already
	})
}

// Emptied standings: the alarm is told again rather than never.
func TestEmptiedStoreTellsOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		pass(time.Minute)
		stop()
		for k := range w.store.data {
			if k != "ops/"+sinkKey {
				delete(w.store.data, k)
			}
		}
		_, stop = w.run()
		pass(10 * time.Minute)
		stop()
		wantKinds(t, w, sinks.KindOpen, sinks.KindOpen)
	})
}

// 500 alarms were told. A restart tells none of them again; after the store was
// emptied each is told once more, evenly, and what really changes comes through.
func TestB32_RestartDoesNotTellEverythingAgain(t *testing.T) {
	const purchases = 500
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t,
			route.Spec{Name: "unsettled", Match: "unsettled", Resolve: true}, route.Spec{Name: "rest", Match: "true"})
		w.o.Concurrency = 16
		_, stop := w.run()
		for p := range purchases {
			s := events.SituationConfirming
			if p%2 == 1 {
				s = events.SituationWorking // passed on
			}
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, s))
		}
		pass(time.Minute)
		stop()
		_, stop = w.run()
		pass(time.Minute)
		stop()
		if n := len(w.sink.got()); n != purchases {
			t.Fatalf("%d told, and %d by a restart", purchases, n-purchases)
		}
		clear(w.store.data)
		_, stop = w.run()
		pass(time.Minute)
		again := w.sink.tried()[purchases:]
		seen, second := map[string]int{}, 0
		for i, tr := range again {
			if seen[tr.n.Event.Subject]++; seen[tr.n.Event.Subject] > 1 {
				t.Errorf("%s is told %d times more", tr.n.Event.Subject, seen[tr.n.Event.Subject])
			}
			n := 0
			for n < len(again)-i && again[i+n].at.Sub(tr.at) < time.Second {
				n++
			}
			second = max(second, n)
		}
		if len(again) != purchases/2 || second > 50 {
			t.Errorf("%d told again, up to %d in a second", len(again), second)
		}
		w.stream.publish(event("pur_1", 2, events.SituationReady))
		w.stream.publish(event("pur_2", 2, events.SituationDone))
		pass(time.Hour)
		stop()
		got := w.sink.got()[purchases+len(again):]
		slices.Sort(got)
		if !slices.Equal(got, []string{"pur_1-0-2-0", "pur_2-0-2-0"}) {
			t.Errorf("what changed: %v", got)
		}
	})
}

// A backlog is told in its order: what the rebuilt waits know does not overtake it.
func TestRebuiltWaitsDoNotOvertakeTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.o.NewestOnly = false
		for r := range int64(3) {
			w.stream.publish(event("pur_a", r+1, events.SituationNeedsSupport))
		}
		_, stop := w.run()
		pass(time.Minute)
		stop()
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_a-0-1-0", "pur_a-0-2-0", "pur_a-0-3-0"}) {
			t.Errorf("told %v", got)
		}
		wantKinds(t, w, sinks.KindOpen, sinks.KindUpdate, sinks.KindUpdate)
	})
}

// The same while the backlog is slow to come.
func TestRebuiltWaitsLetASlowBacklogGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withRest(t)
		w.sink.takes = time.Minute
		for _, p := range []string{"pur_1", "pur_2", "pur_3"} {
			w.stream.publish(event(p, 1, events.SituationWorking))
		}
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		w.stream.publish(event("pur_a", 2, events.SituationNeedsSupport))
		_, stop := w.run()
		pass(10 * time.Minute)
		stop()
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_1-0-1-0", "pur_2-0-1-0", "pur_3-0-1-0", "pur_a-0-1-0", "pur_a-0-2-0"}) {
			t.Errorf("told %v", got)
		}
	})
}

// A stream that is silent for a while looks like one that has no more; what comes
// later is news all the same.
func TestRebuiltWaitsSettleNothingThatIsStillToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withRest(t)
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		w.stream.publish(event("pur_b", 1, events.SituationNeedsSupport))
		w.stream.silent = make(chan struct{})
		_, stop := w.run()
		pass(time.Minute)
		wantKinds(t, w, sinks.KindOpen)
		close(w.stream.silent)
		pass(time.Minute)
		stop()
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_b-0-1-0", "pur_a-0-1-0"}) {
			t.Errorf("told %v", got)
		}
	})
}

// withRest is alarmed, and passes on what is not about money, in full.
func withRest(t *testing.T) *world {
	w := newWorld(t,
		route.Spec{Name: "unsettled", Match: "unsettled", Urgent: `situation == "needs_support"`, For: 2 * time.Minute},
		route.Spec{Name: "rest", Match: "true"})
	w.o.Concurrency = 1
	return w
}

// An event left out for a newer one was not told: the newer one opens the alarm,
// and the dwell counts from the older.
func TestAnEventLeftOutOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.o.Latest = w.stream.latest
		begun := time.Now()
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		pass(time.Second)
		w.stream.publish(event("pur_a", 2, events.SituationNeedsSupport))
		_, stop := w.run()
		pass(time.Minute)
		stop()
		wantKinds(t, w, sinks.KindOpen)
		if since := w.sink.accepted[0].n.Since; !since.Equal(begun) {
			t.Errorf("since %s", since)
		}
	})
}

func TestSilencePostponesAndItsEndIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		list := []events.Silence{{ID: "s", Match: "true", Until: time.Now().Add(3 * time.Hour)}}
		w.o.Silences = func() []events.Silence {
			w.mu.Lock()
			defer w.mu.Unlock()
			return list
		}
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		pass(time.Hour)
		wantKinds(t, w)
		if got := w.outcomes("pur_a-0-1-0"); !slices.Equal(got, []string{OutcomeWaiting}) {
			t.Errorf("outcomes %v", got)
		}
		w.mu.Lock()
		list = nil // removed before its time
		w.mu.Unlock()
		pass(time.Minute)
		stop()
		wantKinds(t, w, sinks.KindOpen)
	})
}

// A process reads the silences once a second; from a change to the last notifier
// that heeds it two seconds may pass.
func TestSilencesHoldWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, route.Spec{Name: "unsettled", Match: "unsettled", Repeat: 100 * time.Millisecond})
		var stored, read []events.Silence
		go func() { // as the process does
			for range 60 {
				<-time.After(time.Second)
				w.mu.Lock()
				read = stored
				w.mu.Unlock()
			}
		}()
		w.o.Silences = func() []events.Silence { w.mu.Lock(); defer w.mu.Unlock(); return read }
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		pass(3010 * time.Millisecond)
		tell := func(list ...events.Silence) { w.mu.Lock(); defer w.mu.Unlock(); stored = list }
		tell(events.Silence{ID: "s", Match: "true", Until: time.Now().Add(time.Hour), Why: "known"})
		pass(2 * time.Second)
		before := len(w.sink.kinds())
		pass(10 * time.Second)
		if after := len(w.sink.kinds()); before < 20 || after != before {
			t.Errorf("%d told before, %d while silenced", before, after-before)
		}
		tell()
		pass(2500 * time.Millisecond)
		if after := len(w.sink.kinds()); after == before {
			t.Error("nothing is told after the silence was removed")
		}
		stop()
		pass(time.Minute) // the reader ends
	})
}

// An alarm that cannot be told is tried by the schedule, buried in the end, and
// its reminders go on.
func TestAlarmThatCannotBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.sink.answers(func(sinks.Notification) error { return errServer })
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		pass(20 * time.Minute) // dwell, then tries at 0, 5 s, 35 s, 155 s, 755 s
		if n := len(w.sink.tried()); n != 5 {
			t.Errorf("%d tries", n)
		}
		if dead := w.graves.all(); len(dead) != 1 || dead[0].Attempts != 5 || len(dead[0].Event) == 0 {
			t.Errorf("buried %+v", dead)
		}
		w.sink.answers(nil)
		pass(31 * time.Minute)
		stop()
		wantKinds(t, w, sinks.KindOpen) // the first that it gets
	})
}

// Tries of an alarm that the clock opened are counted across restarts as well.
func TestAlarmTriesAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.sink.answers(func(sinks.Notification) error { return errServer })
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		pass(2*time.Minute + 10*time.Second)
		if n := len(w.sink.tried()); n != 2 {
			t.Fatalf("%d tries", n)
		}
		stop()
		_, stop = w.run()
		pass(28 * time.Minute)
		stop()
		if n := len(w.sink.tried()); n != 5 || len(w.graves.all()) != 1 {
			t.Errorf("%d tries, %d buried", n, len(w.graves.all()))
		}
	})
}

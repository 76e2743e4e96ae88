package deliver

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

func TestNewRefuses(t *testing.T) {
	full := newWorld(t).o
	for name, spoil := range map[string]func(*Options){
		"no name": func(o *Options) { o.Name = "" }, "no sink": func(o *Options) { o.Sink = nil },
		"no source": func(o *Options) { o.Source = nil }, "no set": func(o *Options) { o.Set = nil },
	} {
		o := full
		spoil(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(full); err != nil {
		t.Error(err)
	}
	if _, err := New(full); err != nil { // the numbers are there already: a reload
		t.Error(err)
	}
}

// Everything arrives, each purchase in its order, and is acknowledged.
func TestDeliversInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.takes = 100 * time.Millisecond
		for r := range int64(5) {
			for _, p := range []string{"pur_a", "pur_b", "pur_c"} {
				w.stream.publish(event(p, r, events.SituationWorking))
			}
		}
		_, stop := w.run()
		pass(5 * time.Second)
		stop()
		perPurchase(t, w.sink.accepted, 5)
		if left := w.stream.unsettled(); len(left) != 0 {
			t.Errorf("not acknowledged: %v", left)
		}
		if w.sink.most > 4 || w.sink.most < 3 || w.stream.most > InHand*w.o.Concurrency {
			t.Errorf("%d at once, %d in hand", w.sink.most, w.stream.most)
		}
		if got := w.metric("herald_deliver_sent_total"); got != 15 {
			t.Errorf("sent %v", got)
		}
		if got := w.metric("herald_deliver_latency_seconds"); got != 15 {
			t.Errorf("measured %v", got)
		}
		if w.leases.names[0] != "sink/ops" {
			t.Errorf("lease %q", w.leases.names[0])
		}
	})
}

func perPurchase(t *testing.T, accepted []try, each int) {
	t.Helper()
	seen := map[string][]int64{}
	for _, a := range accepted {
		seen[a.n.Event.Subject] = append(seen[a.n.Event.Subject], a.n.Event.Purchase.Reading.Revision)
	}
	for p, revisions := range seen {
		if !slices.IsSorted(revisions) || len(slices.Compact(revisions)) != each {
			t.Errorf("%s: accepted %v", p, revisions)
		}
	}
}

func TestSinkSeesOnlyItsPersonalFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Personal = []string{events.PersonalDescription}
		e := event("pur_0123456789abcdef0123456789abcdef", 1, events.SituationWorking)
		e.Purchase.Description = "red shoes"
		e.Purchase.Question = &events.Question{ID: "q", Prompt: "which size"}
		w.stream.publish(e)
		_, stop := w.run()
		pass(time.Second)
		stop()
		n := w.sink.accepted[0].n
		if n.Event.Purchase.Description != "red shoes" || n.Event.Purchase.Question.Prompt != "" {
			t.Errorf("event %+v", n.Event.Purchase)
		}
		if stored := n.Document.Bytes(); stored != nil {
			t.Errorf("the stored document holds more: %s", stored)
		}
	})
}

func TestB28_OlderRevisionIsNeverAcceptedAfterANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fails := 2
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.ID == "pur_a-0-2-0" && fails > 0 {
				fails--
				return errServer
			}
			return nil
		})
		begun := time.Now()
		_, stop := w.run()
		w.stream.publish(event("pur_a", 2, events.SituationWorking))
		pass(time.Second)
		w.stream.publish(event("pur_a", 3, events.SituationWorking))
		w.stream.publish(event("pur_a", 4, events.SituationWorking))
		w.stream.publish(event("pur_b", 1, events.SituationWorking))
		pass(time.Second)
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_b-0-1-0"}) {
			t.Errorf("after %s: %v", time.Since(begun), got)
		}
		pass(time.Minute)
		stop()
		if got := w.sink.got()[1:]; !slices.Equal(got, []string{"pur_a-0-2-0", "pur_a-0-3-0", "pur_a-0-4-0"}) {
			t.Errorf("accepted %v", got)
		}
		if len(w.graves.all()) != 0 || len(w.stream.unsettled()) != 0 {
			t.Errorf("buried %v, unsettled %v", w.graves.all(), w.stream.unsettled())
		}
	})
}

// After three tries the older event gives way.
func TestSupersededAfterThreeTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.ID == "pur_a-0-1-0" {
				return errServer
			}
			return nil
		})
		_, stop := w.run()
		begun := time.Now()
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		w.stream.publish(event("pur_a", 2, events.SituationWorking))
		pass(40 * time.Second)
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_a-0-2-0"}) {
			t.Fatalf("accepted %v", got)
		}
		if at := w.sink.accepted[0].at.Sub(begun); at < 35*time.Second || at > 37*time.Second {
			t.Errorf("waited %s", at)
		}
		dead := w.graves.all()
		if len(dead) != 1 || dead[0].Reason != string(CauseSuperseded) || dead[0].Attempts != 3 || len(dead[0].Event) == 0 || dead[0].Sequence != 1 {
			t.Errorf("buried %+v", dead)
		}
		pass(5 * time.Minute) // what was handed back comes again and is absorbed
		stop()
		if left := w.stream.unsettled(); len(left) != 0 {
			t.Errorf("unsettled %v", left)
		}
		if n := len(w.sink.tried()); n != 4 {
			t.Errorf("%d tries", n)
		}
	})
}

// A newer event that comes when the older one has failed three times goes at once.
func TestSupersededByALaterEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.ID == "pur_a-0-1-0" {
				return errServer
			}
			return nil
		})
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		pass(time.Minute)
		w.stream.publish(event("pur_a", 2, events.SituationWorking))
		pass(time.Second)
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_a-0-2-0"}) {
			t.Errorf("accepted %v", got)
		}
		pass(10 * time.Minute)
		stop()
		if len(w.graves.all()) != 1 || len(w.stream.unsettled()) != 0 {
			t.Errorf("buried %d, unsettled %v", len(w.graves.all()), w.stream.unsettled())
		}
		if w.metric("herald_deliver_repeats_absorbed_total") != 1 { // it had been handed back, and came again
			t.Error("no repeat absorbed")
		}
	})
}

func TestPaceOfASink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.MaxRate = 1
		for p := range 5 {
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(10 * time.Second)
		stop()
		tries := w.sink.tried()
		for i := 1; i < len(tries); i++ {
			if d := tries[i].at.Sub(tries[i-1].at); d < time.Second || d > 1100*time.Millisecond {
				t.Errorf("try %d after %s", i, d)
			}
		}
		if len(tries) != 5 {
			t.Errorf("%d tries", len(tries))
		}
	})
}

func TestNewestOnlySink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.NewestOnly, w.o.Concurrency = true, 1
		w.o.Latest = w.stream.latest
		for r := range int64(10) {
			w.stream.publish(event("pur_a", r, events.SituationWorking))
		}
		w.stream.publish(notice("one"))
		w.stream.publish(notice("two"))
		_, stop := w.run()
		pass(time.Second)
		stop()
		got := w.sink.got()
		newest := slices.Index(got, "pur_a-0-9-0")
		if len(got) != 3 || newest < 0 || !slices.Contains(got, "host-a-parked-one") || !slices.Contains(got, "host-a-parked-two") {
			t.Fatalf("accepted %v", got)
		}
		if held := w.sink.accepted[newest].n.Held; held != 9 {
			t.Errorf("held %d", held)
		}
		if len(w.stream.unsettled()) != 0 {
			t.Errorf("unsettled %v", w.stream.unsettled())
		}
		if got := w.outcomes("pur_a-0-3-0"); !slices.Equal(got, []string{OutcomeSuperseded}) {
			t.Errorf("outcomes %v", got)
		}
	})
}

// An event that is told to nobody does not take the place of one that is.
func TestStillReplacesNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.NewestOnly, w.o.Latest = true, w.stream.latest
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		still := event("pur_a", 2, events.SituationConfirming)
		still.Purchase.Reading.Cause = events.CauseStill
		w.stream.publish(still)
		_, stop := w.run()
		pass(time.Second)
		stop()
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_a-0-1-0"}) || len(w.stream.unsettled()) != 0 {
			t.Errorf("accepted %v", got)
		}
	})
}

// One purchase at which the receiver always fails does not keep the sink down.
func TestAPoisonedPurchaseDoesNotKeepTheSinkDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Concurrency = 2
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.Subject == "pur_bad" {
				return &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonRateLimit, After: time.Second}
			}
			return nil
		})
		for r := range int64(4) { // as many as are taken in hand
			w.stream.publish(event("pur_bad", r+1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(time.Minute)
		for p := range 20 {
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
		}
		pass(30 * time.Minute)
		stop()
		if got := w.sink.got(); len(got) != 20 {
			t.Errorf("accepted %d", len(got))
		}
	})
}

func TestNewSinkBeginsWithTheNewestUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		clear(w.store.data)
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		w.stream.publish(event("pur_a", 2, events.SituationWorking))
		w.stream.publish(event("pur_b", 1, events.SituationDone))
		w.stream.publish(notice("old"))
		_, stop := w.run()
		pass(time.Second)
		w.stream.publish(event("pur_b", 2, events.SituationDone))
		w.stream.publish(notice("new"))
		pass(time.Second)
		stop()
		want := []string{"pur_a-0-2-0", "pur_b-0-2-0", "host-a-parked-new"}
		got := w.sink.got()
		// The newest message of the notices' subject is not among the purchases', so it is told.
		got = slices.DeleteFunc(got, func(id string) bool { return id == "host-a-parked-old" })
		slices.Sort(got[1:])
		slices.Sort(want[1:])
		if !slices.Equal(got, want) {
			t.Errorf("accepted %v", got)
		}
		_, stop = w.run()
		pass(time.Second)
		stop()
		if !slices.Equal(w.stream.begins, []Start{StartNewest, StartResume}) {
			t.Errorf("begins %v", w.stream.begins)
		}
	})
}

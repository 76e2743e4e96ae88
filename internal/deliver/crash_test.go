package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// The receiver accepted and we died before we could write it down: the same id
// comes once more, and nothing else does.
func TestKilledBetweenSendAndStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Concurrency = 1
		w.sink.after = func(n sinks.Notification) {
			if n.Event.ID == "pur_a-0-2-0" && w.stream.begins[0] == StartResume && len(w.stream.begins) == 1 {
				w.kill()
			}
		}
		for r := range int64(4) {
			w.stream.publish(event("pur_a", r+1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(10 * time.Second)
		stop()
		want := []string{"pur_a-0-1-0", "pur_a-0-2-0", "pur_a-0-2-0", "pur_a-0-3-0", "pur_a-0-4-0"}
		if got := w.sink.got(); !slices.Equal(got, want) {
			t.Errorf("accepted %v", got)
		}
		if len(w.stream.unsettled()) != 0 {
			t.Errorf("unsettled %v", w.stream.unsettled())
		}
		if got := w.outcomes("pur_a-0-2-0"); !slices.Equal(got, []string{OutcomeSent}) {
			t.Errorf("outcomes %v", got) // only its owner says so
		}
	})
}

// We wrote it down and died before the acknowledgement: nothing comes twice.
func TestKilledBetweenStandingAndAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Concurrency = 1
		killed := false
		w.store.beforeWrite = func(m map[string]events.Standing) {
			if m["pur_a"].Settled == 2 && !killed {
				killed = true
				w.kill() // the write goes through all the same
			}
		}
		for r := range int64(4) {
			w.stream.publish(event("pur_a", r+1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(10 * time.Second)
		stop()
		want := []string{"pur_a-0-1-0", "pur_a-0-2-0", "pur_a-0-3-0", "pur_a-0-4-0"}
		if got := w.sink.got(); !killed || !slices.Equal(got, want) {
			t.Errorf("accepted %v", got)
		}
		if w.metric("herald_deliver_repeats_absorbed_total") == 0 || len(w.stream.unsettled()) != 0 {
			t.Errorf("not absorbed, or unsettled %v", w.stream.unsettled())
		}
	})
}

// A lost lease cuts sends short; nothing is written or settled after it.
func TestLostLeaseRecordsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.takes = 10 * time.Second
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		_, stop := w.run()
		pass(time.Second)
		writes := w.store.writes
		w.leases.err = errors.New("held by another")
		w.kill()
		pass(15 * time.Second)
		if w.store.writes != writes || w.stream.acked(1) || len(w.sink.got()) != 0 || w.sink.running != 0 {
			t.Errorf("writes %d, accepted %v, running %d", w.store.writes-writes, w.sink.got(), w.sink.running)
		}
		if len(w.outcomes("pur_a-0-1-0")) != 0 {
			t.Errorf("outcomes %v", w.outcomes("pur_a-0-1-0"))
		}
		stop()
	})
}

// The lease is lost while what was accepted waits for more to be written with it: the
// record is somebody else's now.
func TestLostLeaseWritesNothingThatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.answers(func(n sinks.Notification) error {
			<-time.After(time.Millisecond)
			if n.Event.Subject == "pur_b" {
				<-time.After(time.Second) // sends are under way, so records may wait
			}
			return nil
		})
		_, stop := w.run()
		pass(time.Second)
		w.stream.publish(event("pur_b", 1, events.SituationWorking))
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		pass(time.Millisecond + linger/2)
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_a-0-1-0"}) || w.store.get("pur_a").Settled != 0 {
			t.Fatalf("accepted %v, standing %+v", got, w.store.get("pur_a"))
		}
		w.leases.err = errors.New("held by another")
		w.kill()
		pass(10 * time.Second)
		if st := w.store.get("pur_a"); st.Settled != 0 || w.stream.acked(2) {
			t.Errorf("standing %+v, acknowledged %v", st, w.stream.acked(2))
		}
		stop()
	})
}

func TestB42_ShutdownWithWorkInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Concurrency, w.o.Grace = 1, 10*time.Second
		w.sink.takes = 3 * time.Second
		for p := range 50 {
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
		}
		l, stop := w.run()
		pass(time.Second)
		begun := time.Now()
		stop()
		if d := time.Since(begun); d != 2*time.Second {
			t.Errorf("stopped after %s", d)
		}
		if l.Status().State != StateStopped {
			t.Errorf("state %q", l.Status().State)
		}
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_0-0-1-0"}) || !w.stream.acked(1) {
			t.Errorf("accepted %v", got)
		}
		if !slices.IsSorted(w.stream.naks) || len(w.stream.naks) == 0 {
			t.Errorf("handed back %v", w.stream.naks)
		}
		w.sink.takes = 0
		_, stop = w.run()
		pass(time.Minute)
		stop()
		if got := w.sink.got(); len(got) != 50 || slices.Contains(got[1:], "pur_0-0-1-0") {
			t.Errorf("accepted %v", got)
		}
	})
}

// What is in hand when the loop stops goes back in the order of the stream.
func TestStopHandsBackInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Concurrency = 8
		w.sink.takes = 3 * time.Second
		for p := range 50 {
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(time.Second)
		stop()
		if n := w.stream.naks; len(n) != (InHand-1)*8 || !slices.IsSorted(n) {
			t.Errorf("handed back %v", n)
		}
	})
}

// draining is a source that counts how often it is drained.
type draining struct {
	*fakeStream
	drained atomic.Int32
}

func (d *draining) Drain(context.Context) error { d.drained.Add(1); return nil }

// What was fetched ahead of the loop is handed back by whoever fetched it, at a stop
// only: after any other end it comes again by itself.
func TestStopDrainsTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := &draining{fakeStream: w.stream}
		w.o.Source = d
		_, stop := w.run()
		pass(time.Second)
		w.stream.breakOff(ErrBeginAgain)
		pass(time.Second)
		w.kill()
		pass(time.Second)
		if n := d.drained.Load(); n != 0 {
			t.Errorf("drained %d times before the stop", n)
		}
		stop()
		if n := d.drained.Load(); n != 1 {
			t.Errorf("drained %d times", n)
		}
	})
}

// A lease that ends during a stop leaves nothing to hand back: it is another's.
func TestLeaseLostWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.takes = 10 * time.Second
		for p := range 8 {
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(time.Second)
		time.AfterFunc(time.Second, w.kill)
		stop()
		if len(w.stream.naks) != 0 || len(w.stream.unsettled()) != 8 || len(w.sink.got()) != 0 {
			t.Errorf("handed back %v, unsettled %v, accepted %v", w.stream.naks, w.stream.unsettled(), w.sink.got())
		}
	})
}

// A receiver slower than the grace is cut off, and its message comes again.
func TestGraceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Grace = 5 * time.Second
		w.sink.takes = time.Minute
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		_, stop := w.run()
		pass(time.Second)
		begun := time.Now()
		stop()
		if d := time.Since(begun); d != 5*time.Second {
			t.Errorf("stopped after %s", d)
		}
		if st := w.store.get("pur_a"); len(st.Tries) != 0 || w.stream.acked(1) || len(w.stream.naks) != 1 {
			t.Errorf("standing %+v, handed back %v", st, w.stream.naks)
		}
	})
}

func TestB31_StoreOutOfReachIsNotAlreadySaid(t *testing.T) {
	away := errors.New("connection refused")
	for name, trouble := range map[string][2]error{"all": {away, away}, "no writes": {nil, away}, "no reads": {away, nil}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l, stop := w.run()
				w.stream.publish(event("pur_a", 1, events.SituationWorking))
				pass(time.Second)
				w.store.trouble(trouble[0], trouble[1])
				for p := range 10 {
					w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
				}
				w.stream.publish(event("pur_a", 2, events.SituationWorking))
				pass(10 * time.Second)
				if got := w.sink.got(); len(got) != 12 {
					t.Errorf("accepted %v", got)
				}
				if w.metric("herald_deliver_store_errors_total") == 0 || l.Status().StoreError == "" {
					t.Errorf("trouble not shown: %+v", l.Status())
				}
				w.stream.breakOff(ErrBeginAgain) // and what is remembered absorbs repeats
				pass(10 * time.Second)
				w.store.trouble(nil, nil)
				pass(20 * time.Second)
				if got := w.sink.got(); len(got) != 12 {
					t.Errorf("accepted %v", got)
				}
				if st := w.store.get("pur_3"); st.Settled == 0 || l.Status().StoreError != "" {
					t.Errorf("not written in the end: %+v, %+v", st, l.Status())
				}
				if st := w.store.get("pur_a"); st.Settled != 12 || st.LastID != "pur_a-0-2-0" {
					t.Errorf("standing %+v", st)
				}
				stop()
			})
		})
	}
}

// What could not be read is not written over: it is read first, and joined.
func TestUnreadStandingIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.data["ops/pur_a"] = mustJSON(events.Standing{
			Settled: 0, Stream: w.stream.created, Alarms: map[string]events.Alarm{"elsewhere": {Reminded: 7}},
		})
		w.store.trouble(errors.New("away"), errors.New("away"))
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		_, stop := w.run()
		pass(time.Second)
		w.store.trouble(nil, nil)
		pass(20 * time.Second)
		stop()
		if st := w.store.get("pur_a"); st.Settled != 1 || st.Alarms["elsewhere"].Reminded != 7 {
			t.Errorf("standing %+v", st)
		}
	})
}

// What was learned while the store could not be read is laid over what it holds.
func TestWhatWasLearnedWhileTheStoreWasAwayIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		w.store.trouble(errors.New("away"), errors.New("away"))
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.Subject == "pur_b" {
				return errServer
			}
			return nil
		})
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationNeedsSupport))
		w.stream.publish(event("pur_b", 1, events.SituationNeedsSupport))
		pass(10 * time.Second)
		w.store.trouble(nil, nil)
		pass(15 * time.Second)
		w.kill() // nothing more is written
		pass(time.Millisecond)
		a, b := w.store.get("pur_a"), w.store.get("pur_b")
		if a.Alarms["unsettled"].Opened.IsZero() || a.Thread["ts"] != "pur_a-0-1-0" {
			t.Errorf("the alarm that was told: %+v", a)
		}
		if b.Tries["pur_b-0-1-0"].Count != 2 {
			t.Errorf("the tries that failed: %+v", b)
		}
		stop()
	})
}

// What a slow receiver has in hand is not given to another meanwhile.
func TestB27_SlowReceiverGetsEachOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Concurrency = 1
		w.sink.takes = 50 * time.Second // longer than the ack wait
		for p := range 4 {
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(5 * time.Minute)
		stop()
		if n := len(w.sink.tried()); n != 4 || len(w.sink.got()) != 4 {
			t.Errorf("%d tries", n)
		}
		if len(w.stream.begins) != 1 || w.stream.state[4].count != 1 {
			t.Errorf("handed out %d times", w.stream.state[4].count)
		}
	})
}

// Handed over, the loop ends as at a stop, under the lease that it still has, and
// asks for the sink again.
func TestHandOverIsGraceful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.takes = 3 * time.Second
		for i := range int64(3) {
			w.stream.publish(event("pur_a", i, events.SituationWorking))
		}
		_, stop := w.run()
		pass(time.Second)
		w.leases.handOver()
		pass(time.Second)
		if n := w.leases.asked(); n != 1 {
			t.Errorf("given up with a send under way: asked for %d times", n)
		}
		pass(time.Minute)
		stop()
		if n := w.leases.asked(); n != 2 {
			t.Errorf("asked for %d times", n)
		}
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_a-0-0-0", "pur_a-0-1-0", "pur_a-0-2-0"}) {
			t.Errorf("accepted %v", got)
		}
		if left := w.stream.unsettled(); len(left) != 0 {
			t.Errorf("not acknowledged: %v", left)
		}
	})
}

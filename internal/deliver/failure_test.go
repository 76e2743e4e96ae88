package deliver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/sinks"
)

func TestB20_TriesAreCountedAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Schedule = []time.Duration{time.Second, time.Second, time.Second, time.Second}
		w.sink.answers(func(sinks.Notification) error { return errServer })
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		_, stop := w.run()
		pass(1500 * time.Millisecond)
		if n := len(w.sink.tried()); n != 2 {
			t.Fatalf("%d tries before the restart", n)
		}
		stop()
		_, stop = w.run()
		pass(10 * time.Second)
		dead := w.graves.all()
		if n := len(w.sink.tried()); n != 5 || len(dead) != 1 {
			t.Fatalf("%d tries, %d buried", n, len(dead))
		}
		if dead[0].Reason != string(CauseExhausted) || dead[0].Attempts != 5 || !strings.Contains(dead[0].Detail, "server_error (500)") {
			t.Errorf("buried %+v", dead[0])
		}
		for i, tr := range w.sink.tried() {
			if tr.n.Attempt != i+1 {
				t.Errorf("try %d called itself %d", i+1, tr.n.Attempt)
			}
		}
		pass(time.Minute)
		stop()
		if n := len(w.sink.tried()); n != 5 || len(w.stream.unsettled()) != 0 {
			t.Errorf("%d tries in the end, unsettled %v", n, w.stream.unsettled())
		}
	})
}

func TestB20_NoConnectionIsRetriedAndNeverBookedAsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		begun := time.Now()
		w.sink.answers(func(sinks.Notification) error {
			if time.Since(begun) < 3*time.Minute {
				return errDial
			}
			return nil
		})
		for r := range int64(40) {
			w.stream.publish(event(fmt.Sprintf("pur_%d", r), 1, events.SituationWorking))
		}
		l, stop := w.run()
		pass(time.Minute)
		if st := l.Status(); st.State != StateDown || st.NextProbe.IsZero() || st.InHand > InHand*w.o.Concurrency {
			t.Errorf("status %+v", st)
		}
		if w.metric("herald_deliver_up") != 0 || w.metric("herald_deliver_sent_total") != 0 {
			t.Error("shown as up, or as sent")
		}
		pass(4 * time.Minute)
		stop()
		if got := w.sink.got(); len(got) != 40 || len(w.graves.all()) != 0 {
			t.Errorf("accepted %v, buried %v", got, w.graves.all())
		}
		if n := len(w.sink.tried()); n > 70 {
			t.Errorf("%d tries are a storm", n)
		}
		if st := w.store.get("pur_1"); len(st.Tries) != 0 {
			t.Errorf("tries counted while the sink was down: %+v", st)
		}
	})
}

func TestRetryAfterIsHonouredByTheWholeSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Concurrency = 1
		first := true
		w.sink.answers(func(sinks.Notification) error {
			if first {
				first = false
				return &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonRateLimit, Status: 429, After: 40 * time.Second}
			}
			return nil
		})
		for r := range int64(3) {
			w.stream.publish(event(fmt.Sprintf("pur_%d", r), 1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(time.Minute)
		stop()
		tries := w.sink.tried()
		if len(tries) != 4 || tries[1].at.Sub(tries[0].at) < 40*time.Second {
			t.Errorf("tries %v, second after %s", len(tries), tries[1].at.Sub(tries[0].at))
		}
		if tries[0].n.Event.ID == tries[1].n.Event.ID {
			t.Error("probed with the message that failed last although another waited")
		}
	})
}

func TestPlainRefusalHasThreeTriesRejectionOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.answers(func(n sinks.Notification) error {
			switch n.Event.Subject {
			case "pur_a":
				return errRefused
			case "pur_b":
				return &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRecipient, Status: 554}
			}
			return nil
		})
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		w.stream.publish(event("pur_b", 1, events.SituationWorking))
		_, stop := w.run()
		pass(time.Hour)
		stop()
		got := map[string]int{}
		for _, tr := range w.sink.tried() {
			got[tr.n.Event.Subject]++
		}
		if got["pur_a"] != 3 || got["pur_b"] != 1 {
			t.Errorf("tries %v", got)
		}
		reasons := map[string]string{}
		for _, d := range w.graves.all() {
			reasons[d.EventID] = d.Reason
		}
		want := map[string]string{"pur_a-0-1-0": string(CauseRefused), "pur_b-0-1-0": string(CauseRejected)}
		if !reflect.DeepEqual(reasons, want) {
			t.Errorf("buried %v", reasons)
		}
		if got := w.outcomes("pur_b-0-1-0"); !slices.Equal(got, []string{OutcomeBuried}) {
			t.Errorf("outcomes %v", got)
		}
	})
}

func TestFailuresOfManyPurchasesAreTheSinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		begun := time.Now()
		w.sink.answers(func(sinks.Notification) error {
			if time.Since(begun) < 24*time.Hour {
				return errServer
			}
			return nil
		})
		for p := range 30 {
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(25 * time.Hour)
		stop()
		if got := w.sink.got(); len(got)+len(w.graves.all()) != 30 || len(w.graves.all()) > 4 {
			t.Errorf("accepted %d, buried %d", len(got), len(w.graves.all()))
		}
	})
}

func TestAWrongURLDoesNotBuryADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		begun := time.Now()
		w.sink.answers(func(sinks.Notification) error {
			if time.Since(begun) < 12*time.Hour {
				return errRefused
			}
			return nil
		})
		for p := range 200 {
			w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
		}
		l, stop := w.run()
		pass(time.Hour)
		if l.Status().State != StateDown {
			t.Errorf("state %q", l.Status().State)
		}
		pass(13 * time.Hour)
		stop()
		if n := len(w.graves.all()); n > 10 || len(w.sink.got())+n != 200 {
			t.Errorf("buried %d, accepted %d", n, len(w.sink.got()))
		}
	})
}

func TestPausedUntilResumed(t *testing.T) {
	for verdict, state := range map[sinks.Verdict]State{sinks.Paused: StatePaused, sinks.Gone: StateGone} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.sink.answers(func(sinks.Notification) error {
				return &sinks.Failure{Verdict: verdict, Reason: sinks.ReasonAuth, Status: 401}
			})
			for p := range 9 {
				w.stream.publish(event(fmt.Sprintf("pur_%d", p), 1, events.SituationWorking))
			}
			l, stop := w.run()
			pass(72 * time.Hour)
			if st := l.Status(); st.State != state || len(w.sink.tried()) > 4 {
				t.Errorf("state %q after %d tries", st.State, len(w.sink.tried()))
			}
			if len(w.notices) != 1 || w.notices[0].Kind != events.NoticeSinkPaused || w.notices[0].Sink != "ops" {
				t.Errorf("notices %+v", w.notices)
			}
			for p := range 9 {
				if st := w.store.get(fmt.Sprintf("pur_%d", p)); len(st.Tries) != 0 {
					t.Errorf("a try counted against a message: %+v", st)
				}
			}
			w.sink.answers(nil)
			l.Resume()
			pass(time.Minute)
			stop()
			if len(w.sink.got()) != 9 || len(w.graves.all()) != 0 {
				t.Errorf("accepted %v", w.sink.got())
			}
			if len(w.notices) != 2 || w.notices[1].Kind != events.NoticeSinkResumed {
				t.Errorf("notices %+v", w.notices)
			}
		})
	}
}

func TestUndecodableIsBuriedAndBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.graves.trouble(errors.New("no quorum"))
		w.stream.add(events.Envelope{Raw: []byte("{nonsense"), Subject: "envoy.purchase.host-a.pur_a", Bad: errors.New("no JSON")})
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		_, stop := w.run()
		pass(time.Second)
		if len(w.sink.got()) != 1 || w.stream.acked(1) {
			t.Errorf("accepted %v; acknowledged before it was stored: %v", w.sink.got(), w.stream.acked(1))
		}
		w.graves.trouble(nil)
		pass(10 * time.Second)
		stop()
		dead := w.graves.all()
		if len(dead) != 1 || dead[0].EventID != "bad-1" || string(dead[0].Event) != "{nonsense" || dead[0].Reason != string(CauseUndecodable) {
			t.Errorf("buried %+v", dead)
		}
		if !w.stream.acked(1) || !events.ValidEventID(dead[0].EventID) {
			t.Error("not acknowledged, or not a valid id")
		}
	})
}

func TestExpressionErrorBuries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, route.Spec{Name: "x", Match: "10 / revision > 0"})
		w.stream.publish(event("pur_a", 0, events.SituationWorking))
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		_, stop := w.run()
		pass(time.Second)
		stop()
		if dead := w.graves.all(); len(dead) != 1 || dead[0].Reason != string(CauseExpression) || len(w.sink.got()) != 1 {
			t.Errorf("buried %+v, accepted %v", dead, w.sink.got())
		}
	})
}

func TestAPanickingSinkFailsAtThatMessageOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.answers(func(n sinks.Notification) error {
			if n.Event.Subject == "pur_a" {
				panic("template")
			}
			return nil
		})
		w.stream.publish(event("pur_a", 0, events.SituationWorking))
		w.stream.publish(event("pur_b", 1, events.SituationWorking))
		_, stop := w.run()
		pass(time.Second)
		stop()
		if dead := w.graves.all(); len(dead) != 1 || dead[0].Reason != string(CauseRejected) || len(w.sink.got()) != 1 {
			t.Errorf("buried %+v, accepted %v", dead, w.sink.got())
		}
	})
}

// Without a schedule of its own a message has eight tries over about eight hours.
func TestScheduleWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Schedule = nil
		w.sink.answers(func(sinks.Notification) error { return errServer })
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		_, stop := w.run()
		pass(24 * time.Hour)
		stop()
		var waits []time.Duration
		tries := w.sink.tried()
		for i := 1; i < len(tries); i++ {
			waits = append(waits, tries[i].at.Sub(tries[i-1].at).Round(time.Second))
		}
		want := []time.Duration{
			5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		}
		if !slices.Equal(waits, want) || len(w.graves.all()) != 1 {
			t.Errorf("waited %v, %d buried", waits, len(w.graves.all()))
		}
	})
}

// A pause ends by itself once the secret is another one.
func TestPauseEndsWhenTheSecretChanges(t *testing.T) {
	for verdict, state := range map[sinks.Verdict]State{sinks.Paused: StatePaused, sinks.Gone: StateGone} {
		synctest.Test(t, func(t *testing.T) { pauseEnds(t, verdict, state) })
	}
}

func pauseEnds(t *testing.T, verdict sinks.Verdict, state State) {
	w := newWorld(t)
	var fresh atomic.Bool
	var asked atomic.Int32
	w.o.Changed = func(context.Context) bool {
		asked.Add(1)
		return fresh.Swap(false)
	}
	w.sink.answers(func(sinks.Notification) error {
		return &sinks.Failure{Verdict: verdict, Reason: sinks.ReasonAuth, Status: 401}
	})
	l, stop := w.run()
	pass(time.Minute)
	if n := asked.Load(); n != 0 {
		t.Errorf("asked %d times while nothing is wrong", n)
	}
	w.stream.publish(event("pur_a", 1, events.SituationWorking))
	pass(time.Minute)
	if n := len(w.sink.tried()); n != 1 || l.Status().State != state || asked.Load() < 10 {
		t.Errorf("%d tries, %s, asked %d times", n, l.Status().State, asked.Load())
	}
	fresh.Store(true) // still a wrong one
	pass(10 * time.Second)
	if n := len(w.sink.tried()); n != 2 || l.Status().State != state {
		t.Errorf("another wrong secret: %d tries, %s", n, l.Status().State)
	}
	w.sink.answers(nil)
	fresh.Store(true)
	pass(10 * time.Second)
	stop()
	if got := w.sink.got(); len(got) != 1 || len(w.stream.unsettled()) != 0 {
		t.Errorf("accepted %v", got)
	}
}

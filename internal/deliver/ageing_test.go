package deliver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// Events that leave the stream during one long outage are told: that it happens,
// while the sink is down, and how many they were, once it is back.
func TestAgedOutDuringOneOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := func() (out []events.Notice) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, n := range w.notices {
				if n.Kind == events.NoticeAgedOut {
					out = append(out, n)
				}
			}
			return out
		}
		_, stop := w.run()
		publish := func(from, to int) {
			for i := from; i <= to; i++ {
				w.stream.publish(event(fmt.Sprint("pur_", i), 1, events.SituationWorking))
			}
		}
		publish(1, 10)
		pass(time.Second)
		w.sink.answers(func(sinks.Notification) error { return errDial })
		publish(11, 100)
		pass(8 * 24 * time.Hour)
		if n := told(); len(n) != 0 {
			t.Fatalf("told before anything left: %+v", n)
		}
		w.stream.age(60)
		pass(24 * time.Hour)
		if n := told(); len(n) != 1 || n[0].Count != 50 {
			t.Errorf("told while it is down: %+v", n)
		}
		w.sink.answers(nil)
		pass(time.Minute)
		got := w.sink.got()
		for i := 61; i <= 100; i++ {
			if id := fmt.Sprintf("pur_%d-0-1-0", i); !slices.Contains(got, id) {
				t.Errorf("%s is still there and was not delivered", id)
			}
		}
		n := told()
		held := int64(len(got) - 10 - 40) // were in hand, so they did not get lost
		if len(n) != 2 || n[1].Count != 50-held || !strings.Contains(n[1].Text, "stored since") {
			t.Errorf("told once it is back, with %d in hand: %+v", held, n)
		}
		stop()
		if len(told()) != 2 {
			t.Errorf("told again at the end: %+v", told())
		}
	})
}

// A sink that is too slow for its stream loses some again and again; that is
// one notice an hour, not one an event.
func TestLosingAllTheTimeIsToldHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.takes = time.Second
		_, stop := w.run()
		for i := range 6 * 3600 { // three hours
			w.stream.publish(event(fmt.Sprint("pur_", i), 1, events.SituationWorking))
			if i > 40 {
				w.stream.age(uint64(i - 20))
			}
			<-time.After(100 * time.Millisecond)
		}
		pass(time.Minute)
		stop()
		var lost int64
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.notices {
			lost += n.Count
		}
		if n := len(w.notices); n != 2 {
			t.Errorf("%d notices", n)
		}
		if got := int64(len(w.sink.got())); got+lost != 6*3600 {
			t.Errorf("%d accepted and %d told as lost of %d", got, lost, 6*3600)
		}
	})
}

// A message that ages out takes its delay with it: those that wait for it would
// wait for ever.
func TestWhatLeavesWhileHandedBackHoldsUpNobody(t *testing.T) {
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
		pass(time.Second) // handed back after its first try
		w.stream.age(1)
		w.stream.publish(event("pur_a", 2, events.SituationDone))
		pass(20 * time.Second)
		if got := w.sink.got(); len(got) != 0 {
			t.Errorf("%v overtook an older one that may still come", got)
		}
		pass(time.Minute)
		stop()
		if got := w.sink.got(); !slices.Equal(got, []string{"pur_a-0-2-0"}) {
			t.Errorf("accepted %v", got)
		}
		if begins := len(w.stream.begins); begins != 2 {
			t.Errorf("%d beginnings", begins)
		}
		if len(w.notices) != 1 || w.notices[0].Count != 1 {
			t.Errorf("told %+v", w.notices)
		}
	})
}

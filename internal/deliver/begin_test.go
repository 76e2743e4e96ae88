package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

func TestB25_BeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sink.takes = 500 * time.Millisecond
		for r := range int64(6) {
			w.stream.publish(event("pur_a", r+1, events.SituationWorking))
			w.stream.publish(event("pur_b", r+1, events.SituationWorking))
		}
		_, stop := w.run()
		for r := range int64(3) {
			pass(700 * time.Millisecond)
			w.stream.breakOff(fmt.Errorf("consumer deleted: %w", ErrBeginAgain))
			w.stream.publish(event("pur_c", r, events.SituationWorking))
		}
		pass(20 * time.Second)
		stop()
		seen := map[string]int{}
		for _, id := range w.sink.got() {
			seen[id]++
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s accepted %d times", id, n)
			}
		}
		if len(seen) != 15 || len(w.stream.unsettled()) != 0 || len(w.stream.begins) != 4 {
			t.Errorf("%d accepted, unsettled %v, %d beginnings", len(seen), w.stream.unsettled(), len(w.stream.begins))
		}
	})
}

// A stream made anew counts from one: what the standings say of the old one is void.
func TestB25_StreamMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for r := range int64(3) {
			w.stream.publish(event("pur_a", r+1, events.SituationWorking))
		}
		_, stop := w.run()
		pass(time.Second)
		stop()
		fresh := newFakeStream()
		w.stream, w.o.Source = fresh, fresh
		w.stream.publish(event("pur_a", 3, events.SituationWorking)) // said last, and published anew
		w.stream.publish(event("pur_a", 4, events.SituationWorking))
		_, stop = w.run()
		pass(time.Second)
		stop()
		if got := w.sink.got(); len(got) != 4 || !slices.Equal(fresh.begins, []Start{StartResume}) {
			t.Errorf("accepted %v, begins %v", got, fresh.begins)
		}
	})
}

// Likewise one that is made anew under its owner: what is said from then on counts in
// the new one, for the next owner too.
func TestB25_StreamMadeAnewUnderItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.StreamCreated = func(context.Context) (time.Time, error) {
			w.stream.mu.Lock()
			defer w.stream.mu.Unlock()
			return w.stream.created, nil
		}
		_, stop := w.run()
		for r := range int64(3) {
			w.stream.publish(event("pur_a", r+1, events.SituationWorking))
		}
		pass(time.Second)
		w.stream.anew()
		w.stream.publish(event("pur_a", 4, events.SituationWorking))
		w.stream.publish(event("pur_a", 5, events.SituationWorking))
		pass(10 * time.Second)
		stop()
		w.stream.forget()
		_, stop = w.run()
		pass(time.Second)
		stop()
		want := []string{"pur_a-0-1-0", "pur_a-0-2-0", "pur_a-0-3-0", "pur_a-0-4-0", "pur_a-0-5-0"}
		if got := w.sink.got(); !slices.Equal(got, want) {
			t.Errorf("accepted %v", got)
		}
	})
}

// What the store would not take is written by the end of the ownership.
func TestStopWritesWhatIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, stop := w.run()
		pass(time.Second)
		w.store.trouble(nil, errors.New("out of reach"))
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		pass(time.Second)
		w.store.trouble(nil, nil)
		stop()
		if st := w.store.get("pur_a"); st.LastID != "pur_a-0-1-0" {
			t.Errorf("the standing is %+v", st)
		}
	})
}

// Where neither the store nor the server can say what was told, nothing is left out.
func TestNothingKnownBeginsAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for r := range int64(3) {
			w.stream.publish(event("pur_a", r+1, events.SituationWorking))
		}
		w.store.trouble(errors.New("out of reach"), nil)
		_, stop := w.run()
		pass(time.Minute)
		stop()
		if got := w.sink.got(); len(got) != 3 || !slices.Equal(w.stream.begins, []Start{StartResume}) {
			t.Errorf("accepted %v, begins %v", got, w.stream.begins)
		}
	})
}

// A stream that lost its end gives its sequences again: what comes under them is
// news, for a lane that was told more and for a sink that began later.
func TestStreamThatLostItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		clear(w.store.data)
		for r := range int64(5) {
			w.stream.publish(event("pur_a", r+1, events.SituationWorking))
			w.stream.publish(event("pur_b", r+1, events.SituationDone))
			pass(time.Second)
		}
		_, stop := w.run() // a new sink: it is told of pur_a, and pur_b is over
		pass(time.Second)
		w.stream.lose(4)
		pass(time.Second)
		w.stream.publish(event("pur_a", 6, events.SituationDone))
		w.stream.publish(event("pur_b", 6, events.SituationDone))
		pass(time.Second)
		stop()
		_, stop = w.run()
		w.stream.publish(event("pur_a", 7, events.SituationDone))
		pass(time.Minute)
		stop()
		got := w.sink.got()
		if len(got) > 2 {
			slices.Sort(got[1:3]) // of two purchases
		}
		if !slices.Equal(got, []string{"pur_a-0-5-0", "pur_a-0-6-0", "pur_b-0-6-0", "pur_a-0-7-0"}) {
			t.Errorf("accepted %v", got)
		}
		if st := w.store.get("pur_a"); st.Settled != 7 || len(w.stream.unsettled()) != 0 {
			t.Errorf("standing %+v, unsettled %v", st, w.stream.unsettled())
		}
	})
}

// Records expire a month after their last write. Where nothing happens the sink's
// own is written all the same, or it would be taken for a new sink.
func TestIdleSinkIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, stop := w.run()
		pass(40 * 24 * time.Hour)
		if age := time.Since(w.store.get(sinkKey).LastTime); age > 25*time.Hour {
			t.Errorf("last written %s ago", age)
		}
		stop()
	})
}

// A beginning that fails is tried again.
func TestBeginIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fails := 3
		age := w.o.StreamCreated
		w.o.StreamCreated = func(ctx context.Context) (time.Time, error) {
			if fails > 0 {
				fails--
				return time.Time{}, errors.New("no responders")
			}
			return age(ctx)
		}
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		l, stop := w.run()
		synctest.Wait()
		if l.Status().State != StateWaiting {
			t.Errorf("state %q", l.Status().State)
		}
		pass(time.Minute)
		stop()
		if len(w.sink.got()) != 1 {
			t.Errorf("accepted %v", w.sink.got())
		}
	})
}

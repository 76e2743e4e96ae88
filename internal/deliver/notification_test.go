package deliver

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/sinks"
)

// A receiver drops repeats by the number of the reminder, so that it must be the
// same over the tries of one and another for the next.
func TestRemindersAreNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := alarmed(t)
		fails := 2
		w.sink.answers(func(n sinks.Notification) error {
			if n.Kind == sinks.KindRemind && n.Reminded == 2 && fails > 0 {
				fails--
				return errServer
			}
			return nil
		})
		_, stop := w.run()
		w.stream.publish(event("pur_a", 1, events.SituationConfirming))
		pass(2 * time.Hour)
		stop()
		var got []int
		for _, tr := range w.sink.tried() {
			got = append(got, tr.n.Reminded)
		}
		if want := []int{0, 1, 2, 2, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("reminders %v, want %v", got, want)
		}
	})
}

// Where nothing has to go, the sink gets the very bytes that are stored.
func TestStoredDocumentGoesOutAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		as, bs := "pur_"+strings.Repeat("a", 32), "pur_"+strings.Repeat("b", 32)
		plain, personal := event(as, 1, events.SituationWorking), event(bs, 1, events.SituationWorking)
		personal.Purchase.Merchant.URL = "https://shop.example.test/red-shoes"
		w.stream.publish(plain)
		w.stream.publish(personal)
		_, stop := w.run()
		pass(time.Second)
		stop()
		for _, a := range w.sink.accepted {
			sent, same := a.n.Document.Bytes(), false
			if sent != nil {
				same = &sent[0] == &w.stream.msgs[0].Raw[0]
			}
			if same != (a.n.Event.Subject == as) || !same && sent != nil || strings.Contains(a.n.Event.Purchase.Merchant.URL, "red-shoes") {
				t.Errorf("%s: the stored bytes: %v, %s", a.n.Event.Subject, same, sent)
			}
		}
		if len(w.sink.accepted) != 2 {
			t.Errorf("%d accepted", len(w.sink.accepted))
		}
	})
}

// Two sinks of one channel keep one pace together.
func TestSharedPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newWorld(t), newWorld(t)
		b.o.Name = "ops2"
		set, err := route.Compile([]route.Spec{{Name: "all", Match: "true", Sinks: []string{"ops", "ops2"}}})
		if err != nil {
			t.Fatal(err)
		}
		a.o.Pace = NewPace(1)
		b.o.Pace, b.o.Set = a.o.Pace, set
		b.store.data["ops2/"+sinkKey] = b.store.data["ops/"+sinkKey]
		for i := range int64(5) {
			a.stream.publish(event("pur_a", i, events.SituationWorking))
			b.stream.publish(event("pur_b", i, events.SituationWorking))
		}
		_, stopA := a.run()
		_, stopB := b.run()
		pass(time.Minute)
		stopA()
		stopB()
		var at []time.Time
		for _, tr := range slices.Concat(a.sink.tried(), b.sink.tried()) {
			at = append(at, tr.at)
		}
		slices.SortFunc(at, time.Time.Compare)
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < time.Second {
				t.Errorf("sends %d and %d are %s apart", i-1, i, d)
			}
		}
		if len(at) != 10 || at[9].Sub(at[0]) > 12*time.Second {
			t.Errorf("%d sends in %s", len(at), at[len(at)-1].Sub(at[0]))
		}
	})
}

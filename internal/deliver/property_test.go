package deliver

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// Whatever fails and whenever we die or begin again: for each purchase the
// accepted revisions rise, but for repeats of the same id at a crash, and every
// event is accepted or lies among the dead with its reason.
func TestNothingIsLostAndNothingGoesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		failures := rapid.SliceOfN(rapid.SampledFrom([]*sinks.Failure{
			nil, nil, nil, nil, errServer, errServer, errRefused, errDial,
			{Verdict: sinks.Rejected, Reason: sinks.ReasonRender},
			{Verdict: sinks.Down, Reason: sinks.ReasonRateLimit, After: 7 * time.Second},
		}), 1, 60).Draw(rt, "answers")
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(rt, "steps")
		waits := rapid.SliceOfN(rapid.IntRange(0, 20_000), len(steps), len(steps)).Draw(rt, "waits")
		newestOnly := rapid.Bool().Draw(rt, "newest only")
		var problem string
		synctest.Test(t, func(t *testing.T) {
			problem = ordeal(t, failures, steps, waits, newestOnly)
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// ordeal publishes, fails, breaks off, kills and restarts as it is told, then
// lets everything come to rest and judges.
func ordeal(t *testing.T, failures []*sinks.Failure, steps, waits []int, newestOnly bool) string {
	w := newWorld(t)
	w.o.NewestOnly, w.o.Concurrency = newestOnly, 3
	w.o.Schedule = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	w.sink.takes = 30 * time.Millisecond
	answer := 0
	w.sink.answer = func(sinks.Notification) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if answer++; answer <= len(failures) && failures[answer-1] != nil {
			return failures[answer-1]
		}
		return nil
	}
	_, stop := w.run()
	revisions, crashes := map[string]int64{}, 0
	for i, step := range steps {
		switch {
		case step < 6:
			p := fmt.Sprintf("pur_%d", step%3)
			revisions[p]++
			w.stream.publish(event(p, revisions[p], events.SituationWorking))
		case step == 6:
			w.stream.breakOff(ErrBeginAgain)
		case step == 7:
			crashes++
			w.kill()
		default:
			stop()
			_, stop = w.run()
		}
		pass(time.Duration(waits[i]) * time.Millisecond)
	}
	pass(10 * time.Hour)
	stop()
	return judge(w, revisions, crashes, newestOnly)
}

func judge(w *world, revisions map[string]int64, crashes int, newestOnly bool) string {
	if left := w.stream.unsettled(); len(left) != 0 {
		return fmt.Sprintf("unsettled: %v", left)
	}
	last, ids, repeats := map[string]int64{}, []string{}, 0
	for _, a := range w.sink.accepted {
		p, r := a.n.Event.Subject, a.n.Event.Purchase.Reading.Revision
		ids = append(ids, a.n.Event.ID)
		if r < last[p] {
			return fmt.Sprintf("%s: revision %d accepted after %d", p, r, last[p])
		}
		if r == last[p] {
			repeats++
		}
		last[p] = r
	}
	if repeats > crashes*3 { // as many as were under way
		return fmt.Sprintf("%d repeats after %d crashes", repeats, crashes)
	}
	for _, d := range w.graves.all() {
		ids = append(ids, d.EventID)
	}
	for p, n := range revisions {
		for r := range n {
			id := events.EventID(p, events.Position{Revision: r + 1})
			if slices.Contains(ids, id) || newestOnly && slices.Contains(w.outcomes(id), OutcomeSuperseded) {
				continue
			}
			return fmt.Sprintf("%s is lost", id)
		}
	}
	return ""
}

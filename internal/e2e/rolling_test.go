package e2e_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
)

// Two watchers and two notifiers are replaced one after another, as an upgrade does, while purchases change all the
// time. Each reading that was stored follows the one before, and reaches each sink; a repetition is allowed only of
// what was under way at a replacement.
func TestRollingRestartLosesNothing(t *testing.T) {
	const hosts, sinks = 12, 3
	w := newWorld(t)
	file, ids := w.hosts(hosts, w.outside())
	watchers := &fleet{w: w, program: "watcher", file: file}
	notifiers := &fleet{w: w, program: "notifier", file: w.sinks(sinks)}
	for _, f := range []*fleet{watchers, notifiers} {
		f.add()
		f.add()
	}
	watchers.owned("two watchers", settledIn, hosts, hosts/2, func() bool { return w.sim.Holds() == hosts })
	notifiers.owned("two notifiers", settledIn, sinks, 2, nil)

	stop := w.changing(ids, 80*time.Millisecond) // within the budget of a token
	var faults []time.Time
	replace := func(f *fleet, n, most int) {
		old := f.live[0]
		f.live = f.live[1:]
		faults = append(faults, time.Now())
		if code := old.stop(); code != 0 {
			t.Errorf("exit code %d of a replaced %s\n%s", code, f.program, old.out)
		}
		f.add()
		f.owned("a "+f.program+" is replaced", settledIn, n, most, nil)
	}
	for range 2 {
		replace(watchers, hosts, hosts/2)
		replace(notifiers, sinks, 2)
	}
	changes := stop()

	var stored []events.Envelope
	await(t, 2*time.Minute, "the newest revision of each purchase is stored", func() bool {
		stored = w.stored()
		return !slices.ContainsFunc(ids, func(id string) bool {
			revisions, r := revisions(stored, id), want(w, id)
			return len(revisions) == 0 || revisions[len(revisions)-1] != r[len(r)-1]
		})
	}, watchers.live[0].out.String)
	var told []string // each sink is told of all but what was there at first contact
	for _, e := range stored {
		if p := e.Event.Purchase; p == nil || p.Reading.Cause != events.CauseBaseline {
			told = append(told, e.Event.ID)
		}
	}
	await(t, 2*time.Minute, "everything is delivered", func() bool {
		got := w.taken()
		for i := range sinks {
			if len(unique(got[fmt.Sprintf("/sink-%d", i)])) < len(told) {
				return false
			}
		}
		return true
	}, notifiers.live[0].out.String)
	chained(t, stored)
	repeats := 0
	for sink, list := range w.taken() {
		got := unique(list)
		for _, id := range told {
			if !got[id] {
				t.Errorf("%s was not told of %s", sink, id)
			}
		}
		repeats += check(t, sink, list, faults, 2*time.Second)
	}
	t.Logf("%d changes, %d readings stored, %d deliveries to %d sinks, %d repeated at one of %d replacements",
		changes, len(stored), len(told)*sinks, sinks, repeats, len(faults))
	for _, f := range []*fleet{watchers, notifiers} {
		for _, p := range f.live {
			if code := p.stop(); code != 0 {
				t.Errorf("exit code %d\n%s", code, p.out)
			}
		}
	}
}

// changing changes one purchase after the other until it is stopped, and then gives how often.
func (w *world) changing(ids []string, every time.Duration) (stop func() int) {
	done, n := make(chan struct{}), 0
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ; ; n++ {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if err := w.sim.Transition(ids[n%len(ids)], func(p *envoysim.Purchase) { p.State = envoysim.Processing }); err != nil {
				w.t.Errorf("change: %v", err)
				return
			}
		}
	})
	end := sync.OnceFunc(func() { close(done); running.Wait() })
	w.t.Cleanup(end)
	return func() int { end(); return n }
}

// chained sees that no event is stored twice, and that each names the one before it of its purchase.
func chained(t *testing.T, stored []events.Envelope) {
	t.Helper()
	last, seen := map[string]string{}, map[string]bool{}
	for _, e := range stored {
		p := e.Event.Purchase
		if seen[e.Event.ID] {
			t.Errorf("%s is stored twice", e.Event.ID)
		}
		seen[e.Event.ID] = true
		if p == nil || e.Event.Type != events.TypeChanged {
			continue
		}
		before := ""
		if p.Previous != nil {
			before = p.Previous.ID
		}
		if before != last[e.Event.Subject] {
			t.Errorf("%s follows %q, stored before it is %q", e.Event.ID, before, last[e.Event.Subject])
		}
		last[e.Event.Subject] = e.Event.ID
	}
}

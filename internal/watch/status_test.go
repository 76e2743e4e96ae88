package watch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// What only a status reply says, here that Envoy told the agent to stop checking, is not taken back by a replica that
// lags: a look soon after would else be told as a change.
func TestLaggingReplyTakesNothingBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		lag := false
		f.with(func() {
			f.rewrite = func(s *envoy.Status) {
				s.Next.Action = "stop"
				if lag {
					lag = false
					s.Purchase.Revision, s.Purchase.State, s.Next.Action = 6, "processing", "call_tool"
				}
			}
		})
		p := operated(1, events.StateVerifying)
		p.Revision = 7
		f.put(p)
		b.pass(2 * time.Minute)
		b.wantStates(pid(1), "verifying:revision verifying:reading")
		f.with(func() { lag = true })
		b.pass(5 * time.Minute)
		b.wantStates(pid(1), "verifying:revision verifying:reading")
		if n := counter(t, b.w.metrics.lower); n != 1 {
			t.Errorf("%v lower replies counted, want 1", n)
		}
	})
}

// Two lower replies are no restored side, however far apart, and neither are many within a minute, or two of each of two
// tools.
func TestFewLowerRepliesAreNoReset(t *testing.T) {
	for name, c := range map[string]struct {
		replies float64
		early   time.Duration // of holds
		apart   time.Duration // Envoy asks for it after the first
		looks   bool          // looks are lower too
	}{
		"two, minutes apart":   {replies: 2, apart: 2 * time.Minute},
		"many within a minute": {replies: 6, early: time.Second},
		"two of each of two":   {replies: 4, looks: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := start(t, f, func(o *Options) { o.Policy.DiscoverEvery = 50 * time.Second })
				defer b.stop()
				b.pass(30 * time.Second)
				p := operated(1, events.StateVerifying)
				p.Revision = 7
				f.put(p)
				b.pass(2 * time.Minute)
				told := f.byID[pid(1)]
				lagging := *told
				lagging.Revision, lagging.State = 6, "processing"
				refused := c.apart == 0
				f.with(func() {
					f.early, f.byID[pid(1)] = c.early, &lagging
					if !c.looks {
						f.active = ""
					}
					f.onStatus = func(int, envoy.StatusRequest) error {
						if refused || counter(t, b.w.metrics.lower) == 0 {
							return nil
						}
						refused = true
						return refusal(envoy.CodeUnavailable, true, c.apart)
					}
				})
				for i := 0; counter(t, b.w.metrics.lower) < c.replies; i++ {
					if b.pass(time.Second); i > 600 {
						t.Fatalf("%v lower replies", counter(t, b.w.metrics.lower))
					}
				}
				f.with(func() { f.byID[pid(1)], f.early = told, 0 })
				b.pass(10 * time.Minute)
				b.wantStates(pid(1), "verifying:revision")
			})
		})
	}
}

// silent holds calls until they are given up, and notes when they would have been.
type silent struct {
	*far
	mu   sync.Mutex
	over map[time.Duration]time.Duration // wait -> longest time until the call was given up
}

func (s *silent) Status(ctx context.Context, r envoy.StatusRequest) (*envoy.Status, error) {
	if r.Wait == 0 {
		return s.far.Status(ctx, r)
	}
	from := time.Now()
	<-ctx.Done()
	s.mu.Lock()
	s.over[r.Wait] = max(s.over[r.Wait], time.Since(from))
	s.mu.Unlock()
	return nil, &envoy.Outage{Tool: envoy.ToolStatus, Kind: envoy.OutageTimeout, Took: time.Since(from)}
}

// A hold that nobody answers is given up fifteen seconds after it should have ended, and little later.
func TestSilentHoldIsGivenUpInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &silent{far: newFar(), over: map[time.Duration]time.Duration{}}
		for n := 1; n <= 20; n++ {
			f.put(operated(n, events.StateProcessing))
			f.with(func() { f.active = "" })
		}
		b := start(t, f, func(o *Options) { o.Policy.RequestsPerMinute = 1000 })
		b.pass(10 * time.Minute)
		b.stop()
		if len(f.over) < 5 {
			t.Errorf("holds of %d lengths were made", len(f.over))
		}
		for wait, took := range f.over {
			if took < wait+envoy.Grace || took > wait+envoy.Grace+5*time.Second {
				t.Errorf("a hold of %s was given up after %s", wait, took)
			}
		}
	})
}

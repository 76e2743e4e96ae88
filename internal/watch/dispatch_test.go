package watch

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// A purchase whose call was answered at once, and that is due again, waits from now on and not since the beginning of time:
// it would go before all others, and its wait would be counted in centuries.
func TestDueAgainAtOnceWaitsFromNow(t *testing.T) {
	now := time.Now()
	p := &purchase{
		id: pid(1), loaded: true, heapIndex: -1, state: events.StateWaitingForUser, column: columnEnvoy,
		asked: now, replied: now, shown: now,
	}
	tm := &term{byID: map[string]*purchase{p.id: p}, due: []*purchase{p}}
	tm.gather(now)
	if len(tm.due) != 1 || !p.dueSince.Equal(now) {
		t.Errorf("%d due, since %v", len(tm.due), p.dueSince)
	}
	before := now
	now = now.Add(time.Second)
	tm.gather(now)
	if !p.dueSince.Equal(before) {
		t.Errorf("it has waited since %v, not since %v", p.dueSince, before)
	}
}

// Connections that began together look and list together at first, and not for ever.
func TestWhatBeganTogetherDoesNotStayTogether(t *testing.T) {
	const connections, window = 40, 5 * time.Second
	for tool, every := range map[envoy.Tool]time.Duration{envoy.ToolAccount: time.Minute, envoy.ToolList: listEvery} {
		t.Run(string(tool), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var all []*far
				b := start(t, nil, func(o *Options) {
					o.Connections = nil
					for n := range connections {
						all = append(all, newFar())
						o.Connections = append(o.Connections, Connection{Name: fmt.Sprint("host-", n), Reader: all[n]})
					}
				})
				defer b.stop()
				together := func() int {
					var at []time.Time
					for _, f := range all {
						for _, a := range f.made(tool) {
							at = append(at, a.at)
						}
						f.forgetCalls()
					}
					if len(at) < connections/2 {
						t.Fatalf("%d calls of %d connections", len(at), connections)
					}
					slices.SortFunc(at, time.Time.Compare)
					return most(at, window)
				}
				b.pass(every)
				if n := together(); n < connections/2 {
					t.Errorf("at most %d in %s: they have not begun together, so this shows nothing", n, window)
				}
				b.pass(100 * every)
				together()
				b.pass(every)
				if n := together(); n > connections/2 {
					t.Errorf("%d of %d are together in %s, a hundred turns later", n, connections, window)
				}
			})
		})
	}
}

// slow is a far whose looks take a while.
type slow struct {
	*far
	look time.Duration
}

func (s slow) Look(ctx context.Context, withAgent bool) (*envoy.Look, error) {
	l, err := s.far.Look(ctx, withAgent)
	timer := time.NewTimer(s.look)
	defer timer.Stop()
	select {
	case <-timer.C:
		return l, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A hold that is due while a look is under way waits for its answer, which may forbid it, but for two seconds at the most.
func TestHoldsWaitForALookThatIsUnderWay(t *testing.T) {
	for _, c := range []struct{ look, wait time.Duration }{
		{look: time.Second, wait: time.Second},
		{look: 5 * time.Second, wait: lookHead},
	} {
		t.Run(fmt.Sprint("of ", c.look), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := start(t, slow{f, c.look}, func(o *Options) { o.Policy.DiscoverEvery = 10 * time.Second })
				defer b.stop()
				b.pass(30 * time.Second)
				for n := 1; n <= 10; n++ {
					f.put(operated(n, events.StateProcessing))
					b.pass(3 * time.Second)
				}
				b.pass(2 * time.Minute)
				f.forgetCalls()
				b.pass(10 * time.Minute)
				var looked time.Time
				late := 0
				for _, a := range f.made("") {
					switch since := a.at.Sub(looked); {
					case a.tool == envoy.ToolAccount:
						looked = a.at
					case a.tool != envoy.ToolStatus || looked.IsZero():
					case since < c.wait:
						t.Errorf("a hold went out %s after a look of %s", since, c.look)
					case since < c.wait+10*time.Millisecond:
						late++
					}
				}
				if late == 0 {
					t.Errorf("no hold of %d calls went out %s after a look, as soon as it may", len(f.made("")), c.wait)
				}
			})
		})
	}
}

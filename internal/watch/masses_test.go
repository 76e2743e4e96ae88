package watch

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// More connections than usual: go test -run TestMasses -masses 10000.
var many = flag.Int("masses", 1000, "connections that start, recover and are revoked together")

// mass is many connections, each with a token of its own.
type mass struct {
	*bench
	fars []*far
}

func newMass(t *testing.T, each func(*far)) *mass {
	t.Helper()
	m := &mass{}
	m.bench = start(t, newFar(), func(o *Options) {
		o.Connections = nil
		for n := range *many {
			f := newFar()
			each(f)
			m.fars = append(m.fars, f)
			o.Connections = append(o.Connections, Connection{Name: fmt.Sprintf("host-%d", n), Reader: f})
		}
	})
	return m
}

// calls gives when all calls went out, in order, and forgets them.
func (m *mass) calls() []time.Time {
	var out []time.Time
	for _, f := range m.fars {
		for _, a := range f.made("") {
			out = append(out, a.at)
		}
		f.forgetCalls()
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// most is the largest number of calls within any window of d.
func most(calls []time.Time, d time.Duration) int {
	most, first := 0, 0
	for i := range calls {
		for calls[i].Sub(calls[first]) >= d {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// A process that starts with many tokens, an Envoy that comes back after an outage, and a mass revocation: at no
// time do the connections call together.
func TestMassesAreSpread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var refused error
		var bad atomic.Bool
		m := newMass(t, func(f *far) {
			f.onLook = func(int) error {
				if bad.Load() {
					return refused
				}
				return nil
			}
			f.onList = f.onLook
		})
		defer m.stop()
		m.pass(time.Minute)
		calls := m.calls()
		t.Logf("start: %d calls in the first minute, %d within the busiest second", len(calls), most(calls, time.Second))
		if len(calls) < *many {
			t.Errorf("%d calls of %d connections in the first minute", len(calls), *many)
		}
		if n := most(calls, time.Second); n > *many*8/10 { // two calls each; the take-over's jitter is 3 s
			t.Errorf("start: %d calls within a second", n)
		}

		refused = &envoy.Outage{Kind: envoy.OutageStatus, Status: 504}
		bad.Store(true)
		m.pass(10 * time.Minute)
		m.calls()
		bad.Store(false)
		m.pass(2 * time.Minute) // an outage is asked about every minute at the most
		calls = m.calls()
		t.Logf("recovery: %d calls in two minutes, %d within the busiest second", len(calls), most(calls, time.Second))
		if len(calls) < *many {
			t.Errorf("%d calls of %d connections after the outage", len(calls), *many)
		}
		if n := most(calls, time.Second); n > *many/10 {
			t.Errorf("recovery: %d calls within a second", n)
		}

		m.pass(30 * time.Minute)
		m.calls()
		refused = refusal(envoy.CodeUnauthenticated, false, 0)
		bad.Store(true)
		m.pass(6 * time.Minute) // the pace of looks at its slowest, and of lists: each has found out
		first := m.calls()
		m.pass(10 * time.Minute)
		later := m.calls()
		t.Logf("revocation: %d refused calls, %d within the busiest second; then %d in ten minutes", len(first), most(first, time.Second), len(later))
		if n := most(first, time.Second); n > *many/10 {
			t.Errorf("revocation: %d calls within a second", n)
		}
		if n := most(later, authEvery); n > 1 {
			t.Errorf("revocation: %d calls within %s of one process", n, authEvery)
		}
	})
}

// cutting is a fake Envoy that can end all holds at once, as an API does that restarts.
type cutting struct {
	*far
	cut atomic.Pointer[chan struct{}]
}

func (c *cutting) Status(ctx context.Context, r envoy.StatusRequest) (*envoy.Status, error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	from, cut := time.Now(), *c.cut.Load()
	go func() {
		select {
		case <-cut:
			cancel()
		case <-limited.Done():
		}
	}()
	s, err := c.far.Status(limited, r)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil, &envoy.Outage{Tool: envoy.ToolStatus, Kind: envoy.OutageReset, Took: time.Since(from)}
	}
	return s, err
}

// The API restarts, cuts three hundred holds of one token, and then limits: the wait is honoured, the holds come back
// spread, and they do not stay in step.
func TestB35_HoldsThatAreCutTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 300
		c := &cutting{far: newFar()}
		cut := make(chan struct{})
		c.cut.Store(&cut)
		b := start(t, c, func(o *Options) { o.Policy.RequestsPerMinute = 1500 })
		defer b.stop()
		b.pass(30 * time.Second)
		for i := range n {
			c.put(operated(i, events.StateVerifying))
			if err := b.w.Register(t.Context(), "host-a", pid(i)); err != nil {
				t.Fatal(err)
			}
		}
		holds := func() (open int) {
			err := b.w.inTerm(t.Context(), "host-a", func(_ context.Context, m *term, _ time.Time) error {
				open = m.sense.holds
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return open
		}
		b.pass(3 * time.Minute)
		if got := holds(); got < n*95/100 {
			t.Fatalf("%d holds are open", got)
		}
		var limited atomic.Int64 // when the API limited
		c.with(func() {
			c.onStatus = func(int, envoy.StatusRequest) error {
				if limited.CompareAndSwap(0, time.Now().UnixNano()) {
					return refusal(envoy.CodeRateLimited, true, 5*time.Second)
				}
				return nil
			}
		})
		c.forgetCalls()
		again := make(chan struct{})
		c.cut.Store(&again)
		close(cut)
		b.pass(time.Minute)
		if got := holds(); got < n*95/100 {
			t.Errorf("%d holds are open a minute later", got)
		}
		b.pass(3 * time.Minute)
		if limited.Load() == 0 {
			t.Error("nothing was asked")
		}
		var all []time.Time
		for _, a := range c.made("") {
			all = append(all, a.at)
			if d := a.at.Sub(time.Unix(0, limited.Load())); d > 0 && d < 5*time.Second {
				t.Errorf("asked again %s after the limit", d)
			}
		}
		if got := most(all, time.Second); got > n/5 {
			t.Errorf("%d calls within a second", got)
		}
	})
}

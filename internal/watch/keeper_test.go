package watch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// asking are leases that can be asked back.
type asking struct {
	*leases
	mu    sync.Mutex
	leave func()
	asked int
}

func (a *asking) Acquire(ctx context.Context, name string, leave func()) (context.Context, func(), error) {
	a.mu.Lock()
	a.leave = leave
	a.asked++
	a.mu.Unlock()
	return a.leases.Acquire(ctx, name, leave)
}

func (a *asking) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// A connection that another worker should have is let go as at a stop, and asked
// for again.
func TestHandOverIsGraceful(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		l := &asking{leases: newLeases()}
		b := start(t, f, func(o *Options) { o.Leases = l })
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		l.leave()
		b.pass(time.Second)
		if n := l.times(); n != 2 {
			t.Errorf("the lease was asked for %d times", n)
		}
		release := l.steal(leaseName("host-a")) // as another worker takes it
		b.pass(time.Minute)
		if s := b.w.Status()[0]; s.Owner || s.Holds != 0 {
			t.Errorf("still at work: %+v", s)
		}
		release()
		b.pass(time.Minute)
		b.stop()
		b.wantStates(pid(1), "processing:revision")
	})
}

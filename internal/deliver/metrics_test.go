package deliver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// What only the owner knows is not left standing when the sink is somebody
// else's, or nobody's: a gauge that stays would be taken for the truth.
func TestGaugesAreGivenUpWithTheSink(t *testing.T) {
	gauges := []string{"herald_deliver_up", "herald_deliver_in_hand", "herald_deliver_waiting", "herald_deliver_backlog"}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Source = backlogged{w.stream}
		shown := func() (n int) {
			families, err := w.metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, name := range gauges {
					if f.GetName() == name {
						n += len(f.GetMetric())
					}
				}
			}
			return n
		}
		w.stream.publish(event("pur_a", 1, events.SituationWorking))
		_, stop := w.run()
		pass(time.Second)
		if n := shown(); n != len(gauges) {
			t.Errorf("%d of %d gauges while it is owned", n, len(gauges))
		}
		w.leases.mu.Lock()
		w.leases.err = errDial // nobody gets the lease again
		w.leases.mu.Unlock()
		w.leases.lose()
		pass(time.Second)
		if n := shown(); n != 0 {
			t.Errorf("%d gauges are left when the lease is lost", n)
		}
		w.leases.mu.Lock()
		w.leases.err = nil
		w.leases.mu.Unlock()
		pass(time.Minute)
		if n := shown(); n != len(gauges) {
			t.Errorf("%d of %d gauges when it is owned again", n, len(gauges))
		}
		stop()
		if n := shown(); n != 0 {
			t.Errorf("%d gauges are left after the end", n)
		}
	})
}

// backlogged is a stream that tells how much waits.
type backlogged struct{ *fakeStream }

func (b backlogged) Pending(context.Context) (uint64, error) { return uint64(len(b.unsettled())), nil }

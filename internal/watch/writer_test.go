package watch

import (
	"context"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// Cursors wait a moment for more of their kind, but not for the next owner.
func TestCursorsAreWrittenAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		f.put(operated(1, events.StateProcessing))
		b := start(t, f)
		b.pass(30 * time.Second)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.pass(writerLinger / 2)
		if got := b.store.purchases(pid(1)); len(got) != 2 {
			t.Fatalf("%d events before the end", len(got))
		}
		if b.store.cursor(pid(1)).Revision != 1 {
			t.Error("the cursor has not waited, so this shows nothing")
		}
		b.stop()
		if c := b.store.cursor(pid(1)); c.Revision != 2 || c.Sequence != 2 {
			t.Errorf("at the end: %+v", c)
		}
	})
}

// A store that hangs at the end holds up nobody for long: the stream has all of it.
func TestTheEndWaitsForAStoreThatHangsOnlyALittle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		f.put(operated(1, events.StateProcessing))
		b := start(t, f)
		b.pass(30 * time.Second)
		var late context.CancelFunc
		b.store.with(func() {
			b.store.onAdvance = func(ctx context.Context) error {
				ctx, late = context.WithTimeout(ctx, time.Hour)
				<-ctx.Done()
				return ctx.Err()
			}
		})
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.pass(writerLinger / 2)
		from := time.Now()
		b.stop()
		if late == nil {
			t.Fatal("nothing was written at the end, so this shows nothing")
		}
		late()
		if took := time.Since(from); took > lastTrip {
			t.Errorf("the end took %s", took)
		}
	})
}

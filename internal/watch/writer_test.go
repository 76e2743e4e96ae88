package watch

import (
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

package watch

import (
	"context"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// records reads the queue of a connection's term. The loop itself does it.
func records(b *bench) (waiting, reading int) {
	b.t.Helper()
	err := b.w.inTerm(b.t.Context(), "host-a", func(_ context.Context, t *term, _ time.Time) error {
		waiting, reading = len(t.toLoad), t.loading
		return nil
	})
	if err != nil {
		b.t.Error(err)
	}
	return waiting, reading
}

// Records that cannot be read, however many and in whichever way, hold up no other purchase.
func TestRecordsThatCannotBeReadHoldUpNoOther(t *testing.T) {
	const bad, good = 3 * loadsAtOnce, 20
	for name, fault := range map[string]func(context.Context) error{
		"refused": func(context.Context) error { return errAway },
		"hanging": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, well := newFar(), make(chan struct{})
				isBad := map[string]bool{}
				for n := 1; n <= bad+good; n++ {
					f.put(operated(n, events.StateVerifying))
					f.with(func() { f.active = "" })
					isBad[pid(n)] = n <= bad
				}
				b := start(t, f, func(o *Options) {
					o.Policy.RequestsPerMinute = 1000
					o.Publisher.(*store).onLast = func(ctx context.Context, id string) error {
						select {
						case <-well:
							return nil
						default:
						}
						if isBad[id] {
							return fault(ctx)
						}
						return nil
					}
				})
				defer b.stop()
				b.pass(5 * time.Minute)
				for n := bad + 1; n <= bad+good; n++ {
					b.wantStates(pid(n), "verifying:baseline")
				}
				if waiting, reading := records(b); waiting+reading != bad || reading > loadsAtOnce {
					t.Errorf("%d records wait, %d are read", waiting, reading)
				}
				close(well)
				b.pass(5 * time.Minute)
				for n := 1; n <= bad; n++ {
					b.wantStates(pid(n), "verifying:baseline")
				}
				if waiting, reading := records(b); waiting+reading != 0 {
					t.Errorf("%d records wait, %d are read, when all is read", waiting, reading)
				}
			})
		})
	}
}

// A term that ends while records are read and others wait leaves nothing behind, and the next one reads them.
func TestTermThatEndsWhileRecordsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		for n := 1; n <= 3*loadsAtOnce; n++ {
			f.put(operated(n, events.StateVerifying))
			f.with(func() { f.active = "" })
		}
		b := start(t, f, func(o *Options) {
			o.Publisher.(*store).onLast = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		})
		b.pass(10 * time.Second)
		if waiting, reading := records(b); waiting == 0 || reading != loadsAtOnce {
			t.Errorf("%d records wait, %d are read", waiting, reading)
		}
		b.stop() // the bubble fails if a goroutine stays
		b.store.with(func() { b.store.onLast = nil })
		b.restart(f)
		defer b.stop()
		b.pass(5 * time.Minute)
		for n := 1; n <= 3*loadsAtOnce; n++ {
			if n := len(b.store.purchases(pid(n))); n != 1 {
				t.Errorf("%d events of a purchase, want 1", n)
			}
		}
	})
}

// A purchase that is not wanted any more when the turn of its record comes is not watched, and one that is wanted again
// meanwhile is watched once.
func TestPurchaseThatIsGoneInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, well := newFar(), make(chan struct{})
		f.put(operated(1, events.StateVerifying))
		f.put(operated(2, events.StateVerifying))
		f.with(func() { f.active, f.list = "", nil })
		b := start(t, f, func(o *Options) {
			o.Publisher.(*store).onLast = func(context.Context, string) error {
				<-well
				return nil
			}
		})
		defer b.stop()
		b.pass(10 * time.Second)
		for _, id := range []string{pid(1), pid(2)} {
			if err := b.w.Register(t.Context(), "host-a", id); err != nil {
				t.Fatal(err)
			}
			if err := b.w.Unregister(t.Context(), "host-a", id); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.w.Register(t.Context(), "host-a", pid(2)); err != nil {
			t.Fatal(err)
		}
		b.pass(10 * time.Second)
		close(well)
		b.pass(5 * time.Minute)
		b.wantStates(pid(1), "")
		b.wantStates(pid(2), "verifying:revision")
		for _, a := range f.made(envoy.ToolStatus) {
			if a.req.Purchase == pid(1) {
				t.Errorf("read though it is not watched: %+v", a)
			}
		}
	})
}

// A purchase that is found by its id while the record of what a key led to is read becomes one with it.
func TestPurchaseThatIsAdoptedWhileItsRecordIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, well := newFar(), make(chan struct{})
		b := start(t, f, func(o *Options) {
			o.Publisher.(*store).onLast = func(context.Context, string) error {
				<-well
				return nil
			}
		})
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute) // a look has found it; its record is read
		if err := b.w.Register(t.Context(), "host-a", "key-of-the-agent-1"); err != nil {
			t.Fatal(err)
		}
		b.pass(2 * time.Minute)
		close(well)
		b.pass(2 * time.Minute)
		b.wantStates(pid(1), "processing:revision")
		if refs := b.store.set("host-a").Refs; len(refs) != 1 || refs[0].PurchaseID != pid(1) || !refs[0].Registered {
			t.Errorf("watched: %+v", refs)
		}
		if waiting, reading := records(b); waiting+reading != 0 {
			t.Errorf("%d records wait, %d are read", waiting, reading)
		}
	})
}

package watch

import (
	"context"
	"slices"
	"sync"
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

// watches tells whether the stored set has a registration of this key.
func (s *store) watches(name, key string) bool {
	return slices.ContainsFunc(s.set(name).Refs, func(r events.WatchRef) bool { return r.KeyHash == events.HashKey(key) })
}

// A process is stopped between its last look at the lease and a write of its set. When it goes on, another owns the
// connection: what that one wrote stays, and nobody is told that the late write was done.
func TestALateWriteDoesNotUndoTheNextOwnersSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		goOn := make(chan struct{})
		stopped := sync.OnceFunc(func() { <-goOn })
		b.store.with(func() {
			b.store.onSet = func(written bool) {
				if written {
					stopped()
				}
			}
		})
		late := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { late <- b.w.Register(ctx, "host-a", "key-of-the-agent-1") }()
		b.pass(time.Second)
		giveBack := b.leases.steal(leaseName("host-a"))
		b.store.with(func() { b.store.onSet = nil })
		giveBack()
		next := &bench{t: t, store: b.store, leases: b.leases}
		next.restart(f)
		defer next.stop()
		next.pass(10 * time.Second)
		if err := next.w.Register(t.Context(), "host-a", "key-of-the-agent-2"); err != nil {
			t.Fatalf("the next owner: %v", err)
		}
		close(goOn)
		next.pass(10 * time.Second)
		if err := <-late; err == nil || ctx.Err() != nil {
			t.Errorf("who waits for the late write is told %v", err)
		}
		if !b.store.watches("host-a", "key-of-the-agent-2") || b.store.watches("host-a", "key-of-the-agent-1") {
			t.Errorf("after the late write: %+v", b.store.set("host-a"))
		}
		next.stop()
		b.pass(10 * time.Second)
		list, err := b.w.Watches(t.Context(), "host-a")
		if err != nil || len(list) != 1 || list[0].KeyHash != events.HashKey("key-of-the-agent-2") {
			t.Errorf("the first is the owner again and watches %+v, %v", list, err)
		}
	})
}

// A process that was stopped while it took the set takes it from the rightful owner, late. That one takes it back, with
// whatever was written meanwhile, and loses nothing of its own.
func TestASetThatWasTakenLateIsTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, newFar())
		defer b.stop()
		b.pass(30 * time.Second)
		if err := b.w.Register(t.Context(), "host-a", "key-of-the-agent-1"); err != nil {
			t.Fatal(err)
		}
		set, _, err := b.store.TakeWatchSet(t.Context(), "host-a", "who was late")
		if err != nil {
			t.Fatal(err)
		}
		set.Refs = append(slices.Clone(set.Refs), events.WatchRef{KeyHash: events.HashKey("key-of-the-agent-2"), Registered: true, Since: time.Now()})
		if err := b.store.PutWatchSet(t.Context(), "host-a", "who was late", set); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.w.Register(ctx, "host-a", "key-of-the-agent-3"); err != nil {
			t.Errorf("register after that: %v", err)
		}
		b.pass(10 * time.Second)
		for _, key := range []string{"key-of-the-agent-1", "key-of-the-agent-2", "key-of-the-agent-3"} {
			if !b.store.watches("host-a", key) {
				t.Errorf("%s is not in the set: %+v", key, b.store.set("host-a"))
			}
		}
		if s := b.w.Status()[0]; !s.Owner || s.Registered != 3 || s.StoreTrouble {
			t.Errorf("status: %+v", s)
		}
	})
}

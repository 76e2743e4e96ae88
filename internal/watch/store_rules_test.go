package watch

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

func TestB32_RestartTellsNothingTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		for n := 1; n <= 20; n++ {
			p := operated(n, events.StateVerifying)
			f.put(p)
			f.with(func() { f.active = "" })
		}
		b.pass(10 * time.Minute)
		before := len(b.store.purchases(""))
		if before != 20 {
			t.Fatalf("%d events, want 20", before)
		}
		b.stop()
		b.restart(f)
		b.pass(10 * time.Minute)
		if n := len(b.store.purchases("")); n != before {
			t.Errorf("a restart published %d events", n-before)
		}
		b.stop()
		b.store.forgetState()
		b.restart(f)
		b.pass(10 * time.Minute)
		if n := len(b.store.purchases("")); n != before {
			t.Errorf("a restart with an emptied store published %d events", n-before)
		}
		f.edit(pid(3), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(10 * time.Minute)
		b.stop()
		b.wantStates(pid(3), "verifying:revision completed:revision")
	})
}

// A process that dies in the midst of first contact leaves it to the next one: nobody is told of what was over before, and
// what hangs is found.
func TestB32_DeathDuringFirstContact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		for n := 1; n <= 6; n++ {
			p := card(n, events.StateFailed)
			p.CreatedAt = time.Now().Add(-time.Hour)
			f.put(p)
		}
		f.byID[pid(5)].Money.Status = "refund_pending"
		f.put(operated(7, events.StateProcessing))
		f.with(func() { f.active = "" })
		f.put(operated(8, events.StateProcessing))
		b := start(t, f)
		for i := 0; len(b.store.set("host-a").Refs) < 8; i++ {
			if b.pass(10 * time.Millisecond); i > 6000 {
				t.Fatalf("found in a minute: %+v", b.store.set("host-a"))
			}
		}
		told := 0
		for n := 1; n <= 8; n++ {
			told += len(b.store.purchases(pid(n)))
		}
		b.stop()
		if told > 1 { // the one that the look shows
			t.Errorf("%d are told of, so this shows nothing", told)
		}
		b.restart(f)
		b.pass(10 * time.Minute)
		b.stop()
		for n := 1; n <= 8; n++ {
			b.wantStates(pid(n), map[int]string{
				5: "failed:baseline", 7: "processing:baseline", 8: "processing:baseline",
			}[n])
		}
		for _, r := range b.store.set("host-a").Refs {
			if r.Baseline || r.Probe {
				t.Errorf("still of first contact: %+v", r)
			}
		}
	})
}

// A state store that was emptied takes no purchase with it: one that no look and no list leads to, and whose money hangs,
// is followed on by what the stream says.
func TestEmptiedStoreForgetsNoHangingMoney(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateVerifying))
		b.pass(5 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "refund_pending" })
		b.pass(5 * time.Minute)
		b.stop()
		f.with(func() { f.list = nil })
		b.store.forgetState()
		b.restart(f)
		defer b.stop()
		b.pass(time.Hour)
		f.edit(pid(1), func(p *envoy.Purchase) { p.Money.Status = "refunded" })
		f.with(func() { f.list = nil })
		b.pass(8 * time.Hour)
		b.wantStates(pid(1), "verifying:revision completed:revision completed:revision")
	})
}

// A store that is emptied while we watch takes the leases along. What hosts registered is known to this process all the
// same, and what came and went meanwhile is told.
func TestEmptiedStoreForgetsNoRegistration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		if err := b.w.Register(t.Context(), "host-a", "key-of-the-agent-5"); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Minute)
		b.store.forgetState()
		giveBack := b.leases.steal(leaseName("host-a"))
		b.pass(time.Second)
		p := operated(6, events.StateCompleted)
		p.Money.Status = "debited"
		f.put(p)
		giveBack()
		b.pass(time.Minute)
		refs := b.store.set("host-a").Refs
		if len(refs) != 1 || refs[0].KeyHash != events.HashKey("key-of-the-agent-5") || !refs[0].Registered {
			t.Errorf("watched after it was emptied: %+v", refs)
		}
		b.wantStates(pid(6), "completed:revision")
	})
}

// A stream that is away for a day costs no memory, is shown, and loses nothing.
func TestWhatCannotBeFoundAgainIsShown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		b.store.with(func() { b.store.noBus = true })
		f.put(card(1, events.StateProcessing))
		b.pass(24 * time.Hour)
		waiting := 0
		err := b.w.inTerm(t.Context(), "host-a", func(_ context.Context, m *term, _ time.Time) error {
			waiting = len(m.byID[pid(1)].pending)
			return nil
		})
		if err != nil || waiting != 1 {
			t.Errorf("%d showings wait: %v", waiting, err)
		}
		if s := b.w.Status()[0]; !s.Blind {
			t.Errorf("it is not shown: %+v", s)
		}
		b.store.with(func() { b.store.noBus = false })
		b.pass(10 * time.Minute)
		b.wantStates(pid(1), "processing:revision")
		if s := b.w.Status()[0]; s.Blind {
			t.Errorf("it is still shown: %+v", s)
		}
	})
}

// A change while nobody watched is told after the restart, whatever of the stores is left.
func TestB32_RealChangesComeThrough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		b.stop()
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.store.forgetState()
		b.restart(f)
		b.pass(2 * time.Minute)
		b.stop()
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.restart(f)
		b.pass(2 * time.Minute)
		b.stop()
		b.wantStates(pid(1), "processing:revision verifying:revision completed:revision")
	})
}

// While an event is not stored its purchase is not read again, and the event is not lost.
func TestNothingIsReadWhileAnEventIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		b.store.with(func() { b.store.noBus = true })
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.pass(10 * time.Second)
		f.forgetCalls()
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(20 * time.Minute)
		for _, a := range f.made("") {
			if a.tool != envoy.ToolList {
				t.Errorf("%s while an event is not stored", a.tool)
			}
		}
		if n := counter(t, b.w.metrics.publishErrors); n < 10 {
			t.Errorf("%v failures counted", n)
		}
		if s := b.w.Status()[0]; !s.Blind || s.Unpublished != 1 {
			t.Errorf("status: %+v", s)
		}
		b.store.with(func() { b.store.noBus = false })
		b.pass(2 * time.Minute)
		b.wantStates(pid(1), "processing:revision verifying:revision completed:revision")
		if n := b.store.noticed(events.NoticeBlind); len(n) != 0 {
			t.Errorf("blindness told where the bus was away: %+v", n)
		}
	})
}

func TestB31_StateStoreAwayIsNotAlreadySaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		b.store.with(func() { b.store.noState = true })
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.pass(5 * time.Second)
		b.wantStates(pid(1), "processing:revision verifying:revision") // now, not after recovery
		b.stop()
		b.restart(f) // and a start without the store
		f.put(operated(2, events.StateProcessing))
		b.pass(5 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(5 * time.Minute)
		if c := b.store.cursor(pid(1)); c.Revision != 1 {
			t.Errorf("the store took %+v", c)
		}
		if n := counter(t, b.w.metrics.storeErrors.WithLabelValues("cursor")); n == 0 {
			t.Error("the trouble is not counted")
		}
		if !b.w.Status()[0].StoreTrouble {
			t.Error("the trouble is not shown")
		}
		b.store.with(func() { b.store.noState = false })
		b.pass(5 * time.Minute)
		b.stop()
		b.wantStates(pid(1), "processing:revision verifying:revision completed:revision")
		if c := b.store.cursor(pid(1)); c.Revision != 3 {
			t.Errorf("after recovery the cursor is %+v", c)
		}
		if !b.store.set("host-a").Baselined {
			t.Error("the set was not stored after recovery")
		}
	})
}

func TestLostAcknowledgementSaysNothingTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		b.store.with(func() { b.store.loseAck = 2 })
		f.put(operated(1, events.StateProcessing))
		b.pass(5 * time.Minute)
		b.wantStates(pid(1), "processing:revision")
	})
}

func TestLostLeaseStopsEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		// Another worker takes the lease.
		first := b.w
		release := b.leases.steal(leaseName("host-a"))
		b.pass(time.Second)
		if s := first.Status()[0]; s.Owner || s.Holds != 0 {
			t.Errorf("still at work: %+v", s)
		}
		f.forgetCalls()
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.pass(10 * time.Minute)
		if n := len(f.made("")); n != 0 {
			t.Errorf("%d calls without the lease", n)
		}
		if err := first.Register(t.Context(), "host-a", pid(3)); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("registration without the lease: %v", err)
		}
		release()
		b.pass(time.Minute)
		b.stop()
		b.wantStates(pid(1), "processing:revision verifying:revision")
	})
}

// Another owner that is ahead ends the term; what it published is not said again.
func TestNewerOwnerWins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		last := b.store.purchases(pid(1))[0]
		at := last.Position()
		at.Revision += 5
		ahead := events.Still(last, at)
		if _, err := b.store.Publish(context.Background(), ahead, uint64(b.store.last["/connections/host-a"+pid(1)])+1); err != nil {
			t.Fatal(err)
		}
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Revision = "verifying", p.Revision+1 })
		b.pass(50 * time.Second) // after a minute of lower revisions the far side would count as restored
		b.wantStates(pid(1), "processing:revision processing:still")
		f.edit(pid(1), func(p *envoy.Purchase) { p.Revision = 9 })
		b.pass(2 * time.Minute)
		b.wantStates(pid(1), "processing:revision processing:still verifying:revision")
	})
}

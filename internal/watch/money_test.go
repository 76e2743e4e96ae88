package watch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

func TestProofOfNotCharged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		p := operated(1, events.StateProcessing)
		p.Approval.State = ptr("approved")
		f.put(p)
		b.pass(2 * time.Minute)
		f.with(func() { f.heldMny = &envoy.HeldPurchases{Available: false, Reason: ptr("upstream_unavailable")} })
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "failed" })
		b.pass(30 * time.Minute)
		f.with(func() {
			f.heldMny = f.nothingHeld()
			f.heldMny.Truncated = nil // null is not false
		})
		b.pass(time.Hour)
		list := b.store.purchases(pid(1))
		last := list[len(list)-1].Purchase
		if len(list) != 2 || last.Situation != events.SituationNeedsSupport || last.Money != events.MoneyUnknown || last.MoneyBasis != events.BasisMoneyNotProven {
			t.Fatalf("%d events, the last: %s %s %s", len(list), last.Situation, last.Money, last.MoneyBasis)
		}
		f.with(func() { f.heldMny = f.nothingHeld() })
		b.pass(time.Hour)
		list = b.store.purchases(pid(1))
		last = list[len(list)-1].Purchase
		if len(list) != 3 || last.Situation != events.SituationStopped || last.Money != events.MoneyNotCharged || last.Reading.Cause != events.CauseReading || last.Reading.N != 1 {
			t.Errorf("%d events, the last: %s %s %+v", len(list), last.Situation, last.Money, last.Reading)
		}
		if c := b.w.Status()[0]; c.Unsettled != 0 {
			t.Errorf("still watched: %+v", c)
		}
	})
}

// A look that is older than the end of a purchase proves nothing about it.
func TestOldLookProvesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		p := operated(1, events.StateProcessing)
		p.Approval.State = ptr("approved")
		f.put(p)
		b.pass(2 * time.Minute)
		f.with(func() {
			f.onLook = func(int) error { return &envoy.Outage{Kind: envoy.OutageStatus, Status: 502} }
			no := false
			f.heldMny = &envoy.HeldPurchases{Available: true, Truncated: &no, Items: []envoy.HeldItem{{PurchaseID: pid(1), State: "held"}}}
		})
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "failed" })
		b.pass(10 * time.Minute)
		list := b.store.purchases(pid(1))
		if last := list[len(list)-1].Purchase; last.Situation != events.SituationNeedsSupport {
			t.Errorf("%s with %s (%s), though nobody could look", last.Situation, last.Money, last.MoneyBasis)
		}
	})
}

// A look from the time when Envoy's clock was ahead proves nothing about what ended after the clock went back.
func TestLookOfAClockThatJumpedProvesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		p := operated(1, events.StateProcessing)
		p.Approval.State = ptr("approved")
		f.put(p)
		f.with(func() { f.skew = 3 * time.Hour })
		b.pass(3 * time.Minute)
		f.with(func() {
			f.skew = 0
			f.onLook = func(int) error { return &envoy.Outage{Kind: envoy.OutageStatus, Status: 502} }
		})
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "failed" })
		b.pass(10 * time.Minute)
		list := b.store.purchases(pid(1))
		if last := list[len(list)-1].Purchase; last.Situation != events.SituationNeedsSupport || last.MoneyBasis != events.BasisMoneyNotProven {
			t.Errorf("%s with %s (%s), by a look of the future", last.Situation, last.Money, last.MoneyBasis)
		}
		f.with(func() { f.onLook = nil })
		b.pass(time.Hour)
		list = b.store.purchases(pid(1))
		if last := list[len(list)-1].Purchase; last.Situation != events.SituationStopped {
			t.Errorf("%s with %s (%s), though a look has shown that nothing is held", last.Situation, last.Money, last.MoneyBasis)
		}
	})
}

func TestUnsettledIsFollowedThenGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		p := operated(1, events.StateProcessing)
		f.put(p)
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "failed", "unknown" })
		b.pass(24 * time.Hour)
		f.forgetCalls()
		b.pass(24 * time.Hour)
		if n := len(f.made(envoy.ToolStatus)); n < 4 || n > 10 {
			t.Errorf("%d reads on the second day, want about six", n)
		}
		b.pass(27 * 24 * time.Hour)
		if n := len(b.store.noticed(events.NoticeGaveUp)); n != 0 {
			t.Fatalf("given up after 29 days")
		}
		b.pass(2 * 24 * time.Hour)
		if n := b.store.noticed(events.NoticeGaveUp); len(n) != 1 || n[0].Notice.PurchaseID != pid(1) {
			t.Fatalf("%d notices of giving up", len(n))
		}
		f.forgetCalls()
		b.pass(24 * time.Hour)
		if n := len(f.made(envoy.ToolStatus)); n != 0 {
			t.Errorf("read %d times after giving up", n)
		}
		// Still events kept the state alive: one at least every half retention.
		last := time.Time{}
		for i, at := range b.store.times(pid(1)) {
			if i > 1 && at.Sub(last) > 85*time.Hour {
				t.Errorf("%s between two events", at.Sub(last))
			}
			last = at
		}
		if got := b.states(pid(1)); !strings.HasPrefix(got, "processing:revision failed:revision failed:still failed:still") || strings.Count(got, "still") != 8 {
			t.Error(got)
		}
	})
}

func TestSupersededChainIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		next := func(n int, named bool) {
			p := operated(n+1, events.StateWaitingForUser)
			p.Chain.Supersedes = ptr(pid(n))
			f.edit(pid(n), func(p *envoy.Purchase) {
				p.State = "superseded"
				if named {
					p.Chain.SupersededBy = ptr(pid(n + 1))
				}
			})
			f.put(p)
			b.pass(2 * time.Minute)
		}
		next(1, true)
		next(2, false) // the link is missing
		b.stop()
		b.restart(f)
		b.pass(time.Minute)
		next(3, true)
		f.edit(pid(4), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(30 * time.Hour)
		b.stop()
		for n := 1; n <= 4; n++ {
			list := b.store.purchases(pid(n))
			if len(list) == 0 {
				t.Fatalf("purchase %d of the chain was not told", n)
			}
			for _, e := range list {
				if e.Purchase.ChainRoot != pid(1) {
					t.Errorf("%s has the root %s", e.ID, e.Purchase.ChainRoot)
				}
			}
		}
		if refs := b.store.set("host-a").Refs; len(refs) != 0 {
			t.Errorf("still watched: %+v", refs)
		}
	})
}

// What was proven once is not doubted when the account cannot be read later.
func TestProofIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		f.put(card(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "failed" })
		b.pass(5 * time.Minute)
		list := b.store.purchases(pid(1))
		if last := list[len(list)-1].Purchase; last.Situation != events.SituationStopped || last.Money != events.MoneyNotCharged {
			t.Errorf("it ended as %s, %s", last.Situation, last.Money)
		}
		b.stop()
		f.with(func() { f.heldMny = &envoy.HeldPurchases{} })
		b.restart(f)
		defer b.stop()
		b.pass(time.Minute)
		f.forgetCalls()
		if err := b.w.Register(t.Context(), "host-a", pid(1)); err != nil {
			t.Fatal(err)
		}
		b.pass(10 * time.Minute)
		if len(f.made(envoy.ToolStatus)) == 0 {
			t.Error("it was not read again, so this test shows nothing")
		}
		if n := len(b.store.purchases(pid(1))); n != len(list) {
			t.Errorf("%d events more", n-len(list))
		}
	})
}

// A successor that does not name its predecessor belongs to the chain all the same, and what a host registered goes on to it.
func TestSuccessorTakesAfterItsPredecessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		if err := b.w.Register(t.Context(), "host-a", pid(1)); err != nil {
			t.Fatal(err)
		}
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Chain.SupersededBy = "superseded", ptr(pid(2)) })
		f.put(operated(2, events.StateProcessing))
		b.pass(5 * time.Minute)
		b.wantStates(pid(2), "processing:revision")
		if root := b.store.purchases(pid(2))[0].Purchase.ChainRoot; root != pid(1) {
			t.Errorf("the root of the chain is %s", root)
		}
		refs := b.store.set("host-a").Refs
		if i := slices.IndexFunc(refs, func(r events.WatchRef) bool { return r.PurchaseID == pid(2) }); i < 0 || !refs[i].Registered {
			t.Errorf("what was registered does not go on: %+v", refs)
		}
	})
}

// One that revives beside the active purchase is shown by the list alone.
func TestSettledPurchaseThatRevivesBesideAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(2 * time.Minute)
		f.put(operated(2, events.StateProcessing))
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.pass(10 * time.Minute)
		b.wantStates(pid(1), "processing:revision completed:revision verifying:revision")
	})
}

func TestSettledPurchaseThatRevivesIsWatchedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(time.Hour)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "verifying", "unknown" })
		b.pass(10 * time.Minute)
		f.with(func() { f.active = "" })
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(time.Hour)
		// Held money of a purchase that is settled as far as we know.
		f.with(func() { f.heldMny.Items = []envoy.HeldItem{{PurchaseID: pid(1), State: "returning"}} })
		b.pass(time.Hour)
		f.with(func() { f.heldMny = f.nothingHeld() })
		b.pass(24 * time.Hour)
		b.wantStates(pid(1), "processing:revision completed:revision verifying:revision completed:revision completed:reading completed:reading")
		if n := b.w.Status()[0]; n.Unsettled != 0 || n.Open != 0 {
			t.Errorf("%+v", n)
		}
	})
}

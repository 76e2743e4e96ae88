package watch

import (
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// newest cuts the list to the newest twenty, as Envoy does.
func (f *far) newest() {
	f.with(func() {
		if n := len(f.list) - 20; n > 0 {
			f.list = f.list[n:]
		}
	})
}

// A user with more than twenty purchases: what has fallen out of the list is followed all the same, by its held money or
// because it was followed before, and what has come is found.
func TestMoreThanTwentyPurchases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(card(1, events.StateProcessing)) // will hang, with a refund under way
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "failed", "refund_pending" })
		b.pass(2 * time.Minute)
		for n := 2; n <= 30; n++ { // each comes and goes between two looks
			p := card(n, events.StateCompleted)
			p.Money.Status = "debited"
			f.put(p)
			f.newest()
			if n%15 == 0 {
				b.pass(6 * time.Minute)
			}
		}
		hanging := card(31, events.StateFailed) // never in any list, and its money is held
		f.put(hanging)
		f.with(func() {
			f.list = f.list[:len(f.list)-1]
			f.heldMny.Items = []envoy.HeldItem{{PurchaseID: pid(31), State: "held", Exact: true}}
		})
		b.pass(10 * time.Minute)
		for n := 2; n <= 30; n++ {
			b.wantStates(pid(n), "completed:revision")
		}
		b.wantStates(pid(31), "failed:revision")
		f.edit(pid(1), func(p *envoy.Purchase) { p.Money.Status = "refunded" })
		f.with(func() { f.heldMny = f.nothingHeld() })
		f.newest()
		b.pass(2 * time.Hour)
		b.wantStates(pid(1), "processing:revision failed:revision failed:revision")
		if last := b.store.purchases(pid(31)); last[len(last)-1].Purchase.Unsettled {
			t.Error("the money of purchase 31 came free, and nobody was told")
		}
	})
}

// As long as no look says whose purchases are this connection's, what only a list shows may be another host's: it is not read.
func TestNothingIsReadBeforeItIsKnownWhoseItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		p := operated(1, events.StateFailed)
		p.Agent.AgentID = "agent-of-others"
		f.put(p)
		mine := operated(2, events.StateFailed)
		mine.Money.Status = "refund_pending"
		f.put(mine)
		f.onLook = func(int) error { return refusal(envoy.CodeUnavailable, false, 0) }
		b := start(t, f)
		defer b.stop()
		b.pass(6 * time.Minute)
		if n := len(f.made(envoy.ToolStatus)); n != 0 {
			t.Errorf("%d reads before a look", n)
		}
		f.with(func() { f.onLook = nil })
		b.pass(15 * time.Minute)
		b.wantStates(pid(1), "")
		b.wantStates(pid(2), "failed:baseline")
	})
}

// A list that lags shows states that are over: no event comes from it, and nothing is read because of it twice.
func TestLaggingListSaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		lagging := func() { f.list[0].State = "processing" }
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		f.with(lagging)
		b.pass(time.Minute)
		f.forgetCalls()
		b.pass(time.Hour)
		b.wantStates(pid(1), "processing:revision completed:revision")
		if n := len(f.made(envoy.ToolStatus)); n > 13 { // one a list at the most
			t.Errorf("%d reads in an hour because of a list that lags", n)
		}
	})
}

// A gift card that had failed is revived and becomes ready while the list still shows its end: it is not read, since looks
// show it as active. When it has really ended, that is told as soon as a look does not show it.
func TestLaggingListPermitsNoReadOfARevivedPurchase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		gift := card(1, events.StateFailed)
		gift.Rail = ptr("gift_card")
		gift.Money.Status = "refunded"
		f.put(gift)
		b.pass(6 * time.Minute)
		b.wantStates(pid(1), "failed:revision")
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "ready", "not_started" })
		f.with(func() { f.list[0].State = "failed" })
		f.forgetCalls()
		b.pass(7 * time.Hour)
		for _, a := range f.made(envoy.ToolStatus) {
			t.Errorf("ready, and read: %+v", a)
		}
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "completed" })
		b.pass(7 * time.Minute)
		b.wantStates(pid(1), "failed:revision ready:revision completed:revision")
	})
}

// A budget that is much too small: the urgent go first, and nobody waits for much longer than five minutes.
func TestStarvedBudgetLeavesNobodyOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const perMinute, hanging = 6, 8
		f := newFar()
		b := start(t, f, func(o *Options) { o.Policy.RequestsPerMinute = perMinute })
		defer b.stop()
		b.pass(10 * time.Minute)
		f.put(card(100, events.StateProcessing))
		b.pass(time.Minute)
		for n := 1; n <= hanging; n++ { // money that is asked about every minute at first
			p := card(n, events.StateFailed)
			p.Money.Status = "refund_pending"
			f.put(p)
		}
		f.forgetCalls()
		for i := range 20 { // it never stands still for long enough to be looked at less: 12 looks a minute are wanted
			b.pass(90 * time.Second)
			f.edit(pid(100), func(p *envoy.Purchase) { p.State = []string{"ready", "processing"}[i%2] })
		}
		reads := map[string]int{}
		var all []time.Time
		looks := 0
		for _, a := range f.made("") {
			all = append(all, a.at)
			switch a.tool {
			case envoy.ToolStatus:
				reads[a.req.Purchase]++
			case envoy.ToolAccount:
				looks++
			case envoy.ToolList:
			}
		}
		if n := most(all, time.Minute); n > perMinute {
			t.Errorf("%d calls in a minute, the budget is %d", n, perMinute)
		}
		if looks < len(all)*2/3 {
			t.Errorf("%d looks of %d calls: the purchase that moves does not go first", looks, len(all))
		}
		for n := 1; n <= hanging; n++ {
			if reads[pid(n)] < 2 {
				t.Errorf("purchase %d was read %d times in half an hour", n, reads[pid(n)])
			}
		}
		if n := len(b.store.purchases(pid(100))); n < 18 {
			t.Errorf("%d events of the purchase that moves", n)
		}
	})
}

package watch

import (
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// What a watch has waited for counts from its beginning, however often the process starts again meanwhile.
func TestAgesOutliveRestarts(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(*far, *bench) error
		every time.Duration // between restarts
		until time.Duration // not given up so soon
		then  time.Duration // but by then
		kind  events.NoticeKind
	}{
		{"a key that does not show up: a day", func(_ *far, b *bench) error {
			return b.w.Register(b.t.Context(), "host-a", "key-of-nobody-at-all")
		}, 5 * time.Hour, 23 * time.Hour, 25 * time.Hour, events.NoticeNotFound},
		{"an id that Envoy does not know: ten minutes", func(_ *far, b *bench) error {
			return b.w.Register(b.t.Context(), "host-a", pid(9))
		}, 4 * time.Minute, 9 * time.Minute, 13 * time.Minute, events.NoticeNotFound},
		{"money that hangs: thirty days", func(f *far, _ *bench) error {
			p := operated(1, events.StateFailed)
			p.Money.Status = "refund_pending"
			f.put(p)
			return nil
		}, 6 * 24 * time.Hour, 29 * 24 * time.Hour, 31 * 24 * time.Hour, events.NoticeGaveUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := start(t, f)
				defer func() { b.stop() }()
				b.pass(30 * time.Second)
				began := time.Now()
				if err := c.begin(f, b); err != nil {
					t.Fatal(err)
				}
				age := func() time.Duration { return time.Since(began) }
				for age() < c.then {
					told := len(b.store.noticed(c.kind))
					if age() < c.until && told > 0 {
						t.Fatalf("given up after %s", age())
					}
					if b.pass(c.every); age() < c.until {
						b.stop()
						b.restart(f)
					}
				}
				if n := len(b.store.noticed(c.kind)); n != 1 {
					t.Errorf("%d notices of giving up after %s", n, age())
				}
				if refs := b.store.set("host-a").Refs; len(refs) != 0 {
					t.Errorf("still watched: %+v", refs)
				}
			})
		})
	}
}

// What was given up is not found again by its money or by a list; who wants it watched all the same says so.
func TestGivenUpStaysGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f, func(o *Options) { o.Policy.GiveUp = 2 * time.Hour })
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "failed" })
		f.with(func() { f.heldMny.Items = []envoy.HeldItem{{PurchaseID: pid(1), State: "held", Exact: true}} })
		b.pass(3 * time.Hour)
		if n := len(b.store.noticed(events.NoticeGaveUp)); n != 1 {
			t.Fatalf("%d notices of giving up", n)
		}
		f.forgetCalls()
		b.pass(24 * time.Hour)
		if n := len(f.made(envoy.ToolStatus)); n != 0 {
			t.Errorf("given up, and read %d times", n)
		}
		if n := len(b.store.noticed(events.NoticeGaveUp)); n != 1 {
			t.Errorf("%d notices of giving up", n)
		}
		f.edit(pid(1), func(p *envoy.Purchase) { p.Money.Status = "refunded" })
		f.with(func() { f.heldMny = f.nothingHeld() })
		if err := b.w.Register(t.Context(), "host-a", pid(1)); err != nil {
			t.Fatal(err)
		}
		b.pass(10 * time.Minute)
		list := b.store.purchases(pid(1))
		if last := list[len(list)-1].Purchase; last.Money != events.MoneyRefunded || last.Unsettled {
			t.Errorf("registered again, and the last that is told of it is %s, %s", last.State, last.Money)
		}
	})
}

// An open purchase that Envoy does not have any more is given up in the end too.
func TestLostPurchaseIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := watching(t, f)
		defer b.stop()
		f.with(func() {
			f.active = ""
			f.onStatus = func(int, envoy.StatusRequest) error { return refusal(envoy.CodeNotFound, false, 0) }
		})
		b.pass(29 * 24 * time.Hour)
		if n := len(b.store.noticed(events.NoticeGaveUp)); n != 0 {
			t.Error("given up too soon")
		}
		b.pass(2 * 24 * time.Hour)
		if n := b.store.noticed(events.NoticeGaveUp); len(n) != 1 || n[0].Notice.PurchaseID != pid(1) {
			t.Errorf("%d notices of giving up", len(n))
		}
	})
}

// A superseded purchase whose successor is not named at first is asked for a day long, and then let go of.
func TestSuccessorIsNamedLate(t *testing.T) {
	for after, want := range map[time.Duration]string{20 * time.Hour: "processing:revision", 30 * time.Hour: ""} {
		bubble(t, func(t *testing.T) {
			f := newFar()
			b := start(t, f)
			defer b.stop()
			b.pass(30 * time.Second)
			f.put(operated(1, events.StateProcessing))
			b.pass(2 * time.Minute)
			f.edit(pid(1), func(p *envoy.Purchase) { p.State = "superseded" })
			next := operated(2, events.StateProcessing)
			f.put(next)
			f.with(func() { f.active, f.list = "", nil }) // only the link leads to it
			b.pass(after)
			f.edit(pid(1), func(p *envoy.Purchase) { p.Chain.SupersededBy = ptr(pid(2)) })
			f.with(func() { f.active, f.list = "", nil })
			f.forgetCalls()
			b.pass(3 * time.Hour)
			b.wantStates(pid(2), want)
			if want == "" && len(f.made(envoy.ToolStatus)) > 0 {
				t.Error("it is still read")
			}
		})
	}
}

package watch

import (
	"reflect"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// content is what an event says of its purchase, without what belongs to the reply that told it.
func content(e events.Event) events.Purchase {
	p := *e.Purchase
	p.Reading, p.Previous, p.Overdue, p.Support, p.SourceOfReading = events.ReadingInfo{}, nil, nil, events.Support{}, ""
	return p
}

// agrees checks that the newest event of every purchase that is followed can be made again.
func agrees(t *testing.T, b *bench, step string, kept bool) {
	t.Helper()
	followed := 0
	for _, k := range b.w.allKeepers() {
		tm := k.current()
		for id, p := range tm.byID {
			list := b.store.purchases(id)
			if len(list) == 0 || p.publishing != nil {
				continue
			}
			followed++
			want, got := list[len(list)-1], tm.newest(p)
			raw, err := events.Encode(*got)
			if err != nil {
				t.Fatal(err)
			}
			again, err := events.Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			if got.ID != want.ID || again.Position() != want.Position() || !reflect.DeepEqual(content(again), content(want)) {
				t.Errorf("%s: %s is made again as\n%+v, was\n%+v", step, want.ID, content(again), content(want))
			}
			if kept != (p.last != nil) {
				t.Errorf("%s: the event of the stream is kept: %v", step, p.last != nil)
			}
		}
	}
	if followed == 0 {
		t.Errorf("%s: nothing is followed", step)
	}
}

func TestNewestEventIsMadeAgainAsItWas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		f.put(operated(1, events.StateProcessing))
		f.put(card(2, events.StateProcessing))
		b := start(t, f)
		defer func() { b.stop() }()
		b.pass(2 * time.Minute)
		agrees(t, b, "first", false)
		by := time.Now().Add(5 * time.Minute)
		f.edit(pid(2), func(p *envoy.Purchase) {
			p.State, p.Approval.DecideBy, p.StatusText = string(events.StateWaitingForUser), &by, "Waiting."
		})
		b.pass(time.Minute)
		agrees(t, b, "changed", false)
		f.with(func() {
			f.heldMny.Items = []envoy.HeldItem{{PurchaseID: pid(2), State: "held", Exact: true, Amount: &envoy.Amount{Minor: 5, Currency: "INR"}}}
		})
		b.pass(time.Minute)
		agrees(t, b, "money held", false)
		b.pass(10 * time.Minute)
		agrees(t, b, "overdue", false)
		b.stop()
		b.restart(f)
		b.pass(2 * time.Minute)
		agrees(t, b, "started again", false)
	})
}

package watch

import (
	"context"
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

// agrees checks that the newest event of every purchase that is followed can be made again. The loop itself does it.
func agrees(t *testing.T, b *bench, step string) {
	t.Helper()
	for _, k := range b.w.allKeepers() {
		tm, done := k.current(), make(chan int)
		tm.inbox <- func(context.Context, time.Time) {
			followed := 0
			for id, p := range tm.byID {
				if list := b.store.purchases(id); len(list) > 0 && p.publishing == nil {
					followed++
					madeAgain(t, step, tm, p, list[len(list)-1])
				}
			}
			done <- followed
		}
		if n := <-done; n != 2 {
			t.Errorf("%s: %d purchases are followed", step, n)
		}
	}
}

func madeAgain(t *testing.T, step string, tm *term, p *purchase, want events.Event) {
	raw, err := events.Encode(*tm.newest(p))
	if err != nil {
		t.Error(err)
		return
	}
	got, err := events.Decode(raw)
	if err != nil {
		t.Error(err)
		return
	}
	if got.ID != want.ID || got.Position() != want.Position() || !reflect.DeepEqual(content(got), content(want)) {
		t.Errorf("%s: %s is made again as\n%+v, was\n%+v", step, want.ID, content(got), content(want))
	}
	if p.last != nil {
		t.Errorf("%s: the event of the stream is still kept", step)
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
		agrees(t, b, "first")
		by := time.Now().Add(5 * time.Minute)
		f.edit(pid(2), func(p *envoy.Purchase) {
			p.State, p.Approval.DecideBy, p.StatusText = string(events.StateWaitingForUser), &by, "Waiting."
		})
		b.pass(time.Minute)
		agrees(t, b, "changed")
		f.with(func() {
			f.heldMny.Items = []envoy.HeldItem{{PurchaseID: pid(2), State: "held", Exact: true, Amount: &envoy.Amount{Minor: 5, Currency: "INR"}}}
		})
		b.pass(time.Minute)
		agrees(t, b, "money held")
		b.pass(10 * time.Minute)
		agrees(t, b, "overdue")
		b.stop()
		b.restart(f)
		b.pass(2 * time.Minute)
		agrees(t, b, "started again")
	})
}

package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
)

// What wants a call is as urgent as its purchase: a deadline within a minute, a first look, what moves, what hangs.
func TestUrgencyOfAPurchase(t *testing.T) {
	shown := func(s events.State, edit func(*purchase)) *purchase {
		p := &purchase{id: pid(1), state: s, known: true, snap: &events.Snapshot{State: s}}
		if edit != nil {
			edit(p)
		}
		return p
	}
	due := func(in time.Duration) func(*purchase) {
		return func(p *purchase) { p.snap.Approval.DecideBy = ptr(t0.Add(in)) }
	}
	for name, c := range map[string]struct {
		p    *purchase
		want class
	}{
		"a deadline within a minute":    {shown(events.StateWaitingForUser, due(time.Minute)), classDeadline},
		"one that has just passed":      {shown(events.StateWaitingForUser, due(-30*time.Second)), classDeadline},
		"one that is further":           {shown(events.StateWaitingForUser, due(61*time.Second)), classOpen},
		"never shown and never told":    {&purchase{id: pid(1)}, classFirst},
		"processing":                    {shown(events.StateProcessing, nil), classMoving},
		"ready":                         {shown(events.StateReady, nil), classMoving},
		"ended, and its money hangs":    {shown(events.StateFailed, func(p *purchase) { p.over, p.hangs = true, true }), classUnsettled},
		"verifying":                     {shown(events.StateVerifying, func(p *purchase) { p.hangs = true }), classUnsettled},
		"told before, not shown so far": {&purchase{id: pid(1), known: true, state: events.StateVerifying, cursor: events.Cursor{Last: events.Reading{Unsettled: true}}}, classUnsettled},
		"any other that is open":        {shown(events.StateNeedsDetails, nil), classOpen},
	} {
		if got := c.p.class(t0); got != c.want {
			t.Errorf("%s: class %d, want %d", name, got, c.want)
		}
	}
}

// Every deadline that Envoy names is known: the nearest one sets the pace.
func TestDeadlinesOfEveryKind(t *testing.T) {
	at := func(m int) *time.Time { return ptr(t0.Add(time.Duration(m) * time.Minute)) }
	s := events.Snapshot{Revision: 4, Funding: &events.Funding{ExpiresAt: at(3)}}
	s.Approval.DecideBy, s.PaymentReady.ExpiresAt = at(4), at(5)
	said := &told{revision: 4, nextBy: at(1), actionBy: at(2)}
	want := events.Deadlines{NextBy: at(1), UserActionBy: at(2), FundingExpires: at(3), ApprovalBy: at(4), SpendingExpires: at(5)}
	d := deadlinesOf(s, said)
	if fmt.Sprint(*d.NextBy, *d.UserActionBy, *d.FundingExpires, *d.ApprovalBy, *d.SpendingExpires) !=
		fmt.Sprint(*want.NextBy, *want.UserActionBy, *want.FundingExpires, *want.ApprovalBy, *want.SpendingExpires) {
		t.Errorf("deadlines are %+v", d)
	}
	for m, drop := range []func(){
		func() { d.NextBy = nil }, func() { d.UserActionBy = nil }, func() { d.FundingExpires = nil },
		func() { d.ApprovalBy = nil }, func() { d.SpendingExpires = nil },
	} {
		if got := nearest(d, t0); !got.Equal(*at(m + 1)) {
			t.Errorf("the nearest is after %s, want %d minutes", got.Sub(t0), m+1)
		}
		if !passed(d, *at(m + 1)) {
			t.Errorf("at %d minutes none has passed", m+1)
		}
		drop()
	}
	said.revision = 3 // what was said of another revision binds nobody
	if d := deadlinesOf(s, said); d.NextBy != nil || d.UserActionBy != nil || d.ApprovalBy == nil {
		t.Errorf("after another revision the deadlines are %+v", d)
	}
}

// Money that is asked about seldom is no blindness, and neither is a connection that is looked at seldom.
func TestSlowPacesAreNotBlind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		p := operated(1, events.StateFailed)
		p.Money.Status = "refund_pending"
		f.put(p)
		if err := b.w.Register(t.Context(), "host-a", pid(1)); err != nil {
			t.Fatal(err)
		}
		b.pass(4 * 24 * time.Hour)
		if n := b.store.noticed(events.NoticeBlind); len(n) != 0 {
			t.Errorf("%d notices of blindness, the first: %s", len(n), n[0].Notice.Text)
		}
		f.with(func() {
			f.onStatus = func(int, envoy.StatusRequest) error { return &envoy.Outage{Kind: envoy.OutageDial} }
		})
		b.pass(5 * time.Hour) // at this pace of six hours the newest reply is no older than eleven
		if n := len(b.store.noticed(events.NoticeBlind)); n != 0 {
			t.Error("alarm too soon")
		}
		b.pass(8 * time.Hour)
		if n := b.store.noticed(events.NoticeBlind); len(n) != 1 || n[0].Notice.PurchaseID != pid(1) {
			t.Errorf("%d notices of blindness", len(n))
		}
	})
}

// Connections that are taken over together begin within three seconds of each other, and not at once.
func TestTakeOversAreSpread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var fars []*far
		began := time.Now()
		b := start(t, newFar(), func(o *Options) {
			o.Connections = nil
			for i := range 60 {
				f := newFar()
				fars = append(fars, f)
				o.Connections = append(o.Connections, Connection{Name: fmt.Sprintf("host-%d", i), Reader: f})
			}
		})
		defer b.stop()
		b.pass(20 * time.Second)
		first, last := time.Hour, time.Duration(0)
		for _, f := range fars {
			at := f.made("")[0].at.Sub(began) - 1500*time.Millisecond // what a new owner's budget waits for its first call
			first, last = min(first, at), max(last, at)
		}
		if last > 3100*time.Millisecond || last-first < time.Second {
			t.Errorf("first calls from %s to %s after the take-over", first, last)
		}
	})
}

// keeping counts how often the set of a connection is written.
type keeping struct {
	*store
	writes atomic.Int64
}

func (k *keeping) PutWatchSet(ctx context.Context, name, owner string, s events.WatchSet) error {
	k.writes.Add(1)
	return k.store.PutWatchSet(ctx, name, owner, s)
}

// What is watched is written again each day although nothing changes: the store forgets what is not.
func TestSetIsWrittenEachDay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := &keeping{}
		b := start(t, newFar(), func(o *Options) {
			k.store = o.Sets.(*store)
			o.Sets = k
		})
		defer b.stop()
		b.pass(time.Hour)
		k.writes.Store(0)
		b.pass(10 * 24 * time.Hour)
		if n := k.writes.Load(); n < 9 || n > 12 {
			t.Errorf("%d writes in ten idle days", n)
		}
	})
}

// A list follows at once when another purchase becomes the active one: the one before it may have ended unseen.
func TestListFollowsAnotherActivePurchase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(card(1, events.StateProcessing))
		b.pass(7 * time.Minute)
		for n := 2; n < 6; n++ {
			gone := card(100+n, events.StateCompleted) // came and went between two looks
			gone.Money.Status = "debited"
			f.put(gone)
			f.with(func() { f.active = "" })
			f.put(card(n, events.StateProcessing))
			b.pass(70 * time.Second) // the slowest look, and what follows
			b.wantStates(pid(100+n), "completed:revision")
		}
	})
}

// A next that names another purchase by its key begins a watch of that one.
func TestNextOfAnotherKeyIsANewWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		f.put(operated(2, events.StateVerifying))
		f.with(func() {
			f.list = f.list[:1]
			f.next[pid(1)] = envoy.Next{
				Tool: ptr("get_purchase_status"), Args: []byte(`{"purchase":"` + f.byID[pid(2)].IdempotencyKey + `"}`),
			}
		})
		b.pass(3 * time.Minute)
		b.wantStates(pid(2), "verifying:revision")
	})
}

// A connection takes as many registrations as it can store. What is registered already is no further one.
func TestTooManyRegistrations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, newFar())
		defer b.stop()
		b.pass(30 * time.Second)
		if err := b.w.Register(t.Context(), "host-a", "key-that-comes-first"); err != nil {
			t.Fatal(err)
		}
		err := b.w.inTerm(t.Context(), "host-a", func(_ context.Context, m *term, now time.Time) error {
			for n := len(m.byKey); n < registrationLimit-1; n++ {
				p := m.trackKey(events.HashKey(fmt.Sprint("key-number-", n)), secret.Value{}, now, now)
				m.agenda.drop(p) // only to be counted
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b.pass(20 * time.Second)
		for range 3 { // one is left, and it is one however often it is asked for
			if err := b.w.Register(t.Context(), "host-a", pid(1)); err != nil {
				t.Fatalf("there is room: %v", err)
			}
		}
		if err := b.w.Register(t.Context(), "host-a", pid(2)); !errors.Is(err, ErrTooMany) {
			t.Errorf("one too many: %v", err)
		}
		r := httptest.NewRecorder()
		body := strings.NewReader(`{"connection":"host-a","purchase":"` + pid(2) + `"}`)
		b.w.Handler().ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/watches", body))
		if r.Code != http.StatusTooManyRequests || !strings.Contains(r.Body.String(), "too_many") {
			t.Errorf("one too many over HTTP: %d %s", r.Code, r.Body)
		}
		for _, again := range []string{pid(1), "key-that-comes-first"} {
			if err := b.w.Register(t.Context(), "host-a", again); err != nil {
				t.Errorf("registered already: %v", err)
			}
		}
	})
}

// A stream that was lost and made again takes no watch along: money that hangs is told there again in time, so that
// whoever has only the stream knows of it.
func TestLostStreamIsToldOfHangingMoney(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "failed", "refund_pending" })
		b.pass(10 * time.Minute)
		b.stop()
		b.store.with(func() { clear(b.store.last) }) // sequences go on, as they do in a stream whose messages have aged out
		before := len(b.store.purchases(pid(1)))
		b.restart(f)
		defer b.stop()
		b.pass(8 * 24 * time.Hour)
		list := b.store.purchases(pid(1))[before:]
		if len(list) < 2 {
			t.Fatalf("%d events in eight days", len(list))
		}
		for _, e := range list {
			if p := e.Purchase; p.Reading.Cause != events.CauseStill || p.State != events.StateFailed || p.Money != events.MoneyRefunding {
				t.Errorf("told as %s: %s, %s", p.Reading.Cause, p.State, p.Money)
			}
		}
	})
}

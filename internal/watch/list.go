package watch

import (
	"context"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// probeFor is how long ago a purchase that failed before first contact may have begun for its money to be asked about.
const probeFor = 14 * 24 * time.Hour

// list asks for the newest purchases: states only, and they may lag. It finds purchases, and tells which have ended.
func (t *term) list(ctx context.Context, now time.Time) {
	t.listing = true
	callCtx, cancel := context.WithTimeout(ctx, envoy.Grace)
	reader, asked := t.conn.Reader, now
	t.spawn(ctx, func(context.Context) effect {
		l, err := reader.List(callCtx)
		cancel()
		return func(ctx context.Context, now time.Time) {
			t.listing = false
			t.w.metrics.calls.WithLabelValues(string(envoy.ToolList), outcome(err)).Inc()
			if err != nil {
				t.troubleList(ctx, asked, err, now)
			} else {
				t.listedAll(ctx, asked, l, now)
			}
			t.scheduleAll(now)
		}
	})
}

func (t *term) listedAll(ctx context.Context, asked time.Time, l *envoy.List, now time.Time) {
	t.contact(ctx, asked, now)
	t.listLine.good()
	delete(t.sense.refused, envoy.ToolList)
	t.w.metrics.unknown.Add(float64(l.Unknown))
	t.roll = roll{asked: asked}
	t.wantList = false
	there := make(map[string]bool, len(l.Items))
	for _, item := range l.Items {
		if !events.ValidPurchaseID(item.PurchaseID) || !events.ValidWord(item.State) {
			continue
		}
		there[item.PurchaseID] = true
		t.listed(ctx, asked, item, l.ServerTime, now)
	}
	for id := range t.memory.noted {
		if !there[id] {
			delete(t.memory.noted, id) // it will not come back into the list
		}
	}
	t.greeted(now)
}

// listed takes one line of a list. No event comes from it.
func (t *term) listed(ctx context.Context, asked time.Time, item envoy.ListItem, server, now time.Time) {
	state := events.State(item.State)
	if p, ok := t.byID[item.PurchaseID]; ok {
		p.listSays(state, asked, now)
		return
	}
	if !t.worthFollowing(item, state, server, now) {
		return
	}
	p := t.track(ctx, item.PurchaseID, now)
	p.baseline = !t.memory.baselined
	p.probe = p.baseline && ended(state)
	p.recheck = t.memory.over[item.PurchaseID].state != ""
	p.listSays(state, asked, now)
	delete(t.memory.noted, item.PurchaseID)
	t.saveSet(now, nil)
}

func (p *purchase) listSays(state events.State, asked, now time.Time) {
	p.listState = state
	if p.state == events.StateReady || p.onlyLook {
		p.heard = now // a list is all that may be asked about it while looks do not show it
	}
	if ended(state) {
		p.listedEnd = asked
	}
}

// worthFollowing tells whether an unfollowed purchase of a list is news: an open one, one that ended otherwise than we
// know, and one that came and went unseen. What had ended at first contact is only noted, unless its money may hang or a host
// waits for it.
func (t *term) worthFollowing(item envoy.ListItem, state events.State, server, now time.Time) bool {
	id := item.PurchaseID
	if _, ok := t.memory.others[id]; ok {
		return false
	}
	if _, ok := t.memory.gaveUp[id]; ok {
		return false
	}
	if e, ok := t.memory.over[id]; ok && e.state == state {
		return false
	}
	if !ended(state) {
		return true
	}
	if _, ok := t.memory.noted[id]; ok {
		return false
	}
	if server.IsZero() {
		server = now
	}
	recent := server.Sub(item.CreatedAt) < probeFor
	if t.memory.baselined {
		return recent
	}
	if recent && (state == events.StateFailed || state == events.StateCancelled || t.waitsForHash()) {
		return true
	}
	t.note(id)
	return false
}

// waitsForHash tells whether a registration waits whose key only its former owner knew.
func (t *term) waitsForHash() bool {
	for _, p := range t.byKey {
		if p.key.IsZero() {
			return true
		}
	}
	return false
}

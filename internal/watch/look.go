package watch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// look asks for the account: the active purchase and all held money. One look is under way at a time.
func (t *term) look(ctx context.Context, now time.Time) {
	t.looking, t.sight.left = true, now
	t.swing = 0.2*rand.Float64() - 0.1
	t.trialBegins()
	withAgent := !t.agentSeen
	callCtx, cancel := context.WithTimeout(ctx, envoy.Grace)
	reader, asked := t.conn.Reader, now
	t.spawn(ctx, func(context.Context) effect {
		l, err := reader.Look(callCtx, withAgent)
		cancel()
		return func(ctx context.Context, now time.Time) {
			t.looking, t.sight.tried = false, now
			t.w.metrics.calls.WithLabelValues(string(envoy.ToolAccount), outcome(err)).Inc()
			if err != nil {
				t.troubleLook(ctx, asked, err, now)
			} else {
				t.looked(ctx, asked, l, now)
			}
			t.scheduleAll(now)
		}
	})
}

// looked takes a look's answer: who is active, what is held, and what both prove.
func (t *term) looked(ctx context.Context, asked time.Time, l *envoy.Look, now time.Time) {
	t.contact(ctx, asked, now)
	t.lookLine.good()
	delete(t.sense.refused, envoy.ToolAccount)
	t.w.metrics.unknown.Add(float64(l.Unknown))
	if l.AgentID != "" {
		t.agentSeen = true
		if t.agentID != l.AgentID {
			t.agentID = l.AgentID
			t.saveSet(now, nil)
		}
	}
	shown := l.Active
	if l.Purchase != nil && !events.ValidPurchaseID(l.Purchase.PurchaseID) {
		shown = envoy.ActiveNotKnown // a hostile id is no purchase
	}
	before := t.sight
	t.sight = sight{left: before.left, asked: asked, came: now, tried: now, answer: shown}
	if shown == envoy.ActiveShown {
		t.sight.purchase = l.Purchase.PurchaseID
	}
	if shown != envoy.ActiveNotKnown {
		t.sense.heard = now
		if before.asked.IsZero() || t.sight.purchase != t.sense.active {
			t.wantList = true
		}
		t.sense.active = t.sight.purchase
	}
	t.takeHeld(ctx, l, now)
	if shown == envoy.ActiveShown {
		t.takeActive(ctx, l, now)
	}
	t.greeted(now)
}

// takeActive takes the snapshot of the active purchase as it is, without a read.
func (t *term) takeActive(ctx context.Context, l *envoy.Look, now time.Time) {
	id := l.Purchase.PurchaseID
	if _, other := t.memory.others[id]; other {
		return
	}
	hash, snap := keyHash(*l.Purchase), project(*l.Purchase)
	p, followed := t.byID[id]
	if keyed, ok := t.byKey[hash]; ok && hash != "" {
		p, followed = t.adopt(ctx, keyed, id, now), true
	}
	if !followed {
		p = t.track(ctx, id, now)
		p.baseline = !t.memory.baselined
		t.saveSet(now, nil)
	}
	p.shown = now
	t.take(ctx, p, observation{
		snap: &snap, tool: envoy.ToolAccount, server: l.ServerTime,
		ids: idsOf(l.Meta), keyHash: hash, asked: t.sight.asked, came: now,
	}, now)
}

// takeHeld reads the held money of the account. An answer that is incomplete tells of the entries that it has, and
// proves nothing about the others.
func (t *term) takeHeld(ctx context.Context, l *envoy.Look, now time.Time) {
	h := l.Held
	if h == nil || !h.Available {
		return
	}
	entries := make(map[string]*events.Held, len(h.Items))
	for _, item := range h.Items {
		if events.ValidPurchaseID(item.PurchaseID) {
			entries[item.PurchaseID] = held(item)
		}
	}
	complete := h.Truncated != nil && !*h.Truncated
	t.account = account{server: l.ServerTime, complete: complete, entries: entries}
	for id, p := range t.byID {
		entry := entries[id]
		if entry == nil && !complete {
			continue
		}
		p.held = events.HeldAnswer{Available: true, Truncated: copyOf(h.Truncated), Entry: entry}
		p.heldAt = l.ServerTime
		if entry != nil {
			p.heard = now
		}
		if active := l.Purchase != nil && l.Purchase.PurchaseID == id; !active {
			t.judgeAgain(ctx, p, now)
		}
	}
	for id := range entries {
		t.findHeld(ctx, id, now)
	}
}

// account is what the newest look that could read the held money found.
type account struct {
	server   time.Time // Envoy's clock
	complete bool
	entries  map[string]*events.Held
}

// recallHeld gives a purchase that was just found what a look before has shown of its money.
func (t *term) recallHeld(p *purchase) {
	if entry := t.account.entries[p.id]; entry != nil || t.account.complete {
		truncated := !t.account.complete
		p.held = events.HeldAnswer{Available: true, Truncated: &truncated, Entry: entry}
		p.heldAt = t.account.server
	}
}

// judgeAgain decides anew after held money was seen, unless something is on its way that will. A purchase that has ended
// and was not read in this moment is read first.
func (t *term) judgeAgain(ctx context.Context, p *purchase, now time.Time) {
	if p.snap == nil || p.busyStore() || p.gone {
		return
	}
	f := t.facts(p, p.shows())
	j := events.Judge(*p.snap, f)
	news := events.ReadingOf(*p.snap, j) != p.cursor.Last
	switch {
	case news && ended(p.state) && now.Sub(p.shown) > freshFor:
		// What is held now says nothing about how the purchase was when it was read: a refund may have begun and ended.
		p.reread = true
		t.schedule(p, now)
	case news:
		t.decide(ctx, p, now)
	default:
		p.judge(j)
		t.rest(p, now)
	}
}

// busyStore tells whether the purchase waits for a store.
func (p *purchase) busyStore() bool { return p.publishing != nil || !p.loaded }

// findHeld follows a purchase that nobody followed and that has money held.
func (t *term) findHeld(ctx context.Context, id string, now time.Time) {
	if p, ok := t.byID[id]; ok {
		p.heard = now
		return
	}
	if _, ok := t.memory.others[id]; ok {
		return
	}
	if _, ok := t.memory.gaveUp[id]; ok {
		return
	}
	p := t.track(ctx, id, now)
	p.baseline = !t.memory.baselined
	p.recheck = true
	delete(t.memory.noted, id)
	t.saveSet(now, nil)
}

// greeted ends first contact when a look and a list have answered.
func (t *term) greeted(now time.Time) {
	if t.memory.baselined || t.roll.asked.IsZero() {
		return
	}
	if known := t.sight.answer == envoy.ActiveShown || t.sight.answer == envoy.ActiveNone; !known && now.Sub(t.began) < 5*time.Minute {
		return // without looks the list alone has to do, in the end
	}
	t.memory.baselined = true
	t.saveSet(now, nil)
}

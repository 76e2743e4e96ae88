package watch

import (
	"context"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
)

// ask makes a status request, and no other of this purchase until it is over.
func (t *term) ask(ctx context.Context, p *purchase, s step, now time.Time) {
	r, c := p.request(s)
	callCtx, cancel := t.timeFor(ctx, r.Wait)
	c.asked, c.cancel = now, cancel
	p.call, p.asked, p.dueSince = c, now, time.Time{}
	if c.hold {
		t.sense.holds++
	}
	t.schedule(p, now)
	t.jobs.Go(func() {
		reply, err := t.conn.Reader.Status(callCtx, r)
		c.cancel()
		t.hand(ctx, func(ctx context.Context, now time.Time) { t.answered(ctx, p, c, reply, err, now) })
	})
}

// timeFor gives the context of a status request. Whole holds share their deadlines: tens of thousands of timers would do
// nothing but wait.
func (t *term) timeFor(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	most := wait + envoy.Grace
	if wait < holdWait {
		return context.WithTimeout(ctx, most)
	}
	return context.WithCancel(t.ends.Between(ctx, most, most+envoy.Slack))
}

// answered takes the end of a status request.
func (t *term) answered(ctx context.Context, p *purchase, c *call, reply *envoy.Status, err error, now time.Time) {
	p.call = nil
	if c.hold {
		t.sense.holds--
	}
	t.w.metrics.calls.WithLabelValues(string(envoy.ToolStatus), outcome(err)).Inc()
	if err == nil && !about(p, reply.Purchase) {
		err = &envoy.Outage{Tool: envoy.ToolStatus, Kind: envoy.OutageForeign, Took: now.Sub(c.asked)}
	}
	switch {
	case p.gone:
		if err == nil {
			t.contact(ctx, c.asked, now)
		}
	case err != nil && c.dropped:
		t.schedule(p, now)
	case err != nil:
		p.next = nil // after any failure it is planned anew
		t.troubleStatus(ctx, p, c, err, now)
	default:
		t.statusReply(ctx, p, c, reply, now)
	}
}

// about tells whether a reply speaks of the purchase that was asked for.
func about(p *purchase, got envoy.Purchase) bool {
	if !events.ValidPurchaseID(got.PurchaseID) {
		return false
	}
	if p.id != "" {
		return got.PurchaseID == p.id
	}
	return events.HashKey(got.IdempotencyKey) == p.keyHash
}

// statusReply takes a valid reply about the purchase that was asked for.
func (t *term) statusReply(ctx context.Context, p *purchase, c *call, reply *envoy.Status, now time.Time) {
	t.contact(ctx, c.asked, now)
	t.w.metrics.unknown.Add(float64(reply.Unknown))
	if p.id == "" {
		p = t.adopt(ctx, p, reply.Purchase.PurchaseID, now)
	}
	p.trouble = nil
	delete(t.sense.refused, envoy.ToolStatus)
	p.replied, p.shown, p.heard = now, now, now
	p.hurry(c, reply.Purchase.Revision, now)
	if reply.Purchase.State == string(events.StateReady) {
		t.readyReply(ctx, p, c, reply, now)
	}
	t.readNext(ctx, p, reply.Next, now)
	if p.keyHash == "" {
		p.keyHash = keyHash(reply.Purchase)
	}
	t.claim(ctx, p, now)
	snap := project(reply.Purchase)
	snap.PurchaseID = p.id
	t.take(ctx, p, observation{
		snap: &snap, tool: envoy.ToolStatus, server: reply.ServerTime, ids: idsOf(reply.Meta),
		told: toldBy(reply, p.told), keyHash: p.keyHash, asked: c.asked, came: now,
	}, now)
}

// claim gives p the registration that waits for its key. That one's owner may have changed since, and then only the hash
// is left to know the purchase by, whichever way it is found.
func (t *term) claim(ctx context.Context, p *purchase, now time.Time) {
	if keyed, ok := t.byKey[p.keyHash]; ok {
		t.adopt(ctx, keyed, p.id, now)
		t.saveSet(now, nil)
	}
}

func keyHash(p envoy.Purchase) string {
	if p.IdempotencyKey == "" {
		return ""
	}
	return events.HashKey(p.IdempotencyKey)
}

// hurry counts early replies in a row, after which the next hold waits longer and longer. After a change, or a hold that
// ended, it follows at once.
func (p *purchase) hurry(c *call, revision int64, now time.Time) {
	switch {
	case !c.hold || revision > p.revision() || p.snap == nil && !p.known:
		p.early = 0
	case earlyReply(now.Sub(c.asked), c.held):
		p.early++
	default:
		p.early = 0
	}
}

// readNext keeps a next that may be followed. One that reads another purchase starts a watch of that.
func (t *term) readNext(ctx context.Context, p *purchase, n envoy.Next, now time.Time) {
	p.next = nil
	f, ok := followable(n)
	switch {
	case !ok:
	case f.reference == p.id || p.keyHash != "" && events.HashKey(f.reference) == p.keyHash:
		p.next = f
	case events.ValidPurchaseID(f.reference):
		if _, followed := t.byID[f.reference]; !followed {
			t.track(ctx, f.reference, now)
			t.saveSet(now, nil)
		}
	default:
		t.trackKey(events.HashKey(f.reference), secret.New(f.reference), now, now)
		t.saveSet(now, nil)
	}
}

// readyReply is what the table is there to avoid: a reply that released payment details. They were not decoded; it is
// counted and told, and from now on the purchase is only looked at.
func (t *term) readyReply(ctx context.Context, p *purchase, c *call, reply *envoy.Status, now time.Time) {
	t.w.metrics.readyReplies.WithLabelValues(stateLabel(c.during)).Inc()
	p.onlyLook = true
	t.saveSet(now, nil)
	if day := now.UTC().Truncate(24 * time.Hour); day.After(t.sense.readyDay) {
		t.sense.readyDay = day
		t.saveSet(now, nil)
		t.say(ctx, events.NoticeReadyReply, now, events.Notice{
			PurchaseID: p.id, Support: support(reply.Meta),
			Text: "A status read was answered with a ready purchase, so payment details came back. They were dropped undecoded. " +
				"The purchase is only looked at from now on.",
		})
	}
}

package watch

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// take accepts one showing of a purchase. While the events before it are not stored, or not known, it waits its turn.
func (t *term) take(ctx context.Context, p *purchase, o observation, now time.Time) {
	if p.gone {
		return
	}
	p.heard = now
	if !p.loaded || p.publishing != nil {
		p.wait(o)
		return
	}
	if !t.mine(*o.snap) {
		t.other(p, now)
		return
	}
	if before := o.snap.Chain.Supersedes; events.ValidPurchaseID(before) && p.root == "" && !p.rooted {
		if t.askRoot(ctx, p, o, before) {
			return
		}
	}
	if p.known && o.snap.Revision < p.cursor.Revision {
		t.lowerReply(ctx, p, o, now)
		return
	}
	clear(p.lower) // whichever tool shows what we know: nothing was restored
	t.observe(ctx, p, o, now)
	t.origin = origin{o.tool, o.asked, o.came}
	t.decide(ctx, p, now)
	t.origin = origin{}
	t.checkOverdue(ctx, p, now)
}

// wait keeps a showing for later, unless it says what the one before it says: the wait can be long.
func (p *purchase) wait(o observation) {
	if n := len(p.pending); n > 0 {
		last := p.pending[n-1]
		if last.tool == o.tool && reflect.DeepEqual(last.snap, o.snap) && reflect.DeepEqual(last.told, o.told) {
			return
		}
	}
	p.pending = append(p.pending, o)
}

// mine tells whether this connection speaks for the purchase.
func (t *term) mine(s events.Snapshot) bool {
	return t.policy.Others || t.agentID == "" || s.Agent.ID == "" || s.Agent.ID == t.agentID
}

// askRoot finds the root of the chain: from the predecessor if it is followed or remembered, else from its record, and
// then o waits. It reports whether o waits.
func (t *term) askRoot(ctx context.Context, p *purchase, o observation, before string) bool {
	p.rooted = true
	if b, ok := t.byID[before]; ok && b.loaded {
		p.root = b.chainRoot()
		return false
	}
	if e, ok := t.memory.over[before]; ok && e.root != "" {
		p.root = e.root
		return false
	}
	p.loaded = false
	p.pending = append([]observation{o}, p.pending...)
	p.root = before // unless its record knows better
	t.load(ctx, p, before)
	return true
}

func (p *purchase) chainRoot() string {
	if p.root != "" {
		return p.root
	}
	return p.id
}

// observe makes o what is known now.
func (t *term) observe(ctx context.Context, p *purchase, o observation, now time.Time) {
	s := *o.snap
	if p.keyHash == "" {
		p.keyHash = o.keyHash
	}
	if s.State != p.state {
		p.since = now
	}
	if p.next != nil && o.tool != envoy.ToolStatus && s.Revision != p.revision() {
		p.next = nil // it continues a reply that is old now
	}
	if !p.seen {
		p.seen = true
		t.saveSet(now, nil)
	}
	if p.snap == nil || !reflect.DeepEqual(p.snap, o.snap) {
		p.snap = o.snap
		share(p.snap)
	}
	if o.told != nil && (p.told == nil || o.told.revision != p.told.revision || !o.server.Before(p.server)) {
		p.told = o.told
	}
	p.looked, p.server, p.ids = o.tool == envoy.ToolAccount, o.server, o.ids
	if !o.server.IsZero() && o.server.Before(p.heldAt.Add(-time.Minute)) {
		p.heldAt = time.Time{} // Envoy's clock went back: nothing says that this look came after the purchase's end
	}
	p.state, p.column, p.missing, p.slowest = s.State, columnOf(s), 0, false
	if strange(s.State) {
		t.w.metrics.strange.Inc()
	}
	if ended(s.State) {
		p.onlyLook = false
	}
	if c := p.call; c != nil && c.hold && p.holdForbidden(t.policy) {
		c.dropped = true // it could come back with a card
		c.cancel()
	}
	if next := s.Chain.SupersededBy; events.ValidPurchaseID(next) && next != p.id {
		t.succeed(ctx, p, next, now)
	}
}

// holdForbidden tells whether the table has no hold for the purchase as it is shown now.
func (p *purchase) holdForbidden(policy Policy) bool {
	return !ended(p.state) && (p.onlyLook || cellOf(p.state, p.column, policy.HoldThroughReady) != actHold)
}

// succeed follows the purchase that replaced p.
func (t *term) succeed(ctx context.Context, p *purchase, next string, now time.Time) {
	if _, ok := t.memory.over[next]; ok {
		return
	}
	if _, ok := t.memory.others[next]; ok {
		return
	}
	_, followed := t.byID[next]
	n := t.track(ctx, next, now)
	if n.root == "" {
		n.root = p.chainRoot()
	}
	n.registered = n.registered || p.registered
	if !followed {
		t.saveSet(now, nil)
	}
}

// decide judges what is known now, and publishes if it is news.
func (t *term) decide(ctx context.Context, p *purchase, now time.Time) {
	say := p.shows()
	s, f := *p.snap, t.facts(p, say)
	j := events.Judge(s, f)
	r := events.ReadingOf(s, j)
	step, at, cause := events.Follow(p.cursor, p.known, r)
	p.judge(j)
	p.recheck, p.reread = false, false
	if step != events.StepNew {
		t.w.metrics.duplicates.Inc()
		t.recognize(p, say)
		t.rest(p, now)
		return
	}
	if !p.known {
		if p.probe && j.Settled() {
			t.note(p.id)
			t.finish(p, now)
			return
		}
		if p.baseline {
			cause = events.CauseBaseline
		}
	}
	e := events.New(s, f, j, at, cause, t.newest(p), p.cursor, t.options())
	t.announce(ctx, p, publication{event: e, said: &say}, now)
}

// rest ends the work on a showing: the purchase is settled, or it is planned anew.
func (t *term) rest(p *purchase, now time.Time) {
	if p.gone {
		return
	}
	if p.snap != nil && p.over && !p.hangs && !p.lingers(now) {
		t.finish(p, now)
		return
	}
	t.schedule(p, now)
}

// drain takes what was waiting for its turn.
func (t *term) drain(ctx context.Context, p *purchase, now time.Time) {
	for len(p.pending) > 0 && p.loaded && p.publishing == nil && !p.gone {
		o := p.pending[0]
		p.pending = p.pending[1:]
		t.take(ctx, p, o, now)
	}
	if p.loaded && p.publishing == nil && !p.gone {
		t.rest(p, now)
	}
}

// lowerReply handles a revision below what was said. Once, it is a replica that lags. Three of one tool over a minute,
// and no reply of any tool between that knows better: the far side was restored, and a new epoch begins.
func (t *term) lowerReply(ctx context.Context, p *purchase, o observation, now time.Time) {
	t.w.metrics.lower.Inc()
	l := p.lower[o.tool]
	if l == nil {
		l = &lowered{first: now}
		if p.lower == nil {
			p.lower = map[envoy.Tool]*lowered{}
		}
		p.lower[o.tool] = l
	}
	l.count++
	if l.count < 3 || now.Sub(l.first) < time.Minute {
		t.rest(p, now)
		return
	}
	clear(p.lower)
	p.heldAt, p.cursor.PassedApproval = time.Time{}, true
	t.observe(ctx, p, o, now)
	say := p.shows()
	s, f := *p.snap, t.facts(p, say)
	j := events.Judge(s, f)
	p.judge(j)
	at := events.NewEpoch(p.cursor, events.ReadingOf(s, j))
	t.say(ctx, events.NoticeReset, now, events.Notice{
		PurchaseID: p.id, Support: p.ids.support(),
		Text: fmt.Sprintf("Envoy shows revision %d of this purchase again and again, after revision %d was published: its side was restored. A new epoch begins.", s.Revision, p.cursor.Revision),
	})
	e := events.New(s, f, j, at, events.CauseReset, t.newest(p), p.cursor, t.options())
	t.announce(ctx, p, publication{event: e, said: &say}, now)
}

// checkOverdue tells once per reading that a deadline passed without a change. Envoy's clock decides, in a reply that
// still shows the purchase as it was.
func (t *term) checkOverdue(ctx context.Context, p *purchase, now time.Time) {
	if p.gone || p.busyStore() || !p.known || p.snap == nil || p.server.IsZero() {
		return
	}
	if terminal, _ := p.stand(); terminal || p.cursor.OverdueFor == events.ReadingID(p.cursor.EventID) {
		return
	}
	if name, at, due := p.overdue(); due {
		say := p.shows() // next.by may have moved since
		t.announce(ctx, p, publication{event: events.NewOverdue(*t.event(p, say), name, at), said: &say}, now)
	}
}

// stillDue publishes the last reading again when it would soon age out of the stream while money hangs.
func (t *term) stillDue(ctx context.Context, p *purchase, now time.Time) {
	if p.gone || p.busyStore() || !p.cursor.Last.Unsettled || now.Sub(p.cursor.Published) < t.policy.Retention/2 {
		return
	}
	last := t.newest(p)
	if last == nil {
		return
	}
	at := p.cursor.Position
	at.N++
	t.announce(ctx, p, publication{event: events.Still(*last, at), said: p.said}, now)
}

package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// tickEvery is the pace of what is not urgent: blindness, giving up, events that would age out.
const tickEvery = 10 * time.Second

// sense is what the term notices about its own seeing.
type sense struct {
	next      time.Time // next tick
	heard     time.Time // newest look that knew which purchase is active
	replied   time.Time // newest valid reply of any tool
	worked    time.Time // when the newest call with a valid reply was asked for
	published time.Time
	open      time.Time // a purchase was open then
	active    string    // purchase that the newest look showed
	readyDay  time.Time // day of the newest notice about a ready reply
	holds     int
	unstored  int // events of open purchases that are not stored yet
	refused   map[envoy.Tool]bool

	blind    bool
	blindWhy string
	told     bool // the blindness was told
	counts   counts
}

// counts are gathered at each tick.
type counts struct{ open, unsettled, registered, unpublished int }

// levels are the term's shares of the gauges.
type levels struct{ blind, parked, holds, open, owned level }

func newLevels(m *metrics) levels {
	l := levels{
		blind: level{gauge: m.blind}, parked: level{gauge: m.parked}, holds: level{gauge: m.holds},
		open: level{gauge: m.open}, owned: level{gauge: m.owned},
	}
	l.owned.set(1)
	return l
}

func (l *levels) clear() {
	for _, one := range []*level{&l.blind, &l.parked, &l.holds, &l.open, &l.owned} {
		one.set(0)
	}
}

// tick does what is due every ten seconds.
func (t *term) tick(ctx context.Context, now time.Time) {
	t.obeyHalt(ctx, now)
	t.retakeSet(ctx)
	if now.Before(t.sense.next) {
		return
	}
	t.sense.next = now.Add(tickEvery)
	if p := t.park; p != nil && p.reason == ParkToken && !p.silent && !p.checking && now.Sub(p.checked) >= 15*time.Second {
		t.checkToken(ctx, nil, now)
	}
	t.count(now)
	for _, p := range t.byID {
		t.expire(ctx, p, now)
		t.stillDue(ctx, p, now)
	}
	for _, p := range t.byKey {
		if now.Sub(p.ref) > 24*time.Hour {
			t.sayMissing(ctx, p, nil, now, "A registered idempotency key did not show up within a day; it is not watched any more.")
			t.forget(p)
			t.saveSet(now, nil)
		}
	}
	t.judgeSight(ctx, now)
	if t.memory.loaded && now.Sub(t.memory.saved) > 24*time.Hour {
		t.saveSet(now, nil) // the store forgets what is not written for 30 days
	}
}

// obeyHalt parks with the other connections when Envoy refuses this version, and goes on with them.
func (t *term) obeyHalt(ctx context.Context, now time.Time) {
	halted := t.w.halted.Load()
	switch {
	case halted && t.park == nil:
		t.parkFor(ctx, ParkClientUpdate, nil, now)
	case !halted && t.park != nil && t.park.reason == ParkClientUpdate && !t.park.trying:
		t.resume(ctx, now)
	}
}

func (t *term) count(now time.Time) {
	var c counts
	groups := map[events.Situation]group{}
	for _, p := range t.byID {
		if s, since, known := p.situation(); known {
			groups[s] = groups[s].join(since)
		}
		terminal, hangs := p.stand()
		if hangs {
			c.unsettled++
		}
		if !terminal && p.seen {
			c.open++
		}
		if p.registered {
			c.registered++
		}
		if p.publishing != nil {
			c.unpublished++
		}
	}
	c.registered += len(t.byKey)
	if c.open > 0 || t.sense.open.IsZero() {
		t.sense.open = now
	}
	t.sense.counts = c
	t.w.metrics.crowd.set(t.conn.Name, groups)
}

// expire gives up a purchase whose money has hung for too long.
func (t *term) expire(ctx context.Context, p *purchase, now time.Time) {
	terminal, unsettled := p.stand()
	if !terminal && !p.slowest || p.publishing != nil || now.Sub(p.age(now)) < t.policy.GiveUp {
		return
	}
	if terminal && !unsettled {
		return
	}
	t.memory.gaveUp[p.id] = struct{}{}
	t.say(ctx, events.NoticeGaveUp, now, events.Notice{
		PurchaseID: p.id, Support: p.ids.support(),
		Text: fmt.Sprintf("The money of this purchase was not settled within %s. Herald does not ask about it any more; Envoy's support can.", t.policy.GiveUp),
	})
	t.forget(p)
	t.saveSet(now, nil)
}

// interval is how long the next reply about p may take by plan.
func (t *term) interval(p *purchase, now time.Time) time.Duration {
	terminal, _ := p.stand()
	switch {
	case p.slowest:
		return slowest
	case terminal:
		return slowPace(now.Sub(p.age(now)))
	case p.call != nil && p.call.hold:
		return holdWait
	default:
		return lookPace(now.Sub(p.since), t.policy.LookEvery)
	}
}

// patience is how long silence is not yet blindness.
func patience(interval time.Duration) time.Duration {
	return max(5*time.Minute, 2*interval+holdWait)
}

// waits tells since when p has been waiting for the stream, if it is.
func (p *purchase) waits() (since time.Time, yes bool) {
	switch {
	case p.publishing != nil:
		return p.publishing.since, true
	case len(p.pending) > 0:
		return p.pending[0].came, true
	default:
		return p.begun, !p.loaded
	}
}

// judgeSight tells when the watch has gone blind, and when it sees again.
func (t *term) judgeSight(ctx context.Context, now time.Time) {
	count, one, stored := 0, "", true
	for _, p := range t.byID {
		if since, waits := p.waits(); waits {
			stored = stored && now.Sub(since) <= patience(0)
			continue
		}
		if terminal, unsettled := p.stand(); terminal && !unsettled || now.Sub(p.heard) <= patience(t.interval(p, now)) {
			continue
		}
		count, one = count+1, p.id
	}
	why := ""
	switch {
	case t.park != nil: // told as such
	case !stored:
		why = "events are not stored or not found again, so their purchases are not read"
	case count > 0:
		why = "no valid reply about a purchase"
	case now.Sub(t.sense.heard) > patience(t.discoverEvery(now)) && t.sense.unstored == 0:
		why = "no valid look at the account"
	}
	blind := why != ""
	t.sense.blind, t.sense.blindWhy = blind, why
	t.tellSight(ctx, blind && stored, count, one, why, now)
}

// tellSight says once that the watch is blind, and once that it sees. Events that cannot be stored are no matter for a
// notice, which could not be stored either.
func (t *term) tellSight(ctx context.Context, blind bool, count int, one, why string, now time.Time) {
	switch {
	case blind && !t.sense.told:
		n := events.Notice{
			Count: int64(count), Code: codeLabelOf(t.lookLine),
			Text: "Nothing is seen: " + why + " for longer than it should take. What changes meanwhile is not told.",
		}
		if count == 1 {
			n.PurchaseID = one
		}
		t.sense.told = true
		t.say(ctx, events.NoticeBlind, now, n)
	case !t.sense.blind && t.sense.told && t.park == nil:
		t.sense.told = false
		t.say(ctx, events.NoticeSeeing, now, events.Notice{Text: "Everything that is watched is seen again."})
	}
}

func codeLabelOf(l line) string {
	if l.lastFail == "" {
		return ""
	}
	return string(l.lastFail)
}

// show publishes how the term stands.
func (t *term) show() {
	s := ConnectionStatus{
		Name: t.conn.Name, Owner: true, Blind: t.sense.blind, BlindWhy: t.sense.blindWhy,
		Open: t.sense.counts.open, Unsettled: t.sense.counts.unsettled, Registered: t.sense.counts.registered,
		Unpublished: t.sense.counts.unpublished + len(t.notices.queue), Holds: t.sense.holds,
		LastReply: t.sense.replied, LastPublish: t.sense.published, StoreTrouble: t.writer.troubled(),
	}
	if p := t.park; p != nil && !p.silent {
		s.Parked, s.ParkedSince = p.reason, p.since
	}
	t.k.show(s)
	t.levels.blind.set(truth(s.Blind))
	t.levels.parked.set(truth(s.Parked != ""))
	t.levels.holds.set(float64(s.Holds))
	t.levels.open.set(float64(len(t.byID)))
}

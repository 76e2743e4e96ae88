package watch

import (
	"context"
	"time"

	"github.com/heraldbridge/herald/internal/backoff"
	"github.com/heraldbridge/herald/internal/events"
)

// record is what the stores know about a purchase.
type record struct {
	cursor events.Cursor
	known  bool
	last   *events.Event
	ours   bool   // the last event is one of this connection
	root   string // chain root of its predecessor, where asked for
}

// load reads what was said about p before anything else is done about it. It tries until the stream answers: an error
// is never taken for "nothing was said", nor for "it was said already".
//
// before, where given, is the purchase that p superseded: its record names the root of the chain.
func (t *term) load(ctx context.Context, p *purchase, before string) {
	t.toLoad = append(t.toLoad, wanted{p, before})
	t.loadNext(ctx)
}

// wanted is a purchase whose record is to be read.
type wanted struct {
	p      *purchase
	before string
}

const (
	loadsAtOnce = 8
	loadWait    = 15 * time.Second // of one read
)

// loadNext reads the next record, a few at a time: a start with ten thousand purchases is no storm on the stores. One
// that cannot be read goes to the end of the queue after a pause, so that it holds up no other.
func (t *term) loadNext(ctx context.Context) {
	if t.loading >= loadsAtOnce {
		return
	}
	var next wanted
	for next.p == nil || next.p.gone {
		if len(t.toLoad) == 0 {
			return
		}
		next, t.toLoad[0] = t.toLoad[0], wanted{}
		t.toLoad = t.toLoad[1:]
	}
	t.loading++
	p, id := next.p, next.p.id
	delay := backoff.Policy{Base: time.Second, Max: 30 * time.Second}.Delay(t.loadFails)
	t.spawn(ctx, func(ctx context.Context) effect {
		limited, cancel := context.WithTimeout(ctx, loadWait)
		defer cancel()
		r, err := t.read(limited, id, next.before)
		if err != nil && ctx.Err() == nil {
			t.log.Warn("read last event", "purchase", id, "error", err)
			pause(ctx, delay+200*time.Millisecond)
		}
		return func(ctx context.Context, now time.Time) {
			t.loading--
			if err != nil {
				t.loadFails++
				t.load(ctx, p, next.before)
				return
			}
			t.loadFails = 0
			t.loadNext(ctx)
			t.loaded(ctx, p, r, now)
		}
	})
}

// read compares cursor and last message. Without the cursor the last message alone decides: a repeat beats silence.
func (t *term) read(ctx context.Context, id, before string) (record, error) {
	var r record
	c, ok, err := t.w.cursors.Cursor(ctx, id)
	if err != nil {
		t.w.metrics.storeErrors.WithLabelValues("cursor").Inc()
		ok = false
	}
	last, seq, err := t.w.publisher.Last(ctx, t.conn.Name, id)
	if err != nil {
		t.w.metrics.storeErrors.WithLabelValues("last").Inc()
		return r, err
	}
	if last != nil && last.Purchase == nil {
		last = nil
	}
	r.cursor, r.known = resume(c, ok, last, seq)
	r.ours = last != nil
	if r.known && last != nil && last.ID == r.cursor.EventID {
		r.last = last
	}
	if before != "" {
		if c, ok, err := t.w.cursors.Cursor(ctx, before); err == nil && ok {
			r.root = c.ChainRoot
		}
	}
	return r, nil
}

// resume gives the further one of cursor and last message. The sequence is always the stream's: it is what the next
// publish has to follow.
func resume(c events.Cursor, ok bool, last *events.Event, seq uint64) (events.Cursor, bool) {
	if last == nil {
		c.Sequence = 0
		return c, ok
	}
	said := events.Cursor{}.Advanced(*last, seq, last.Time, passedBy(last.Purchase))
	if last.Type == events.TypeOverdue {
		said.OverdueFor = events.ReadingID(last.ID)
	}
	if !ok {
		return said, true
	}
	switch at := events.Compare(c.Position, said.Position); {
	case at > 0:
		c.Sequence = seq
		return c, true
	case at == 0:
		said.Published = later(said.Published, c.Published)
		if said.OverdueFor == "" {
			said.OverdueFor = c.OverdueFor
		}
		said.PassedApproval = c.PassedApproval
		return said, true
	default:
		said.PassedApproval = said.PassedApproval || c.PassedApproval
		return said, true
	}
}

// passedBy tells what the last message says about approval, where the cursor is lost.
func passedBy(p *events.Purchase) bool {
	switch p.State {
	case events.StateNeedsDetails, events.StateWaitingForUser:
		return p.Approval.State == "approved"
	default:
		return !p.Terminal || p.Money != events.MoneyNotCharged || p.Approval.State == "approved"
	}
}

// loaded takes up what was said about p.
func (t *term) loaded(ctx context.Context, p *purchase, r record, now time.Time) {
	if p.gone {
		return
	}
	p.loaded, p.known, p.cursor, p.last = true, r.known, r.cursor, r.last
	p.ours = p.ours || r.ours
	switch {
	case r.cursor.ChainRoot != "":
		p.root = r.cursor.ChainRoot
	case r.root != "":
		p.root = r.root
	}
	if r.known {
		p.seen = true
		t.recall(p, now)
	}
	if len(p.pending) > 0 {
		t.drain(ctx, p, now)
		return
	}
	if terminal, unsettled := p.stand(); terminal && !unsettled && !p.recheck {
		t.finish(p, now)
		return
	}
	t.schedule(p, now)
}

// recall sets up from the last message what planning needs until the purchase is shown again.
func (t *term) recall(p *purchase, now time.Time) {
	p.state = p.cursor.State
	if !p.cursor.Published.IsZero() {
		p.since = earlier(p.cursor.Published, now)
	}
	if p.last == nil {
		return
	}
	d := p.last.Purchase
	s := events.Snapshot{Rail: d.Rail, CheckoutBy: d.CheckoutBy}
	s.PaymentReady.Closed = d.PaymentReady.Closed
	p.column = columnOf(s)
}

package watch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
)

// never is a time that no purchase waits for.
var never = time.Unix(1<<40, 0) //nolint:gochecknoglobals // a constant that Go cannot write as one

// purchase is all that a term knows about one purchase. Only the loop touches it.
type purchase struct {
	id      string       // empty while only a key is known
	keyHash string       // of the idempotency key, where known
	key     secret.Value // the key itself, only between its registration and its first sight; never stored

	// Yes or no; together, since there are many purchases.
	registered bool
	baseline   bool // found by first contact
	probe      bool // ended before first contact: told only if its money hangs
	reread     bool // held money has changed since it ended: read it now
	recheck    bool // settled as far as we know, but something says otherwise: read once more
	ours       bool // this connection has watched or published it before
	seen       bool // Envoy has shown it at least once, now or before a restart
	loaded     bool // cursor and last message were compared
	known      bool // something was said about it
	compared   bool // last was compared with what Envoy shows
	over       bool // snap, as judged: terminal
	hangs      bool // snap, as judged: unsettled
	rooted     bool // the predecessor's cursor was asked for root
	onlyLook   bool // a reply about it was ready once
	slowest    bool // it was not found
	gone       bool // not followed any more
	looked     bool // snap is of a look, not of a status reply

	column column // of what is known now

	ref   time.Time // watched since, restarts included
	begun time.Time // followed by this term since

	// What was said.
	cursor events.Cursor
	said   *said         // nil: nothing was in this term
	last   *events.Event // of the stream when the term began, until something else is said

	// What is known now.
	snap   *events.Snapshot // newest accepted; nil until something is shown in this term
	server time.Time        // Envoy's clock in the reply of snap
	ids    ids              // of that reply
	told   *told            // nil: no status reply has come
	held   events.HeldAnswer
	heldAt time.Time // Envoy's clock in the look of held; zero: no look has answered
	root   string    // chain root, where known
	state  events.State
	since  time.Time               // in state, by our clock
	lower  map[envoy.Tool]*lowered // nil until there is one

	// How it is followed.
	call       *call
	publishing *publication
	pending    []observation
	trouble    *line // nil: its reads fare well
	next       *follow
	asked      time.Time
	replied    time.Time
	shown      time.Time
	heard      time.Time // newest valid reply about it
	listState  events.State
	listedEnd  time.Time // when the list that shows it as ended went out
	at         time.Time // when something may be due
	dueSince   time.Time
	heapIndex  int   // -1: not in the agenda
	missing    int32 // replies in a row that it does not exist
	early      int32 // holds in a row that came back too soon
}

// call is one status request under way.
type call struct {
	asked   time.Time
	held    time.Duration // zero: a plain read
	during  events.State
	cancel  context.CancelFunc
	column  column
	hold    bool
	dropped bool // we ended it: its reply is not wanted any more
}

// lowered counts replies below the cursor, of one tool, in a row.
type lowered struct {
	count int
	first time.Time
}

// observation is one showing of a purchase, by whichever tool.
type observation struct {
	snap    *events.Snapshot
	tool    envoy.Tool
	server  time.Time
	ids     ids
	told    *told // nil: of a look
	keyHash string
	asked   time.Time // when the call went out
	came    time.Time // when its reply was there
}

// line is how one kind of call fares: a purchase's status reads, a connection's looks, its lists.
type line struct {
	closed   time.Time // no call before
	fails    int       // outages in a row
	slow     int       // refusals in a row that ask for no repeat
	refused  int       // NOT_ALLOWED in a row
	foreign  int       // replies about another purchase in a row
	lastFail remedy
}

// good forgets troubles after a valid reply.
func (l *line) good() { *l = line{} }

// line is how the reads of p fare, to be written on.
func (p *purchase) line() *line {
	if p.trouble == nil {
		p.trouble = &line{}
	}
	return p.trouble
}

// closed is before when p may not be read, because an error said so.
func (p *purchase) closed() time.Time {
	if p.trouble == nil {
		return time.Time{}
	}
	return p.trouble.closed
}

func (p *purchase) busy() bool { return p.call != nil || p.publishing != nil || !p.loaded }

// revision is the newest one known.
func (p *purchase) revision() int64 {
	if p.snap != nil {
		return p.snap.Revision
	}
	return p.cursor.Revision
}

// stand gives what counts as known: the judgement of the snapshot, else what was published.
func (p *purchase) stand() (terminal, unsettled bool) {
	if p.snap != nil {
		return p.over, p.hangs
	}
	return p.known && p.cursor.Last.Terminal, p.known && p.cursor.Last.Unsettled
}

// lingers tells whether a superseded purchase has still to name its successor.
func (p *purchase) lingers(now time.Time) bool {
	return p.state == events.StateSuperseded && p.snap != nil && p.snap.Chain.SupersededBy == "" &&
		now.Sub(p.age(now)) < 24*time.Hour
}

// age is when the slow pace began: when the purchase last changed, but not before we began to watch it.
func (p *purchase) age(now time.Time) time.Time {
	from := p.ref
	if p.snap != nil {
		from = later(from, p.snap.UpdatedAt)
	}
	return earlier(from, now)
}

// view is the purchase as plan sees it.
func (p *purchase) view(now time.Time) view {
	terminal, unsettled := p.stand()
	v := view{
		id: p.id, state: p.state, column: p.column, terminal: terminal,
		settled:  terminal && !unsettled && !p.recheck && !p.lingers(now),
		onlyLook: p.onlyLook, slowest: p.slowest, mute: p.id == "" && p.key.IsZero(),
		since: p.since, begun: p.begun, age: p.age(now), asked: p.asked, replied: p.replied, shown: p.shown, pause: earlyPause(int(p.early)),
		next: p.next, reread: p.reread, closed: p.closed(), deadline: p.deadline(now),
	}
	if p.listedEnd.After(p.asked) {
		v.listed = p.listedEnd
	}
	revived := p.recheck && p.snap == nil && p.listState != "" && !ended(p.listState)
	if revived {
		v.terminal, v.column = false, columnOther
	}
	if revived || v.state == "" {
		v.state = p.listState
	}
	return v
}

func (p *purchase) deadline(now time.Time) time.Time {
	if p.snap == nil {
		if p.last != nil && p.last.Purchase != nil {
			return nearest(p.last.Purchase.Deadlines, now)
		}
		return time.Time{}
	}
	return nearest(deadlinesOf(*p.snap, p.told), now)
}

// class orders the purchase among those that want a call.
func (p *purchase) class(now time.Time) class {
	if d := p.deadline(now); !d.IsZero() && d.Sub(now).Abs() <= time.Minute {
		return classDeadline
	}
	_, unsettled := p.stand()
	switch {
	case p.snap == nil && !p.known:
		return classFirst
	case p.state == events.StateProcessing || p.state == events.StateReady:
		return classMoving
	case unsettled:
		return classUnsettled
	default:
		return classOpen
	}
}

// judge takes up a judgement of the snapshot.
func (p *purchase) judge(j events.Judgement) { p.over, p.hangs = j.Terminal, j.Unsettled }

// request is the status request of a step.
func (p *purchase) request(s step) (envoy.StatusRequest, *call) {
	c := &call{during: p.state, column: p.column, hold: s.Do == actHold}
	r := envoy.StatusRequest{Purchase: p.id}
	if p.id == "" {
		r.Purchase = p.key.Reveal()
	}
	switch {
	case s.Do == actHold && s.Args != nil && p.next != nil:
		r.Purchase, r.Args, r.AfterRevision, r.Wait = p.next.reference, s.Args, p.next.after, p.next.wait
		p.next = nil // followed
	case s.Do == actHold:
		rev := p.revision()
		r.AfterRevision, r.Wait = &rev, holdWait
		if p.replied.Sub(p.asked) < holdWait/2 {
			// What began together must not end together for ever. The holds after this one keep the distance.
			r.Wait -= time.Duration(rand.IntN(16)) * time.Second
		}
	}
	c.held = r.Wait
	return r, c
}

// heldAnswer is what looks say about held money, as far as it counts for s.
func (p *purchase) heldAnswer(s events.Snapshot) events.HeldAnswer {
	if p.heldAt.IsZero() || ended(s.State) && p.heldAt.Before(s.UpdatedAt) {
		return p.proven(s)
	}
	return p.held
}

// proven keeps a proof: what was shown to be with the user at this revision does not have to be shown again.
func (p *purchase) proven(s events.Snapshot) events.HeldAnswer {
	last := p.cursor.Last
	if p.known && last.Revision == s.Revision && last.Terminal && !last.Unsettled && last.Money == events.MoneyNotCharged {
		complete := false
		return events.HeldAnswer{Available: true, Truncated: &complete}
	}
	return events.HeldAnswer{}
}

// passedApproval tells whether the purchase was approved, as far as anybody can know: what nobody watched proves
// nothing, so it takes a history without a gap from the beginning. A gift card has no other proof, and nothing is paid
// while its payment link is open; its history may begin where we first saw that.
func (p *purchase) passedApproval(s events.Snapshot) bool {
	if p.cursor.PassedApproval || s.Approval.State == "approved" {
		return true
	}
	switch s.State {
	case events.StateReady, events.StateVerifying:
		return true
	case events.StateProcessing:
		if s.Rail != "" { // before, nothing is there to approve
			return true
		}
	default:
	}
	unpaid := s.Rail == "gift_card" && s.State == events.StateWaitingForUser && s.UserTask == "pay_link"
	if !p.known {
		begins := s.Rail == "" || s.Revision == 0 || s.UpdatedAt.Equal(s.CreatedAt)
		return ended(s.State) || !begins && !unpaid
	}
	gap := s.Revision-p.cursor.Revision > 1
	return gap && !unpaid
}

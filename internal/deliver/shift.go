package deliver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/deadline"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
)

const (
	keepalive  = 10 * time.Second       // between signs of life for what is in hand
	hushEvery  = 500 * time.Millisecond // between looks at the silences
	secretLook = 5 * time.Second        // between looks at the secrets of a paused sink
	idleAfter  = 5 * time.Second        // without a message: the sink has caught up
	dueAtOnce  = 64                     // waits decided in one turn
	rebuildBy  = 25 * time.Millisecond  // between waits found at a beginning, so that none come in a burst
	markEvery  = 24 * time.Hour         // the sink's own record must not expire
)

// shift is the time between two beginnings. Everything in it belongs to the
// goroutine that calls run; pulling and sending talk to it over channels.
type shift struct {
	l     *Loop
	o     *Options
	book  *book
	owned context.Context // the ownership that every step must check; ended by Run

	sendCtx    context.Context // what sends under way are cancelled by; as long-lived as the shift
	cancelSend context.CancelFunc
	limit      deadline.Shared // of tries
	arrived    chan Message
	tokens     chan struct{}
	pullErr    chan error

	work  chan func() func() // what is done beside the loop; what it returns is done by the loop
	ended chan func()
	crew  sync.WaitGroup

	lanes   map[string]*lane
	ready   []*lane             // waiting for a free place to send
	touched []*lane             // to be looked at in this turn
	delayed map[*lane]time.Time // to be looked at later
	jobs    []job
	waits   *waits
	asking  map[string]bool // records that are to be read, or on their way
	wanted  []string        // of them, those for the next trip, in the order of the stream

	fetching   bool // a trip to the store is under way, for records
	writing    bool // likewise, with records
	sending    int
	inHand     int
	granted    int // messages that the puller may still bring
	settled    int
	asked      int       // wishes that are not answered
	missed     uint64    // events that had left the stream when the shift began
	boundary   uint64    // up to here a new sink skips what is settled
	boundaryAt time.Time // when it was stored
	newest     uint64    // highest sequence seen by rebuild
	newestAt   time.Time // when the last of them was stored
	frontier   uint64    // highest sequence that arrived
	latest     time.Time // when it was stored
	lost       Gap       // what left the stream since, and is not told yet
	lostTold   time.Time
	sparse     time.Time // of what was stored before, a new sink is given a part only
	heard      time.Time // when a message came last
	news       time.Time // likewise, one that had not been handed out before
	ending     error
	silenced   []events.Silence
	silences   route.Silences
}

func newShift(owned context.Context, l *Loop, b *book) *shift {
	room := InHand*l.o.Concurrency + 1
	s := &shift{
		l: l, o: &l.o, book: b, owned: owned,
		arrived: make(chan Message, room), tokens: make(chan struct{}, room),
		pullErr: make(chan error, 1), work: make(chan func() func()), ended: make(chan func(), room),
		lanes: map[string]*lane{}, delayed: map[*lane]time.Time{}, asking: map[string]bool{}, waits: newWaits(), heard: time.Now(),
	}
	for _, r := range b.records {
		r.users = 0
	}
	s.sendCtx, s.cancelSend = context.WithCancel(owned)
	s.hush()
	l.breaker.probing = false
	return s
}

// run serves until ctx ends, the lease is lost or a beginning is called for,
// which is the error it returns.
func (s *shift) run(ctx context.Context) error {
	pullCtx, stopPull := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { s.pull(pullCtx) })
	beside.Go(func() { s.measure(pullCtx) })
	beside.Go(func() { s.watchSecrets(pullCtx) })
	beside.Go(func() { s.watchAge(pullCtx) })
	s.loop(ctx, stopPull)
	stopPull()
	close(s.work)
	beside.Wait()
	s.crew.Wait()
	s.cancelSend()
	s.turnAway()
	s.tellLost()
	s.handBack() //nolint:contextcheck // ctx has ended; what is left is done under the ownership
	s.show()
	return s.ending
}

// loop turns until the shift ends and nothing is under way.
func (s *shift) loop(ctx context.Context, stopPull func()) {
	stop, lost := ctx.Done(), s.owned.Done()
	var grace <-chan time.Time
	alive := time.NewTicker(keepalive)
	defer alive.Stop()
	var hush <-chan time.Time
	if s.o.Silences != nil {
		look := time.NewTicker(hushEvery)
		defer look.Stop()
		hush = look.C
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for s.ending == nil || s.underWay() {
		select {
		case <-stop:
			stop = nil
			s.end(errStopped, stopPull)
			t := time.NewTimer(s.o.Grace)
			defer t.Stop() // reached once: stop is nil from here on
			grace = t.C
		case <-lost:
			lost = nil
			s.end(errLost, stopPull)
		case <-grace:
			s.cancelSend()
		case m := <-s.arrived:
			s.take(m)
		case err := <-s.pullErr:
			s.end(fmt.Errorf("take the next message: %w", err), stopPull)
		case effect := <-s.ended:
			effect()
		case <-s.l.resume:
			s.wake()
		case a := <-s.asks():
			s.wished(a) //nolint:contextcheck // what it sends runs under the ownership, which outlives ctx
		case <-alive.C:
			s.keep()
			if s.ending == nil && s.missing() {
				s.end(errGone, stopPull)
			}
		case <-hush:
			if !s.hush() {
				continue
			}
		case <-timer.C:
		}
		s.gather()
		s.turn() //nolint:contextcheck // what it starts runs under the ownership, which outlives ctx
		timer.Reset(s.untilNext())
	}
}

// underWay reports whether anything runs beside the loop or waits to be written.
func (s *shift) underWay() bool {
	return s.sending > 0 || s.fetching || s.writing || len(s.jobs) > 0
}

// aside runs a job beside the loop, which waits for it and then does what it
// returned. Whoever is done takes the next job: a stack grown anew for each send
// costs more than the loop does.
func (s *shift) aside(job func() (effect func())) {
	select {
	case s.work <- job:
	default:
		s.crew.Go(func() {
			s.ended <- job()
			for next := range s.work {
				s.ended <- next()
			}
		})
	}
}

// end begins the end of the shift; the first cause counts.
func (s *shift) end(cause error, stopPull func()) {
	if s.ending == nil {
		s.ending = cause
	}
	stopPull()
}

// gather takes what else is there without waiting, so that one read and one
// write of standings serve all of it.
func (s *shift) gather() {
	for len(s.arrived) > 0 {
		s.take(<-s.arrived)
	}
	for len(s.ended) > 0 {
		effect := <-s.ended
		effect()
	}
}

// turn does everything that can be done now.
func (s *shift) turn() {
	if s.ending == nil {
		s.timers()
	}
	for {
		may := s.ending == nil && s.owned.Err() == nil
		if may {
			s.advanceAll()
			s.pump()
		}
		if released := s.write(); !may || !released && len(s.touched) == 0 {
			break
		}
	}
	s.fetch()
	s.grant()
	s.show()
}

// take puts a message that arrived into its lane.
func (s *shift) take(m Message) {
	s.granted--
	s.heard = time.Now()
	s.jump(m)
	ln := s.lane(laneKey(m.Envelope))
	ln.heard = s.heard
	if m.Delivered <= 1 {
		s.news = s.heard
	}
	it := ln.find(m.Sequence)
	switch {
	case it == nil:
		ln.add(&item{msg: m})
		s.inHand++
	case it.out:
		it.msg, it.out = m, false
		s.inHand++
	default: // it came again although we hold it: the newer handle counts
		it.msg.Handle = m.Handle
	}
	s.touch(ln)
}

// lane gives the lane of a key, opening it where there is none.
func (s *shift) lane(key string) *lane {
	ln := s.lanes[key]
	if ln == nil {
		ln = &lane{key: key}
		s.lanes[key] = ln
	}
	return ln
}

// touch has the lane looked at in this turn.
func (s *shift) touch(ln *lane) { s.touched = append(s.touched, ln) }

// advanceAll looks at every touched lane whose standing is known.
func (s *shift) advanceAll() {
	touched, now := s.touched, time.Now()
	s.touched = nil
	for _, ln := range touched {
		if ln.rec == nil || ln.rec.unread {
			rec := s.book.find(ln.key, now)
			if rec == nil {
				s.ask(ln.key, now) // the answer has the lane touched again
				continue
			}
			if ln.rec == nil {
				ln.rec = rec
				rec.users++
			}
		}
		s.advance(ln)
		if len(ln.items) == 0 && !ln.busy && s.lanes[ln.key] == ln {
			delete(s.lanes, ln.key)
			delete(s.delayed, ln)
			ln.rec.users--
		}
	}
}

// timers opens lanes for waits whose moment has come, and takes up what was delayed.
func (s *shift) timers() {
	now := time.Now()
	for ln, at := range s.delayed {
		if !at.After(now) {
			delete(s.delayed, ln)
			s.touch(ln)
		}
	}
	if !s.mayStart(now) {
		return
	}
	for _, w := range s.waits.due(now, dueAtOnce) {
		onItsWay := w.unproven && w.env.Sequence > s.frontier && (s.granted == 0 || now.Sub(s.heard) < idleAfter)
		if ln := s.lanes[w.lane]; ln != nil && len(ln.items) > 0 || onItsWay {
			w.until = now.Add(idleAfter) // what is in the lane speaks first
			s.waits.set(w)
			continue
		}
		ln := s.lane(w.lane)
		ln.add(&item{msg: Message{Envelope: w.env}, timer: true})
		s.touch(ln)
	}
}

// mayStart reports whether a try may begin at all.
func (s *shift) mayStart(now time.Time) bool {
	return s.l.breaker.closed() || s.l.breaker.mayProbe(now)
}

// untilNext is how long nothing is to be done unless something happens.
func (s *shift) untilNext() time.Duration {
	next := time.Now().Add(time.Hour)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	if len(s.jobs) > 0 && !s.writing && !s.fetching {
		sooner(s.jobs[0].since.Add(linger))
	}
	if s.ending != nil {
		return max(time.Until(next), time.Millisecond)
	}
	b := s.l.breaker
	switch {
	case b.closed():
		sooner(s.waits.next())
		if len(s.ready) > 0 && s.sending < s.o.Concurrency {
			sooner(s.o.Pace.free())
		}
	case b.state == StateDown && !b.probing && (len(s.ready) > 0 || s.waits.len() > 0):
		sooner(latest(b.next, s.o.Pace.free()))
	}
	for _, at := range s.delayed {
		sooner(at)
	}
	if len(s.book.dirty) > 0 && !s.writing && !s.fetching {
		sooner(latest(s.book.noRead, s.book.noWrite))
	}
	return max(time.Until(next), time.Millisecond)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// keep tells the stream that what is in hand is being worked on, and sees to
// what has no moment of its own.
func (s *shift) keep() {
	if s.ending != nil || s.owned.Err() != nil {
		return
	}
	for _, ln := range s.lanes {
		for _, it := range ln.items {
			if it.ours() || it.out {
				continue
			}
			if err := it.msg.Handle.InProgress(); err != nil {
				s.o.Log.Debug("sign of life not sent", "error", err)
			}
		}
	}
	if s.lost.Count > 0 && time.Since(s.lostTold) >= lostEvery {
		s.tellLost()
	}
	if mark := s.book.records[sinkKey]; mark != nil && time.Since(mark.standing.LastTime) > markEvery {
		mark.standing.LastTime = time.Now()
		s.book.dirty[sinkKey] = mark
	}
}

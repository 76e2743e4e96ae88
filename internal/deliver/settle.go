package deliver

import (
	"slices"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// linger is how long what is to be written may wait for more of its kind: a trip
// to the store costs about as much as a send.
const linger = 10 * time.Millisecond

// job is a lane whose standing is to be written before it goes on.
type job struct {
	ln    *lane
	it    *item // to acknowledge and let go once it is written; nil: none
	ack   bool
	since time.Time
}

// settle ends an item: its sequence counts as said. Where something is to be
// remembered the standing is written first and the message acknowledged after,
// with everything else of this turn; otherwise the acknowledgement is enough.
func (s *shift) settle(ln *lane, it *item, outcome, reason string, remember bool) {
	if outcome != "" {
		s.audit(it, outcome, reason, 0, 0, "")
	}
	s.settled++
	st := &ln.rec.standing
	if !st.Stream.Equal(s.book.created) {
		st.Stream, st.Settled, st.SettledAt = s.book.created, 0, time.Time{}
	}
	if !it.ours() { // its message has settled, or has still to come and be decided as news
		if !covers(*st, it.msg.Envelope) {
			st.Settled = it.msg.Sequence
		}
		st.SettledAt = latest(st.SettledAt, it.msg.Stored)
	}
	s.forgetTries(ln, it)
	if !remember {
		if !it.out && !it.ours() {
			s.acknowledge(it)
		}
		s.release(ln, it)
		return
	}
	ln.busy = true
	s.book.dirty[ln.key] = ln.rec
	s.jobs = append(s.jobs, job{ln: ln, it: it, ack: !it.out && !it.ours(), since: time.Now()})
}

// record writes a lane's standing before the lane goes on.
func (s *shift) record(ln *lane) {
	ln.busy = true
	s.book.dirty[ln.key] = ln.rec
	s.jobs = append(s.jobs, job{ln: ln, since: time.Now()})
}

// forgetTries drops what is known of tries, but for items that are still open.
func (s *shift) forgetTries(ln *lane, done *item) {
	var kept map[string]events.Try
	for _, it := range ln.items {
		try, ok := ln.rec.standing.Tries[it.eventID()]
		if it == done || !ok || it.eventID() == done.eventID() {
			continue
		}
		kept = overlay(kept, map[string]events.Try{it.eventID(): try})
	}
	ln.rec.standing.Tries = kept
}

// write takes what is to be remembered to the store and lets go, once it is
// written, what waited for that: one trip at a time, with all that has come
// together during the one before. A store in trouble does not hold the
// acknowledgement back: the owner remembers, and writes when it can. It reports
// whether anything was let go at once.
func (s *shift) write() (released bool) {
	if s.owned.Err() != nil {
		s.jobs = nil
		return false
	}
	now := time.Now()
	if s.writing || !s.worthATrip(now) {
		return false
	}
	for _, key := range s.book.unread(now) {
		s.ask(key, now)
	}
	draft := s.book.draft(now)
	var going, waiting, free []job
	for _, j := range s.jobs {
		switch {
		case s.book.flying[j.ln.key] != nil:
			going = append(going, j)
		case s.asking[j.ln.key] && s.ending == nil:
			waiting = append(waiting, j)
		default:
			free = append(free, j)
		}
	}
	s.jobs = waiting
	if draft != nil {
		s.writing = true
		s.aside(func() func() {
			err := s.book.write(s.owned, draft)
			return func() { s.finishWrite(going, err) }
		})
	}
	s.letGo(free)
	return len(free) > 0
}

// worthATrip reports whether what is to be written has waited for long enough, is
// so much that sends may soon have to wait for it, is the last, or has more
// waiting behind it in its lane.
func (s *shift) worthATrip(now time.Time) bool {
	return len(s.jobs) == 0 || len(s.jobs) >= 2*s.o.Concurrency || s.ending != nil || !now.Before(s.jobs[0].since.Add(linger)) ||
		slices.ContainsFunc(s.jobs, func(j job) bool { return len(j.ln.items) > 1 })
}

// finishWrite takes up what became of a trip to the store, for which jobs waited.
func (s *shift) finishWrite(jobs []job, err error) {
	s.writing = false
	if s.owned.Err() != nil {
		return // cut short, and somebody else's now
	}
	s.book.written(err)
	s.letGo(jobs)
}

// letGo lets lanes go on, and acknowledges what is done.
func (s *shift) letGo(jobs []job) {
	for _, j := range jobs {
		if s.owned.Err() != nil {
			return
		}
		j.ln.busy = false
		s.touch(j.ln)
		if j.it == nil {
			continue
		}
		if j.ack {
			s.acknowledge(j.it)
		}
		s.release(j.ln, j.it)
	}
}

// ask has a record read, with all others that are asked for by the next trip. It
// does nothing where the store is being left alone, or nothing new begins.
func (s *shift) ask(key string, now time.Time) {
	if s.ending == nil && !s.asking[key] && s.book.find(key, now) == nil {
		s.asking[key] = true
		s.wanted = append(s.wanted, key)
	}
}

// fetch makes the trip for records that lanes wait for.
func (s *shift) fetch() {
	if s.fetching || len(s.wanted) == 0 || s.ending != nil {
		return
	}
	keys := s.wanted
	s.wanted, s.fetching = nil, true
	s.aside(func() func() {
		found, err := s.book.read(s.owned, keys)
		return func() { s.finishFetch(keys, found, err) }
	})
}

// finishFetch lets the lanes go on whose records have come.
func (s *shift) finishFetch(keys []string, found map[string]events.Standing, err error) {
	s.fetching = false
	if s.owned.Err() != nil {
		return
	}
	s.book.learn(keys, found, err)
	for _, key := range keys {
		delete(s.asking, key)
		if ln := s.lanes[key]; ln != nil {
			s.touch(ln)
		}
	}
}

// acknowledge tells the stream that a message is done. One that is not heard
// comes again and is absorbed.
func (s *shift) acknowledge(it *item) {
	if s.owned.Err() != nil || it.ours() {
		return
	}
	if err := it.msg.Handle.Ack(); err != nil {
		s.o.Log.Debug("acknowledgement not sent", "error", err)
	}
}

// release lets an item go.
func (s *shift) release(ln *lane, it *item) {
	if !it.out && !it.ours() {
		s.inHand--
	}
	ln.drop(it)
}

package deliver

import (
	"github.com/heraldbridge/herald/internal/events"
)

// job is a lane whose standing is to be written before it goes on.
type job struct {
	ln  *lane
	it  *item // to acknowledge and let go once it is written; nil: none
	ack bool
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
		st.Stream, st.Settled = s.book.created, 0
	}
	if !it.ours() { // its message has settled, or has still to come and be decided as news
		st.Settled = max(st.Settled, it.msg.Sequence)
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
	s.jobs = append(s.jobs, job{ln: ln, it: it, ack: !it.out && !it.ours()})
}

// record writes a lane's standing before the lane goes on.
func (s *shift) record(ln *lane) {
	ln.busy = true
	s.book.dirty[ln.key] = ln.rec
	s.jobs = append(s.jobs, job{ln: ln})
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

// flush writes all standings of this turn at once, then acknowledges. A store in
// trouble does not hold the acknowledgement back: the owner remembers, and
// writes when it can.
func (s *shift) flush() {
	if s.owned.Err() != nil {
		s.jobs = nil
		return
	}
	s.book.write(s.owned)
	jobs := s.jobs
	s.jobs = nil
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

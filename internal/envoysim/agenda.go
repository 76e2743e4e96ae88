package envoysim

import (
	"container/heap"
	"context"
	"time"
)

// entry is one thing that will happen. It is dropped if its purchase has changed in the meantime.
type entry struct {
	at  time.Time
	seq uint64 // keeps entries of the same moment in the order they were made
	p   *purchase
	gen int
	do  func()
}

type agenda []entry

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].at.Equal(a[j].at) {
		return a[i].seq < a[j].seq
	}
	return a[i].at.Before(a[j].at)
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push is for container/heap.
func (a *agenda) Push(x any) { *a = append(*a, x.(entry)) }

// Pop is for container/heap.
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = entry{}
	*a = old[:len(old)-1]
	return last
}

// laterLocked puts do on the agenda, after a delay of simulated people. With a purchase it lapses when that changes.
func (s *Sim) laterLocked(after time.Duration, p *purchase, do func()) {
	s.seq++
	e := entry{at: s.momentLocked().Add(s.scaled(after)), seq: s.seq, p: p, do: do}
	if p != nil {
		e.gen = p.gen
	}
	heap.Push(&s.agenda, e)
	if s.agenda[0].seq == e.seq {
		select {
		case s.wake <- struct{}{}:
		default: // a wake-up is already waiting
		}
	}
}

// peekLocked drops lapsed entries and returns the time of the next one.
func (s *Sim) peekLocked() (time.Time, bool) {
	for len(s.agenda) > 0 {
		e := s.agenda[0]
		if e.p == nil || e.p.gen == e.gen {
			return e.at, true
		}
		heap.Pop(&s.agenda)
	}
	return time.Time{}, false
}

// doNextLocked takes the next entry off the agenda and does it.
func (s *Sim) doNextLocked() {
	e := heap.Pop(&s.agenda).(entry)
	s.moment = e.at
	e.do()
	s.moment = time.Time{}
}

// momentLocked is when something ought to be happening. Delays count from it, so that a timer that comes late changes
// neither what happens nor in which order.
func (s *Sim) momentLocked() time.Time {
	if s.moment.IsZero() {
		return s.now()
	}
	return s.moment
}

// Run works the agenda off by timers until the context ends, and then returns nil.
func (s *Sim) Run(ctx context.Context) error {
	for {
		s.mu.Lock()
		next, ok := s.peekLocked()
		for ok && !next.After(s.now()) {
			s.doNextLocked()
			next, ok = s.peekLocked()
		}
		wait := time.Hour
		if ok {
			wait = next.Sub(s.now())
		}
		s.mu.Unlock()
		timer, stop := s.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-s.wake:
			stop()
		case <-timer:
		}
	}
}

// Step jumps to the next thing on the agenda and lets it happen. It reports whether there was one.
func (s *Sim) Step() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, ok := s.peekLocked()
	if ok {
		s.jumpLocked(next)
		s.doNextLocked()
	}
	return ok
}

// Advance lets d pass in the simulation, with everything that happens in it. Holds and rate windows do not notice.
func (s *Sim) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.now().Add(d)
	for {
		next, ok := s.peekLocked()
		if !ok || next.After(end) {
			break
		}
		s.jumpLocked(next)
		s.doNextLocked()
	}
	s.jumpLocked(end)
}

// Pending is the number of things on the agenda, lapsed ones left out. It counts, so do not call it in a loop.
func (s *Sim) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.agenda {
		if e.p == nil || e.p.gen == e.gen {
			n++
		}
	}
	return n
}

func (s *Sim) jumpLocked(to time.Time) {
	if d := to.Sub(s.now()); d > 0 {
		s.offset += d
	}
}

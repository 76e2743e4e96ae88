package deliver

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// pull brings one message per token.
func (s *shift) pull(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.tokens:
		}
		m, err := s.o.Source.Next(ctx)
		if err != nil {
			s.pullErr <- err // has room for the one error
			return
		}
		s.arrived <- m // has room for every token
	}
}

// InHand is how many messages a loop takes in hand for each send at once. Those that are sent wait for their record to be
// written, so with twice as many as sends the places stood empty at every write.
const InHand = 4

// grant lets the puller bring messages: so many times as many in hand as there are
// places to send, and while the sink is in trouble just enough to probe with:
// a message of another lane than the one that failed last.
func (s *shift) grant() {
	limit := InHand * s.o.Concurrency
	if !s.l.breaker.closed() {
		limit = 1
		if s.l.breaker.state == StateDown && s.nothingElse() {
			s.makeRoom()
			limit = min(InHand*s.o.Concurrency, s.inHand+1)
		}
	}
	for s.ending == nil && s.inHand+s.granted < limit {
		s.granted++
		s.tokens <- struct{}{}
	}
}

// makeRoom hands back what is behind the oldest message of the lane that failed
// last where that lane alone fills the hands: other lanes must have a probe.
func (s *shift) makeRoom() {
	ln := s.lanes[s.l.breaker.last]
	if ln == nil || s.inHand+s.granted < InHand*s.o.Concurrency {
		return
	}
	for _, it := range ln.items[min(1, len(ln.items)):] {
		if !it.out && !it.ours() {
			s.handOut(it, keepalive)
		}
	}
}

// nothingElse reports whether all that waits to be sent is of the lane that failed last. What waits for its record may be
// of another.
func (s *shift) nothingElse() bool {
	return len(s.asking) == 0 && !slices.ContainsFunc(s.ready, func(ln *lane) bool { return ln.key != s.l.breaker.last })
}

// handBack returns what is in hand to the stream, in its order, when the loop
// stops. After any other end the next beginning brings it again by itself.
func (s *shift) handBack() {
	for len(s.arrived) > 0 {
		s.take(<-s.arrived)
	}
	if s.ending != errStopped || s.owned.Err() != nil { //nolint:errorlint // set by this file only, never wrapped
		return
	}
	var rest []*item
	for _, ln := range s.lanes {
		for _, it := range ln.items {
			if !it.out && !it.ours() {
				rest = append(rest, it)
			}
		}
	}
	slices.SortFunc(rest, func(a, b *item) int { return cmp.Compare(a.msg.Sequence, b.msg.Sequence) })
	for _, it := range rest {
		if err := it.msg.Handle.NakWithDelay(0); err != nil {
			s.o.Log.Debug("message not handed back", "error", err)
		}
	}
	if d, ok := s.o.Source.(Drainer); ok {
		ctx, cancel := context.WithTimeout(s.owned, storeTimeout)
		defer cancel()
		if err := d.Drain(ctx); err != nil {
			s.o.Log.Debug("consumer not drained", "error", err)
		}
	}
}

// measure shows how much waits in the stream, where the source can tell.
func (s *shift) measure(ctx context.Context) {
	b, ok := s.o.Source.(Backlogger)
	if !ok {
		return
	}
	ticker := time.NewTicker(keepalive)
	defer ticker.Stop()
	for {
		if n, err := b.Pending(ctx); err == nil {
			s.l.metrics.set(s.l.metrics.backlog, float64(n))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// watchSecrets ends a pause when the sink's secrets have become others.
func (s *shift) watchSecrets(ctx context.Context) {
	if s.o.Changed == nil {
		return
	}
	ticker := time.NewTicker(secretLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if state := s.l.Status().State; (state == StatePaused || state == StateGone) && s.o.Changed(ctx) {
			s.o.Log.Info("the sink's secrets have changed")
			s.l.Resume()
		}
	}
}

// show makes the state visible.
func (s *shift) show() {
	b := s.l.breaker
	waiting, up := s.waits.len(), 0.0
	if b.closed() {
		up = 1
	}
	m := s.l.metrics
	m.set(m.inHand, float64(s.inHand))
	m.set(m.waiting, float64(waiting))
	m.set(m.up, up)
	s.l.note(func(st *Status) {
		st.State, st.NextProbe = b.state, time.Time{}
		if b.state == StateDown {
			st.NextProbe = b.next
		}
		st.InHand, st.Sending, st.Waiting = s.inHand, s.sending, waiting
	})
}

package envoysim

import "time"

// window counts what happened in the last minute.
type window struct {
	times []int64 // Unix nanoseconds, oldest first
	peak  int
}

func (w *window) trim(now time.Time) {
	edge, n := now.Add(-time.Minute).UnixNano(), 0
	for n < len(w.times) && w.times[n] <= edge {
		n++
	}
	w.times = w.times[n:]
}

func (w *window) add(now time.Time) {
	w.trim(now)
	w.times = append(w.times, now.UnixNano())
	w.peak = max(w.peak, len(w.times))
}

// admit adds a request if fewer than limit came in the last minute; else it returns how long to wait. A limit below 0
// admits all.
func (w *window) admit(now time.Time, limit int) (time.Duration, bool) {
	w.trim(now)
	if limit >= 0 && len(w.times) >= limit {
		if limit == 0 {
			return time.Minute, false
		}
		return time.Unix(0, w.times[len(w.times)-limit]).Add(time.Minute).Sub(now), false
	}
	if limit >= 0 {
		w.times = append(w.times, now.UnixNano())
	}
	return 0, true
}

// Counters tell what one token has asked for.
type Counters struct {
	Total      int
	ByTool     map[string]int
	Errors     map[ErrorCode]int // replies with ok false, by code
	PeakMinute int               // the most requests in any sliding minute, refused ones included
	Holds      int               // holds open now
}

// Requests returns the counters of every token, by its value.
func (s *Sim) Requests() map[string]Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Counters, len(s.tokens))
	for v, t := range s.tokens {
		c := t.counts
		c.PeakMinute = t.recent.peak
		c.ByTool = make(map[string]int, len(t.counts.ByTool))
		for k, n := range t.counts.ByTool {
			c.ByTool[k] = n
		}
		c.Errors = make(map[ErrorCode]int, len(t.counts.Errors))
		for k, n := range t.counts.Errors {
			c.Errors[k] = n
		}
		out[v] = c
	}
	return out
}

// countHoldLocked counts holds in (1) and out (-1).
func (s *Sim) countHoldLocked(p *purchase, t *token, n int) {
	s.holds += n
	t.counts.Holds += n
	if p.held[t] += n; p.held[t] == 0 {
		delete(p.held, t)
	}
	p.mostHeld = max(p.mostHeld, p.held[t])
}

// MostHolds returns, per purchase that was ever held, how many holds about it were open at once with one token, at the
// most. A hold is open until the Sim notices that its caller is gone.
func (s *Sim) MostHolds() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for _, p := range s.order {
		if p.mostHeld > 0 {
			out[p.now.ID] = p.mostHeld
		}
	}
	return out
}

// Holds is the number of status reads that are being held now.
func (s *Sim) Holds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

package envoysim

import "time"

// Request is one request that came with a valid token.
type Request struct {
	At    time.Time // in the Clock's time
	Token string
	Tool  string
	// Body is exactly as it came; nil if the request was over the limit.
	Body []byte
	// Limited says that it was over the limit.
	Limited bool
}

// Observe calls fn for every request that comes with a valid token, until cancel is called. Calls come from many
// goroutines at once. fn may call the Sim.
func (s *Sim) Observe(fn func(Request)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subSeq++
	n := s.subSeq
	s.observers[n] = fn
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.observers, n)
	}
}

// tell tells the observers of a request.
func (s *Sim) tell(c *call, limited bool) {
	s.mu.Lock()
	fns := make([]func(Request), 0, len(s.observers))
	for _, fn := range s.observers {
		fns = append(fns, fn)
	}
	s.mu.Unlock()
	for _, fn := range fns {
		fn(Request{At: s.clock.Now(), Token: c.tok.value, Tool: c.tool, Body: c.body, Limited: limited})
	}
}

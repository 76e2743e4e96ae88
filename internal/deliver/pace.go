package deliver

import (
	"sync"
	"time"
)

// Pace spaces sends evenly. Loops whose sinks share a limit of the receiver share
// one. A nil Pace limits nothing.
type Pace struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time
}

// NewPace allows so many sends a second; zero or less: no limit.
func NewPace(perSecond float64) *Pace {
	if perSecond <= 0 {
		return nil
	}
	return &Pace{every: time.Duration(float64(time.Second) / perSecond)}
}

// free is when the next send may begin.
func (p *Pace) free() time.Time {
	if p == nil {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// take begins a send, unless another has just taken the turn.
func (p *Pace) take(now time.Time) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.next) {
		return false
	}
	p.next = now.Add(p.every)
	return true
}

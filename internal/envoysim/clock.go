package envoysim

import "time"

// Clock is the time that holds and rate windows run in. The zero Options use the time package, which a
// testing/synctest bubble replaces by itself.
type Clock interface {
	Now() time.Time
	// NewTimer returns a channel that receives once after d, and a function that stops it.
	NewTimer(d time.Duration) (<-chan time.Time, func() bool)
}

type systemClock struct{}

// Now is the wall clock.
func (systemClock) Now() time.Time { return time.Now() }

// NewTimer is a timer of the time package.
func (systemClock) NewTimer(d time.Duration) (<-chan time.Time, func() bool) {
	t := time.NewTimer(d)
	return t.C, t.Stop
}

package deliver

import (
	"time"

	"github.com/heraldbridge/herald/internal/sinks"
)

const (
	failuresInARow    = 3  // of any kind but a plain refusal, from two purchases
	refusalsInARow    = 20 // plain ones, from ten purchases
	refusingPurchases = 10
	longestAfter      = time.Hour // of what a receiver may ask for
	quickProbes       = time.Minute
)

// breaker knows whether the whole sink is in trouble. It is used by one
// goroutine and takes the time as a parameter.
type breaker struct {
	state    State // running, down, paused or gone
	since    time.Time
	next     time.Time // of the next probe, while down
	step     int
	probing  bool
	refusals bool // it went down by plain refusals
	last     string
	failed   map[string]struct{} // lanes of the failures in a row
	nFailed  int
	refused  map[string]struct{}
	nRefused int
}

func newBreaker() *breaker {
	b := &breaker{failed: map[string]struct{}{}, refused: map[string]struct{}{}}
	b.close()
	return b
}

// close takes the sink for healthy.
func (b *breaker) close() {
	clear(b.failed)
	clear(b.refused)
	*b = breaker{state: StateRunning, last: b.last, failed: b.failed, refused: b.refused}
}

// closed reports whether sends need not wait for a probe.
func (b *breaker) closed() bool { return b.state == StateRunning }

// mayProbe reports whether one try may go out although the sink is down.
func (b *breaker) mayProbe(now time.Time) bool {
	return b.state == StateDown && !b.probing && !now.Before(b.next)
}

// succeeded notes an accepted message. While down, only the probe's counts: one
// that was under way before proves nothing about a wait the receiver asked for.
func (b *breaker) succeeded(probe bool) {
	if b.closed() || probe {
		b.close()
	}
}

// failure notes a failed try of a lane. It reports whether the try counts
// against the message.
func (b *breaker) failure(lane string, f *sinks.Failure, probe bool, now time.Time) (counts bool) {
	if probe {
		b.probing = false
	}
	b.last = lane
	switch f.Verdict {
	case sinks.Paused:
		b.halt(StatePaused, now)
		return false
	case sinks.Gone:
		b.halt(StateGone, now)
		return false
	case sinks.Down:
		b.down(now, f.After, probe)
		return false
	case sinks.Refused, sinks.Rejected, sinks.Temporary:
	}
	if f.After > 0 { // a receiver that names a wait speaks for itself
		b.down(now, f.After, probe)
		return false
	}
	if b.state == StateDown {
		return b.failedWhileDown(f, probe, now)
	}
	if !b.closed() {
		return false
	}
	if f.Verdict == sinks.Refused {
		b.nRefused++
		b.refused[lane] = struct{}{}
		if b.nRefused >= refusalsInARow && len(b.refused) >= refusingPurchases {
			b.down(now, 0, false)
			b.refusals = true
		}
		return true
	}
	b.nFailed++
	b.failed[lane] = struct{}{}
	if b.nFailed >= failuresInARow && len(b.failed) >= 2 {
		b.down(now, 0, false)
	}
	return true
}

// failedWhileDown judges a failure of the message's kind while the sink is down.
// A probe that gets a verdict on its own content shows that the receiver is
// back, unless such verdicts are what brought the sink down.
func (b *breaker) failedWhileDown(f *sinks.Failure, probe bool, now time.Time) bool {
	if probe && f.Verdict != sinks.Temporary && !b.refusals {
		b.close()
		return true
	}
	if probe {
		b.down(now, 0, true)
	}
	return false
}

// halt stops everything until somebody acts.
func (b *breaker) halt(state State, now time.Time) {
	if b.state != StateGone {
		b.state, b.since = state, now
	}
}

// down opens the breaker, or keeps it open after a failed probe.
func (b *breaker) down(now time.Time, after time.Duration, probe bool) {
	after = min(after, longestAfter)
	switch b.state {
	case StateRunning:
		b.state, b.since, b.step = StateDown, now, 0
		b.next = now.Add(max(b.pause(now), after))
	case StateDown:
		if probe {
			b.step++
			b.next = now.Add(max(b.pause(now), after))
		}
		if at := now.Add(after); at.After(b.next) {
			b.next = at
		}
	case StatePaused, StateGone, StateWaiting, StateStopped:
	}
}

// pause is the wait before the next probe: 1, 2, 4 s, then every 5 s for a
// minute, then every 30 s.
func (b *breaker) pause(now time.Time) time.Duration {
	quick := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	if b.step < len(quick) {
		return quick[b.step]
	}
	if now.Sub(b.since) < quickProbes {
		return 5 * time.Second
	}
	return 30 * time.Second
}

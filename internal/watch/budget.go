package watch

import (
	"slices"
	"sync"
	"time"
)

// class orders the wishes of those that share a budget. Lower goes first.
type class int

const (
	classDeadline class = iota // a deadline within a minute, or a trial after a trouble
	classFirst                 // first look at a purchase
	classMoving                // processing and ready
	classUnsettled
	classOpen // the other open ones
	classDiscover
)

// nobodyWaits is how long a wish waits at the most before it goes ahead of all classes.
const nobodyWaits = 5 * time.Minute

// wish is a call that somebody would like to make.
type wish struct {
	class class
	since time.Time // due since
}

// before tells whether w goes ahead of o.
func (w wish) before(o wish, now time.Time) bool {
	wOld, oOld := now.Sub(w.since) > nobodyWaits, now.Sub(o.since) > nobodyWaits
	switch {
	case wOld != oOld:
		return wOld
	case !wOld && w.class != o.class:
		return w.class < o.class
	default:
		return w.since.Before(o.since)
	}
}

// burst is how many calls may go out together.
const burst = 5

// tally is the arithmetic of a budget: a sliding minute, refilled evenly, closed when Envoy says so. Pure: all
// methods take now.
type tally struct {
	perMinute int
	start     time.Time       // that calls are counted from
	calls     []time.Duration // of the last minute, oldest first
	tokens    float64
	refilled  time.Time
	closed    time.Time // no call before
	limited   bool      // Envoy has limited this token; share says how far that still counts
}

// share is how many calls a minute may have now: half after a limit, climbing back by five a minute after five minutes.
func (t *tally) share(now time.Time) int {
	if !t.limited {
		return t.perMinute
	}
	half := max(1, t.perMinute/2)
	climbed := int(now.Sub(t.closed.Add(5*time.Minute))/time.Minute) * 5
	return min(t.perMinute, max(half, half+climbed))
}

// empty takes what is left, for a new owner: another process may have used this minute.
func (t *tally) empty(now time.Time) { t.tokens, t.refilled = 0, now }

func (t *tally) refill(now time.Time) {
	if t.refilled.IsZero() {
		t.refilled = now
	}
	if since := now.Sub(t.refilled); since > 0 && !now.Before(t.closed) {
		from := later(t.refilled, t.closed)
		t.tokens = min(burst, t.tokens+now.Sub(from).Minutes()*float64(t.share(now)))
		t.refilled = now
	}
	old := 0
	for old < len(t.calls) && now.Sub(t.start)-t.calls[old] >= time.Minute {
		old++
	}
	t.calls = slices.Delete(t.calls, 0, old)
}

// wait is how long until the next call may go out; zero: now.
func (t *tally) wait(now time.Time) time.Duration {
	t.refill(now)
	if left := t.closed.Sub(now); left > 0 {
		return left
	}
	share := t.share(now)
	var need time.Duration
	if n := len(t.calls); n >= share {
		need = t.start.Add(t.calls[n-share] + time.Minute).Sub(now)
	}
	if t.tokens < 1 {
		need = max(need, time.Duration((1-t.tokens)/float64(share)*float64(time.Minute))+time.Microsecond)
	}
	return max(need, 0)
}

func (t *tally) take(now time.Time) {
	t.tokens = max(0, t.tokens-1)
	if t.start.IsZero() {
		t.start = now
	}
	t.calls = append(t.calls, now.Sub(t.start))
}

// limit closes the budget for so long and halves the share after it.
func (t *tally) limit(now time.Time, d time.Duration) {
	t.closed = later(t.closed, now.Add(d))
	t.limited, t.tokens = true, 0
	t.refilled = now
}

// budget is the share of one token's calls, for all connections that use it. The one with the most urgent wish takes
// the next call; the others are woken when it is their turn. Where some of these connections are watched by other
// processes, this one has its part of the share and they have theirs.
type budget struct {
	mu    sync.Mutex
	whole int // calls a minute of all processes together
	users int // connections with this token, whoever watches them; 0: those seated here
	tally tally
	seats map[*seat]struct{}
}

// seat is the place of one connection at a budget.
type seat struct {
	wake   chan struct{} // capacity 1
	wanted bool
	wish   wish
}

func newSeat() *seat { return &seat{wake: make(chan struct{}, 1)} }

func (s *seat) ping() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// join takes a seat. The first owner after none begins with nothing.
func (b *budget) join(s *seat, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seats) == 0 {
		b.tally.empty(now)
	}
	b.seats[s] = struct{}{}
	b.divideLocked()
}

// divideLocked takes the part of the connections that are seated here.
func (b *budget) divideLocked() {
	users := max(b.users, len(b.seats), 1)
	b.tally.perMinute = max(1, b.whole*max(1, len(b.seats))/users)
}

func (b *budget) leave(s *seat, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.seats, s)
	b.divideLocked()
	b.wakeBestLocked(now)
}

// take asks for one call. It reports true when the call may go out now. Else it says how long to wait before asking
// again; zero means that another connection goes first and that the seat will be woken.
func (b *budget) take(s *seat, w wish, now time.Time) (bool, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.wanted, s.wish = true, w
	wait := b.tally.wait(now)
	if best := b.bestLocked(now); best != s {
		if wait == 0 {
			best.ping()
		}
		return false, wait
	}
	if wait > 0 {
		return false, wait
	}
	b.tally.take(now)
	s.wanted = false
	b.wakeBestLocked(now)
	return true, 0
}

// pass gives the turn on: the seat wants nothing now.
func (b *budget) pass(s *seat, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.wanted {
		s.wanted = false
		b.wakeBestLocked(now)
	}
}

func (b *budget) limit(now time.Time, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.limit(now, d)
}

// used gives the calls of the last minute, the share, and until when the budget is closed.
func (b *budget) used(now time.Time) (calls, share int, closed time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.refill(now)
	return len(b.tally.calls), b.tally.share(now), b.tally.closed
}

func (b *budget) bestLocked(now time.Time) *seat {
	var best *seat
	for s := range b.seats {
		if s.wanted && (best == nil || s.wish.before(best.wish, now)) {
			best = s
		}
	}
	return best
}

func (b *budget) wakeBestLocked(now time.Time) {
	if best := b.bestLocked(now); best != nil {
		best.ping()
	}
}

// budgets finds the budget of a token by its key.
type budgets struct {
	mu        sync.Mutex
	perMinute int
	byKey     map[string]*budget
}

func (b *budgets) get(key string) *budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, ok := b.byKey[key]
	if !ok {
		found = &budget{whole: b.perMinute, tally: tally{perMinute: b.perMinute}, seats: map[*seat]struct{}{}}
		b.byKey[key] = found
	}
	return found
}

// count tells how many connections use each key.
func (b *budgets) count(users map[string]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, found := range b.byKey {
		found.mu.Lock()
		found.users = users[key]
		found.divideLocked()
		found.mu.Unlock()
	}
}

// authGate spaces the calls that may fail authentication, over all connections of the process: Envoy counts them by
// address.
type authGate struct {
	mu   sync.Mutex
	next time.Time // the first turn that nobody has reserved
	last time.Time // when a call went out
}

const authEvery = 5 * time.Second

// reserve gives the time at which one such call may go out.
func (g *authGate) reserve(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := later(g.next, now)
	g.next = at.Add(authEvery)
	return at
}

// pass lets a call out if take grants it and the last one is long enough ago; else it says how long to wait.
func (g *authGate) pass(now time.Time, take func() (bool, time.Duration)) (bool, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if wait := g.last.Add(authEvery).Sub(now); wait > 0 {
		return false, wait
	}
	granted, wait := take()
	if granted {
		g.last = now
		g.next = later(g.next, now.Add(authEvery))
	}
	return granted, wait
}

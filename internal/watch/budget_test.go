package watch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/heraldbridge/herald/internal/envoy"
)

// Whatever is asked for: no sliding minute has more calls than the share, no moment more than a burst, and a new owner
// begins with nothing.
func TestTallyKeepsTheSlidingMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perMinute := rapid.IntRange(1, 120).Draw(t, "per minute")
		b := tally{perMinute: perMinute}
		now := t0
		b.empty(now)
		var calls []time.Time
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 99).Draw(t, "limited") == 0 {
				b.limit(now, time.Duration(rapid.IntRange(1, 90).Draw(t, "s"))*time.Second)
			}
			for b.wait(now) == 0 {
				if now.Before(b.closed) {
					t.Fatal("a call while the budget is closed")
				}
				b.take(now)
				calls = append(calls, now)
			}
		}
		for i, at := range calls {
			n, together := 0, 0
			for _, c := range calls[i:] {
				if c.Sub(at) < time.Minute {
					n++
				}
				if c.Equal(at) {
					together++
				}
			}
			if n > perMinute || together > burst {
				t.Fatalf("%d calls within a minute, %d at once, of %d", n, together, perMinute)
			}
		}
	})
}

func TestTallyWaitIsEnough(t *testing.T) {
	b := tally{perMinute: 40}
	now := t0
	b.empty(now)
	if w := b.wait(now); w < 1400*time.Millisecond || w > 1600*time.Millisecond {
		t.Fatalf("a new owner waits %s for its first call, want 1.5 s", w)
	}
	for range 200 {
		w := b.wait(now)
		now = now.Add(w)
		if left := b.wait(now); left != 0 {
			t.Fatalf("after waiting %s another %s", w, left)
		}
		b.take(now)
	}
	if d := now.Sub(t0); d < 4*time.Minute || d > 5*time.Minute+5*time.Second {
		t.Fatalf("200 calls took %s", d)
	}
}

func TestTallyHalvesAfterALimitAndClimbsBack(t *testing.T) {
	b := tally{perMinute: 40}
	b.limit(t0, 10*time.Second)
	for after, want := range map[time.Duration]int{
		0: 20, 5 * time.Minute: 20, 6 * time.Minute: 25, 7 * time.Minute: 30, 9 * time.Minute: 40, time.Hour: 40,
	} {
		if got := b.share(t0.Add(10*time.Second + after)); got != want {
			t.Errorf("share %s after a limit: %d, want %d", after, got, want)
		}
	}
	if w := b.wait(t0.Add(4 * time.Second)); w != 6*time.Second {
		t.Errorf("closed for %s, want 6 s", w)
	}
}

func TestWishesGoByClassThenByAge(t *testing.T) {
	now := t0
	at := func(c class, age time.Duration) wish { return wish{class: c, since: now.Add(-age)} }
	for _, c := range []struct{ first, second wish }{
		{at(classDeadline, 0), at(classFirst, time.Minute)},
		{at(classFirst, 0), at(classMoving, time.Minute)},
		{at(classMoving, 0), at(classUnsettled, time.Minute)},
		{at(classUnsettled, 0), at(classOpen, time.Minute)},
		{at(classOpen, 0), at(classDiscover, time.Minute)},
		{at(classMoving, time.Minute), at(classMoving, 0)},
		{at(classDiscover, 6*time.Minute), at(classDeadline, 0)}, // nobody waits for more than five minutes
		{at(classDiscover, 7*time.Minute), at(classDeadline, 6*time.Minute)},
	} {
		if !c.first.before(c.second, now) || c.second.before(c.first, now) {
			t.Errorf("%+v does not go before %+v", c.first, c.second)
		}
	}
}

func TestBudgetIsSharedByUrgency(t *testing.T) {
	bs := budgets{perMinute: 60, byKey: map[string]*budget{}}
	b := bs.get("token")
	if bs.get("token") != b || bs.get("other") == b {
		t.Fatal("one budget per key")
	}
	low, high := newSeat(), newSeat()
	b.join(low, t0)
	b.join(high, t0)
	now := t0.Add(time.Second)
	if ok, _ := b.take(low, wish{class: classDiscover, since: t0}, t0); ok {
		t.Fatal("a new owner begins with nothing")
	}
	if ok, _ := b.take(high, wish{class: classFirst, since: t0}, t0); ok {
		t.Fatal("a new owner begins with nothing")
	}
	if ok, _ := b.take(low, wish{class: classDiscover, since: t0}, now.Add(time.Millisecond)); ok {
		t.Fatal("the less urgent went first")
	}
	select {
	case <-high.wake:
	default:
		t.Fatal("the more urgent was not woken")
	}
	if ok, _ := b.take(high, wish{class: classFirst, since: t0}, now.Add(time.Millisecond)); !ok {
		t.Fatal("the more urgent did not get its call")
	}
	select {
	case <-low.wake:
	default:
		t.Fatal("the next was not woken")
	}
	b.leave(high, now)
	if ok, _ := b.take(low, wish{class: classDiscover, since: t0}, now.Add(time.Second)); !ok {
		t.Fatal("the last one does not get its call")
	}
}

// Processes that watch connections of one token have their parts of its share, and together never more than all of it.
func TestBudgetIsDividedAmongProcesses(t *testing.T) {
	processes := []*budgets{{perMinute: 40, byKey: map[string]*budget{}}, {perMinute: 40, byKey: map[string]*budget{}}}
	seats := []*seat{newSeat(), newSeat(), newSeat()}
	one, two := processes[0].get("token"), processes[1].get("token")
	for _, p := range processes {
		p.count(map[string]int{"token": 3})
	}
	share := func(b *budget) int { _, share, _ := b.used(t0); return share }
	one.join(seats[0], t0)
	two.join(seats[1], t0)
	two.join(seats[2], t0)
	if a, b := share(one), share(two); a != 13 || b != 26 {
		t.Errorf("shares %d and %d, want 13 and 26 of 40", a, b)
	}
	two.leave(seats[1], t0)
	two.leave(seats[2], t0)
	one.join(seats[1], t0)
	one.join(seats[2], t0)
	if a := share(one); a != 40 {
		t.Errorf("the only one has %d of 40", a)
	}
	processes[0].count(map[string]int{"token": 6})
	if a := share(one); a != 20 {
		t.Errorf("half of the connections have %d of 40", a)
	}
	processes[0].count(map[string]int{})
	if a := share(one); a != 40 {
		t.Errorf("connections that end have %d of 40", a)
	}
}

func TestFailingAuthenticationsAreSpaced(t *testing.T) {
	var g authGate
	for i := range 5 {
		if at := g.reserve(t0); !at.Equal(t0.Add(time.Duration(i) * 5 * time.Second)) {
			t.Fatalf("number %d may go at %s", i, at.Sub(t0))
		}
	}
}

func TestRemedies(t *testing.T) {
	code := func(c envoy.Code, retry bool) error {
		return fmt.Errorf("wrapped: %w", &envoy.Error{Code: c, Retryable: retry, After: 7 * time.Second})
	}
	out := func(k envoy.OutageKind, status int, took time.Duration) error {
		return &envoy.Outage{Kind: k, Status: status, Took: took}
	}
	for _, c := range []struct {
		err  error
		held time.Duration
		want remedy
	}{
		{code(envoy.CodeRateLimited, true), 0, remedyLimit},
		{code(envoy.CodeUnavailable, true), 0, remedyWait},
		{code(envoy.CodeUnavailable, false), 0, remedySlow},
		{code(envoy.CodeUnauthenticated, false), 0, remedyAuth},
		{code(envoy.CodeNotAllowed, false), 0, remedyForbidden},
		{code(envoy.CodeServiceNotEnabled, false), 0, remedyNoService},
		{code(envoy.CodeNotFound, false), 0, remedyMissing},
		{code(envoy.CodeClientUpdateRequired, false), 0, remedyUpdate},
		{code(envoy.CodeInvalidInput, true), 0, remedyBadInput},
		{code(envoy.CodeStateConflict, true), 0, remedyWait},
		{code("CODE_OF_TOMORROW", false), 0, remedySlow},
		{code("CODE_OF_TOMORROW", true), 0, remedyWait},
		{out(envoy.OutageForeign, 200, 0), 0, remedyForeign},
		{out(envoy.OutageDial, 0, 0), 0, remedyOutage},
		{out(envoy.OutageMalformed, 200, 40*time.Second), 45 * time.Second, remedyOutage},
		{out(envoy.OutageClientOwn, 0, 0), 0, remedyOutage},
		{out(envoy.OutageReset, 0, 30*time.Second), 45 * time.Second, remedyHoldEnded},
		{out(envoy.OutageStatus, 504, 30*time.Second), 45 * time.Second, remedyHoldEnded},
		{out(envoy.OutageStatus, 504, time.Millisecond), 45 * time.Second, remedyOutage},
		{out(envoy.OutageStatus, 504, 30*time.Second), 0, remedyOutage},
		{out(envoy.OutageReset, 0, time.Second), 45 * time.Second, remedyOutage},
		{out(envoy.OutageStatus, 204, 0), 45 * time.Second, remedyNoEnvelope},
		{out(envoy.OutageStatus, 304, 0), 45 * time.Second, remedyNoEnvelope},
		{context.Canceled, 0, remedyNone},
		{context.DeadlineExceeded, 0, remedyOutage},
		{errors.New("odd"), 0, remedyOutage},
	} {
		if got, _ := remedyFor(c.err, c.held); got != c.want {
			t.Errorf("%v (hold %s): %s, want %s", c.err, c.held, got, c.want)
		}
	}
	if _, after := remedyFor(code(envoy.CodeRateLimited, true), 0); after != 7*time.Second {
		t.Errorf("the wait is %s", after)
	}
}

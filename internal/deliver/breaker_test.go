package deliver

import (
	"fmt"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/sinks"
)

func TestProbesOfABreaker(t *testing.T) {
	b, now := newBreaker(), time.Unix(0, 0)
	if b.failure("a", errDial, false, now) {
		t.Error("no connection counted against the message")
	}
	var got []time.Duration
	last := now
	for range 20 {
		if b.mayProbe(b.next.Add(-1)) || !b.mayProbe(b.next) {
			t.Fatal("probes at another moment than next")
		}
		got = append(got, b.next.Sub(last))
		last = b.next
		b.probing = true
		if b.mayProbe(last.Add(time.Hour)) {
			t.Fatal("two probes at once")
		}
		b.failure("a", errDial, true, last)
	}
	want := []int{1, 2, 4}
	for range 11 {
		want = append(want, 5)
	}
	for range 6 {
		want = append(want, 30)
	}
	for i, seconds := range want {
		if got[i] != time.Duration(seconds)*time.Second {
			t.Errorf("wait %d is %s, want %d s", i+1, got[i], seconds)
		}
	}
	b.succeeded(false)
	if b.closed() {
		t.Error("an older send that ended well closed it")
	}
	b.succeeded(true)
	if !b.closed() {
		t.Error("the probe did not close it")
	}
}

func TestWhenFailuresAreTheSinks(t *testing.T) {
	now := time.Unix(0, 0)
	tests := map[string]struct {
		feed func(b *breaker)
		want State
	}{
		"two":                      {func(b *breaker) { fail(b, errServer, "a", "b") }, StateRunning},
		"three of one purchase":    {func(b *breaker) { fail(b, errServer, "a", "a", "a", "a") }, StateRunning},
		"three of two purchases":   {func(b *breaker) { fail(b, errServer, "a", "a", "b") }, StateDown},
		"a success between":        {func(b *breaker) { fail(b, errServer, "a", "b"); b.succeeded(false); fail(b, errServer, "c") }, StateRunning},
		"twenty refusals of ten":   {func(b *breaker) { fail(b, errRefused, numbered(20, 10)...) }, StateDown},
		"nineteen refusals of ten": {func(b *breaker) { fail(b, errRefused, numbered(19, 10)...) }, StateRunning},
		"twenty refusals of nine":  {func(b *breaker) { fail(b, errRefused, numbered(20, 9)...) }, StateRunning},
		"a server that names a wait": {func(b *breaker) {
			b.failure("a", &sinks.Failure{Verdict: sinks.Temporary, After: time.Minute}, false, now)
		}, StateDown},
		"credentials": {func(b *breaker) { b.failure("a", &sinks.Failure{Verdict: sinks.Paused}, false, now) }, StatePaused},
		"gone, and credentials after it": {func(b *breaker) {
			b.failure("a", &sinks.Failure{Verdict: sinks.Gone}, false, now)
			b.failure("a", &sinks.Failure{Verdict: sinks.Paused}, false, now)
		}, StateGone},
		"a probe is plainly refused": {func(b *breaker) { fail(b, errDial, "a"); b.failure("b", errRefused, true, now) }, StateRunning},
		"a probe is refused after refusals": {func(b *breaker) {
			fail(b, errRefused, numbered(20, 10)...)
			b.failure("b", errRefused, true, now)
		}, StateDown},
		"a probe fails at the server": {func(b *breaker) { fail(b, errDial, "a"); b.failure("b", errServer, true, now) }, StateDown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBreaker()
			tt.feed(b)
			if b.state != tt.want {
				t.Errorf("state %q, want %q", b.state, tt.want)
			}
		})
	}
}

func TestAWaitOfAReceiverIsBounded(t *testing.T) {
	b, now := newBreaker(), time.Unix(0, 0)
	b.failure("a", &sinks.Failure{Verdict: sinks.Down, After: 24 * time.Hour}, false, now)
	if b.next.Sub(now) != time.Hour {
		t.Errorf("probes after %s", b.next.Sub(now))
	}
	b.failure("b", &sinks.Failure{Verdict: sinks.Down, After: time.Minute}, false, now.Add(30*time.Second))
	if b.next.Sub(now) != time.Hour {
		t.Error("a shorter wait brought the probe forward")
	}
	b = newBreaker()
	b.failure("a", errDial, false, now)
	b.failure("b", &sinks.Failure{Verdict: sinks.Down, After: time.Minute}, false, now) // was under way
	if b.next.Sub(now) != time.Minute {
		t.Errorf("probes after %s although it was asked for a minute", b.next.Sub(now))
	}
}

func fail(b *breaker, f *sinks.Failure, lanes ...string) {
	for _, ln := range lanes {
		b.failure(ln, f, false, time.Unix(0, 0))
	}
}

func numbered(n, of int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(i%of))
	}
	return out
}

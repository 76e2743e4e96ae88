package backoff_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/heraldbridge/herald/internal/backoff"
)

func always(x float64) func() float64 { return func() float64 { return x } }

func TestDelay(t *testing.T) {
	const almost = 1 - 1e-9
	tests := []struct {
		name    string
		policy  backoff.Policy
		attempt int
		want    time.Duration // of the ceiling
	}{
		{"first", backoff.Policy{Base: time.Second, Max: time.Minute}, 0, time.Second},
		{"doubles", backoff.Policy{Base: time.Second, Max: time.Minute}, 3, 8 * time.Second},
		{"stops at the top", backoff.Policy{Base: time.Second, Max: time.Minute}, 6, time.Minute},
		{"stays at the top", backoff.Policy{Base: time.Second, Max: time.Minute}, math.MaxInt, time.Minute},
		{"does not overflow", backoff.Policy{Base: time.Hour, Max: math.MaxInt64}, 1000, math.MaxInt64},
		{"negative counts as first", backoff.Policy{Base: time.Second, Max: time.Minute}, -1, time.Second},
		{"zero policy", backoff.Policy{}, 5, time.Second},
		{"top below base", backoff.Policy{Base: time.Minute, Max: time.Second}, 5, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.policy.Ceiling(tt.attempt); got != tt.want {
				t.Errorf("ceiling %s, want %s", got, tt.want)
			}
			tt.policy.Rand = always(0)
			if got := tt.policy.Delay(tt.attempt); got != 0 {
				t.Errorf("least delay %s", got)
			}
			tt.policy.Rand = always(almost)
			if got := tt.policy.Delay(tt.attempt); got > tt.want || float64(got) < 0.99*float64(tt.want) {
				t.Errorf("most delay %s, want just under %s", got, tt.want)
			}
		})
	}
}

func TestDelayIsWithinItsCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := backoff.Policy{
			Base: time.Duration(rapid.Int64().Draw(t, "base")),
			Max:  time.Duration(rapid.Int64().Draw(t, "max")),
		}
		attempt := rapid.IntRange(-5, 200).Draw(t, "attempt")
		ceiling := p.Ceiling(attempt)
		if d := p.Delay(attempt); d < 0 || d > ceiling {
			t.Fatalf("delay %s of at most %s", d, ceiling)
		}
		if next := p.Ceiling(attempt + 1); next < ceiling {
			t.Fatalf("ceiling falls from %s to %s", ceiling, next)
		}
	})
}

func TestJitter(t *testing.T) {
	tests := []struct {
		d        time.Duration
		fraction float64
		rnd      float64
		want     time.Duration
	}{
		{10 * time.Second, 0.2, 0, 8 * time.Second},
		{10 * time.Second, 0.2, 0.5, 10 * time.Second},
		{10 * time.Second, 0.2, 1, 12 * time.Second},
		{10 * time.Second, 0, 0.9, 10 * time.Second},
		{10 * time.Second, 5, 0, 0},
		{10 * time.Second, -1, 0, 10 * time.Second},
		{0, 0.2, 0, 0},
		{-time.Second, 0.2, 0, -time.Second},
	}
	for _, tt := range tests {
		if got := backoff.Jitter(tt.d, tt.fraction, always(tt.rnd)); got != tt.want {
			t.Errorf("%s by %v at %v: %s, want %s", tt.d, tt.fraction, tt.rnd, got, tt.want)
		}
	}
	if got := backoff.Jitter(time.Second, 0.5, nil); got < 500*time.Millisecond || got > 1500*time.Millisecond {
		t.Errorf("own chance: %s", got)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		value string
		limit time.Duration
		want  time.Duration
		ok    bool
	}{
		{"3", 0, 3 * time.Second, true},
		{" 3 ", 0, 3 * time.Second, true},
		{"0", 0, 0, true},
		{"7200", 0, time.Hour, true},
		{"7200", 3 * time.Hour, 2 * time.Hour, true},
		{"99999999999999999999999", 0, time.Hour, true},
		{"Thu, 01 Oct 2026 12:00:30 GMT", 0, 30 * time.Second, true},
		{"Thu, 01 Oct 2026 11:00:00 GMT", 0, 0, true},
		{"Thu, 01 Oct 2099 11:00:00 GMT", 0, time.Hour, true},
		{"Thursday, 01-Oct-26 12:00:30 GMT", 0, 30 * time.Second, true},
		{"Thu Oct  1 12:00:30 2026", 0, 30 * time.Second, true},
		{"", 0, 0, false},
		{"-3", 0, 0, false},
		{"1.5", 0, 0, false},
		{"soon", 0, 0, false},
	}
	for _, tt := range tests {
		if got, ok := backoff.RetryAfter(tt.value, now, tt.limit); got != tt.want || ok != tt.ok {
			t.Errorf("%q up to %s: %s %t, want %s %t", tt.value, tt.limit, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"3", "Thu, 01 Oct 2026 12:00:30 GMT", "x", "99999999999999999999"} {
		f.Add(seed)
	}
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		d, ok := backoff.RetryAfter(value, now, 0)
		if d < 0 || d > backoff.MaxRetryAfter || (!ok && d != 0) {
			t.Errorf("%q: %s %t", value, d, ok)
		}
	})
}

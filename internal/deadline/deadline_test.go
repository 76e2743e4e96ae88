package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/deadline"
)

func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// Calls share a deadline, but none has less than its least, and a later one does not cut an earlier one short.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const least, most = time.Minute, 2 * time.Minute
		var s deadline.Shared
		first := s.Between(t.Context(), least, most)
		pass(most - least)
		if s.Between(t.Context(), least, most) != first {
			t.Error("a deadline of its own for a call that could share one")
		}
		pass(time.Second)
		second := s.Between(t.Context(), least, most)
		if second == first {
			t.Error("a call that has less than its least")
		}
		pass(least - 2*time.Second)
		if first.Err() != nil {
			t.Error("the first was cut short")
		}
		pass(time.Second)
		if first.Err() == nil || second.Err() != nil {
			t.Errorf("at the end of the first: %v, %v", first.Err(), second.Err())
		}
		pass(most)
		if second.Err() == nil {
			t.Error("the second has no end")
		}
	})
}

// A context that ends later than a call may last is not for that call, and neither is one of another parent.
func TestSharedIsNotForEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s deadline.Shared
		long := s.Between(t.Context(), time.Minute, 2*time.Minute)
		if short := s.Between(t.Context(), time.Second, 2*time.Second); short == long {
			t.Error("a short call got a long deadline")
		}
		parent, cancel := context.WithCancel(t.Context())
		other := s.Between(parent, time.Second, 2*time.Second)
		cancel()
		if other.Err() == nil || s.Between(t.Context(), time.Second, 2*time.Second).Err() != nil {
			t.Error("calls of two parents share a deadline")
		}
		pass(2 * time.Minute)
	})
}

// A deadline that comes in time is taken as it is; without one, or with a later one, there is one of its own.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			has   time.Duration // zero: no deadline
			ended time.Duration
		}{"none": {0, 10 * time.Second}, "sooner": {5 * time.Second, 5 * time.Second}, "little later": {11 * time.Second, 11 * time.Second}, "too late": {12 * time.Second, 10 * time.Second}} {
			parent, cancel := context.WithCancel(t.Context())
			if c.has > 0 {
				parent, cancel = context.WithTimeout(t.Context(), c.has)
			}
			begun := time.Now()
			ctx, done := deadline.Within(parent, 10*time.Second, time.Second)
			<-ctx.Done()
			if took := time.Since(begun); took != c.ended {
				t.Errorf("%s: it ended after %s, not %s", name, took, c.ended)
			}
			done()
			cancel()
		}
	})
}

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

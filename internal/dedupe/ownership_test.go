package dedupe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// A process that was stopped and goes on looks at its lease before any timer
// has run.
func TestOwnershipEndsByTheClockWithoutATimer(t *testing.T) {
	inner, cancel := context.WithCancelCause(t.Context())
	l := &lease{until: time.Now().Add(time.Hour), cancel: cancel}
	owned := ownership{Context: inner, lease: l}
	child, stop := context.WithCancel(owned)
	defer stop()
	if owned.Err() != nil {
		t.Fatalf("a lease with time left is over: %v", owned.Err())
	}
	l.extend(time.Now().Add(-time.Nanosecond))
	if owned.Err() == nil {
		t.Fatal("a lease without time left is not over")
	}
	select {
	case <-owned.Done():
	default:
		t.Error("Done is open although Err is not nil")
	}
	if !errors.Is(context.Cause(owned), ErrLeaseLost) || child.Err() == nil {
		t.Errorf("cause %v, error of a child %v", context.Cause(owned), child.Err())
	}
}

func TestOrderSortsAsCursorsDo(t *testing.T) {
	at := func(e, r, n int64, s uint64) events.Cursor {
		return events.Cursor{Position: events.Position{Epoch: e, Revision: r, N: n}, Sequence: s}
	}
	ascending := []events.Cursor{
		at(-1, 5, 5, 5), at(0, -2, 0, 0), at(0, 0, 0, 0), at(0, 0, 0, 1), at(0, 0, 1, 0), at(0, 9, 0, 0), at(0, 10, 0, 0),
		at(0, 1<<53, 0, 0), at(0, 1<<53+1, 0, 0), at(0, 1<<63-1, 0, 0), at(0, 1<<63-1, 0, 1<<64-1), at(1, 0, 0, 0),
	}
	for i, a := range ascending {
		if len(order(a)) != orderLength {
			t.Fatalf("the head of %+v has %d characters", a, len(order(a)))
		}
		for j, b := range ascending {
			if got, want := order(a) > order(b), i > j; got != want || later(a, b) != want {
				t.Errorf("%+v against %+v: by head %v, by comparison %v, want %v", a.Position, b.Position, got, later(a, b), want)
			}
		}
	}
}

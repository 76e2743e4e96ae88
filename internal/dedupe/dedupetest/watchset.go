package dedupetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

func testWatchSet(t *testing.T, s Subject) {
	if _, found, err := s.Store.TakeWatchSet(t.Context(), "host-a", "me"); found || err != nil {
		t.Fatalf("nothing stored: found %v, error %v", found, err)
	}
	first := events.WatchSet{Baselined: true, Refs: []events.WatchRef{
		{PurchaseID: purchase, Seen: true, Since: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)},
		{KeyHash: events.HashKey("a-key-of-the-agent"), Registered: true},
	}}
	must(t, s.Store.PutWatchSet(t.Context(), "host-a", "me", first))
	second := events.WatchSet{Refs: first.Refs[:1]}
	must(t, s.Store.PutWatchSet(t.Context(), "host-b", "me", first)) // nobody has taken it
	must(t, s.Store.PutWatchSet(t.Context(), "host-b", "me", second))
	for connection, want := range map[string]events.WatchSet{"host-a": first, "host-b": second} {
		got, found, err := s.Again().TakeWatchSet(t.Context(), connection, "other")
		if err != nil || !found || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, %v, want %+v", connection, got, found, err, want)
		}
	}
}

// testTakenSet: who has taken a set last is the only one who can write it, so that a process that was stopped in the midst
// of a write does not undo what the next owner wrote meanwhile.
func testTakenSet(t *testing.T, s Subject) {
	ctx, mine, theirs := t.Context(), s.Store, s.Again()
	set := func(agent string) events.WatchSet {
		return events.WatchSet{Agent: agent, Refs: []events.WatchRef{{PurchaseID: purchase}}}
	}
	want := func(when string, store Store, owner string, want events.WatchSet) {
		t.Helper()
		got, found, err := store.TakeWatchSet(ctx, "host-a", owner)
		if err != nil || found != (want.Agent != "") || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, %v, want %+v", when, got, found, err, want)
		}
	}
	refused := func(when string, store Store, owner string) {
		t.Helper()
		if err := store.PutWatchSet(ctx, "host-a", owner, set("late")); !errors.Is(err, events.ErrTaken) {
			t.Errorf("%s: a write gives %v, want %v", when, err, events.ErrTaken)
		}
	}
	want("nothing stored", mine, "a", events.WatchSet{})
	want("taken, and nothing stored", theirs, "b", events.WatchSet{})
	refused("taken by another, nothing stored", mine, "a")
	want("after a refusal", mine, "a", events.WatchSet{})
	must(t, mine.PutWatchSet(ctx, "host-a", "a", set("first")))
	must(t, mine.PutWatchSet(ctx, "host-a", "a", set("second")))
	want("taken by another", theirs, "b", set("second"))
	refused("taken by another", mine, "a")
	must(t, theirs.PutWatchSet(ctx, "host-a", "b", set("third")))
	refused("written by another", mine, "a")
	must(t, mine.PutWatchSet(ctx, "host-b", "a", set("other"))) // another connection's
	want("taken back", mine, "a", set("third"))
	refused("taken back", theirs, "b")
}

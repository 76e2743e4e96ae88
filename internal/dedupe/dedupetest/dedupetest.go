// Package dedupetest is the one behaviour that every state store has to show.
// Each implementation runs it against a real server.
package dedupetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Store is what a state store offers to watchers and notifiers.
type Store interface {
	Cursor(ctx context.Context, purchaseID string) (events.Cursor, bool, error)
	Advance(ctx context.Context, cursors map[string]events.Cursor) error
	TakeWatchSet(ctx context.Context, connection, owner string) (events.WatchSet, bool, error)
	PutWatchSet(ctx context.Context, connection, owner string, s events.WatchSet) error
	Standings(ctx context.Context, sink string, purchases []string) (map[string]events.Standing, error)
	PutStandings(ctx context.Context, sink string, m map[string]events.Standing) error
	Silences(ctx context.Context) ([]events.Silence, error)
	PutSilence(ctx context.Context, s events.Silence) error
	DeleteSilence(ctx context.Context, id string) error
}

// Subject is a store under test and the server behind it.
type Subject struct {
	Store Store
	// Again opens the same store once more, as another process would.
	Again func() Store
	// Lives lists how long each stored record has left, silences apart.
	Lives func() []time.Duration
	// Spoil overwrites every stored record with what is no record.
	Spoil func()
	// Stop ends the server.
	Stop func()
}

const (
	purchase = "pur_0123456789abcdef0123456789abcdef"
	other    = "pur_ffffffffffffffffffffffffffffffff"
	life     = 30 * 24 * time.Hour
)

// Run shows the behaviour of the store that open gives; each part opens its own.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	parts := []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"Cursor", testCursor},
		{"CursorNeverBackward", testNeverBackward},
		{"CursorConcurrent", testConcurrent},
		{"WatchSet", testWatchSet},
		{"WatchSetOfOneOwner", testTakenSet},
		{"Standings", testStandings},
		{"StandingsOfSinksApart", testSinksApart},
		{"BigRecords", testBig},
		{"Silences", testSilences},
		{"RecordsExpire", testExpiry},
		{"NamesRefused", testNames},
		{"SpoiltIsAnError", testSpoilt},
		{"StoppedIsAnError", testStopped},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) { p.run(t, open(t)) })
	}
}

// CursorAt is a cursor with every field set.
func CursorAt(epoch, revision, n int64, sequence uint64) events.Cursor {
	at := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	p := events.Position{Epoch: epoch, Revision: revision, N: n}
	return events.Cursor{
		Position: p,
		Last:     events.Reading{Revision: revision, Situation: events.SituationConfirming, Money: events.MoneyUnknown, Unsettled: true},
		Sequence: sequence, EventID: events.EventID(purchase, p), State: events.StateVerifying,
		SituationSince: at, Published: at.Add(time.Second), PassedApproval: true, ChainRoot: other, OverdueFor: "x",
	}
}

func testCursor(t *testing.T, s Subject) {
	if _, found, err := s.Store.Cursor(t.Context(), purchase); found || err != nil {
		t.Fatalf("nothing stored: found %v, error %v", found, err)
	}
	want := CursorAt(0, 9007199254740993, 2, 18446744073709551615)
	must(t, s.Store.Advance(t.Context(), map[string]events.Cursor{purchase: want}))
	for name, store := range map[string]Store{"same": s.Store, "another": s.Again()} {
		got, found, err := store.Cursor(t.Context(), purchase)
		if err != nil || !found || got != want {
			t.Errorf("%s process: got %+v, %v, %v, want %+v", name, got, found, err, want)
		}
	}
	if _, found, err := s.Store.Cursor(t.Context(), other); found || err != nil {
		t.Errorf("another purchase: found %v, error %v", found, err)
	}
}

func testNeverBackward(t *testing.T, s Subject) {
	steps := []struct {
		name   string
		c      events.Cursor
		stored bool
	}{
		{"first", CursorAt(0, 7, 0, 10), true},
		{"lower revision", CursorAt(0, 6, 9, 99), false},
		{"next reading", CursorAt(0, 7, 1, 11), true},
		{"lower reading", CursorAt(0, 7, 0, 12), false},
		{"same position, later sequence", CursorAt(0, 7, 1, 13), true},
		{"same position, earlier sequence", CursorAt(0, 7, 1, 12), false},
		{"more digits are more", CursorAt(0, 10, 0, 20), true},
		{"beyond what a float can count", CursorAt(0, 9007199254740993, 0, 21), true},
		{"one less of that", CursorAt(0, 9007199254740992, 5, 22), false},
		{"new epoch at a lower revision", CursorAt(1, 2, 0, 23), true},
		{"old epoch", CursorAt(0, 9007199254740999, 0, 24), false},
	}
	var want events.Cursor
	for _, st := range steps {
		must(t, s.Store.Advance(t.Context(), map[string]events.Cursor{purchase: st.c}))
		if st.stored {
			want = st.c
		}
		got, found, err := s.Store.Cursor(t.Context(), purchase)
		if err != nil || !found || got != want {
			t.Fatalf("%s: got %+v, %v, %v, want %+v", st.name, got, found, err, want)
		}
	}
	same := want
	same.OverdueFor = "changed"
	must(t, s.Store.Advance(t.Context(), map[string]events.Cursor{purchase: same}))
	if got, _, err := s.Store.Cursor(t.Context(), purchase); err != nil || got != same {
		t.Errorf("the same position with other facts: got %+v, %v", got, err)
	}
	// Of several in one trip each is judged by itself.
	other, first := purchase+"-other", CursorAt(0, 1, 0, 1)
	must(t, s.Store.Advance(t.Context(), map[string]events.Cursor{purchase: first, other: first}))
	for id, want := range map[string]events.Cursor{purchase: same, other: first} {
		if got, found, err := s.Store.Cursor(t.Context(), id); err != nil || !found || got != want {
			t.Errorf("%s, in one trip: got %+v, %v, %v, want %+v", id, got, found, err, want)
		}
	}
}

func testConcurrent(t *testing.T, s Subject) {
	const writers, each = 4, 20
	var group sync.WaitGroup
	for w := range writers {
		store := s.Again()
		group.Go(func() {
			for i := range each {
				revision := int64(i*writers + w)
				if err := store.Advance(t.Context(), map[string]events.Cursor{purchase: CursorAt(0, revision, 0, uint64(revision))}); err != nil {
					t.Errorf("advance: %v", err)
				}
			}
		})
	}
	group.Wait()
	got, found, err := s.Store.Cursor(t.Context(), purchase)
	if err != nil || !found || got.Revision != writers*each-1 {
		t.Errorf("after all: revision %d, %v, %v, want %d", got.Revision, found, err, writers*each-1)
	}
}

func standingAt(settled uint64) events.Standing {
	at := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	return events.Standing{
		Settled: settled, Stream: at,
		Tries:  map[string]events.Try{"e-1": {Count: 2, First: at, Due: at.Add(time.Minute), Last: "503"}},
		Alarms: map[string]events.Alarm{"unsettled": {Since: at, Opened: at, Event: "e-0", Reminded: 1, Urgent: true}},
		Thread: map[string]string{"ts": "1.2"}, LastID: "e-0", LastTime: at,
	}
}

func testStandings(t *testing.T, s Subject) {
	got, err := s.Store.Standings(t.Context(), "orders", []string{purchase, other})
	if err != nil || len(got) != 0 {
		t.Fatalf("nothing stored: got %v, %v", got, err)
	}
	if got, err = s.Store.Standings(t.Context(), "orders", nil); err != nil || len(got) != 0 {
		t.Fatalf("nothing asked: got %v, %v", got, err)
	}
	must(t, s.Store.PutStandings(t.Context(), "orders", nil))
	want := make(map[string]events.Standing)
	var ask []string
	for i := range 100 {
		id := fmt.Sprintf("pur_%032x", i)
		ask = append(ask, id)
		if i%2 == 0 {
			want[id] = standingAt(uint64(i + 1))
		}
	}
	must(t, s.Store.PutStandings(t.Context(), "orders", want))
	got, err = s.Again().Standings(t.Context(), "orders", ask)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %d records, %v, want %d", len(got), err, len(want))
	}
	changed := map[string]events.Standing{ask[0]: standingAt(1000)}
	must(t, s.Store.PutStandings(t.Context(), "orders", changed))
	got, err = s.Store.Standings(t.Context(), "orders", ask[:1])
	if err != nil || !reflect.DeepEqual(got, changed) {
		t.Errorf("after a change: got %+v, %v", got, err)
	}
}

func testSinksApart(t *testing.T, s Subject) {
	sinks := []string{"ops", "ops-slack", "ops_slack"}
	for i, sink := range sinks {
		must(t, s.Store.PutStandings(t.Context(), sink, map[string]events.Standing{purchase: standingAt(uint64(i + 1))}))
	}
	for i, sink := range sinks {
		got, err := s.Store.Standings(t.Context(), sink, []string{purchase})
		if err != nil || got[purchase].Settled != uint64(i+1) {
			t.Errorf("%s: got %+v, %v", sink, got, err)
		}
	}
}

func testBig(t *testing.T, s Subject) {
	big := standingAt(1)
	big.Tries = make(map[string]events.Try)
	for i := range 1000 {
		big.Tries[fmt.Sprintf("e-%d", i)] = events.Try{Count: i, Last: strings.Repeat("x", 256)}
	}
	set := events.WatchSet{Baselined: true}
	for i := range 2000 {
		set.Refs = append(set.Refs, events.WatchRef{PurchaseID: fmt.Sprintf("pur_%032x", i), Seen: true})
	}
	must(t, s.Store.PutStandings(t.Context(), "orders", map[string]events.Standing{purchase: big}))
	must(t, s.Store.PutWatchSet(t.Context(), "host-a", "me", set))
	gotStandings, err := s.Store.Standings(t.Context(), "orders", []string{purchase})
	if err != nil || !reflect.DeepEqual(gotStandings[purchase], big) {
		t.Errorf("a standing of %d tries does not come back: %v", len(big.Tries), err)
	}
	gotSet, found, err := s.Store.TakeWatchSet(t.Context(), "host-a", "me")
	if err != nil || !found || !reflect.DeepEqual(gotSet, set) {
		t.Errorf("a watch set of %d does not come back: %v, %v", len(set.Refs), found, err)
	}
}

func testSilences(t *testing.T, s Subject) {
	if got, err := s.Store.Silences(t.Context()); err != nil || len(got) != 0 {
		t.Fatalf("nothing stored: got %v, %v", got, err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	long := events.Silence{ID: "long", Match: "unsettled", Until: now.Add(60 * 24 * time.Hour), Why: "holidays", By: "ops"}
	short := events.Silence{ID: "short", Match: "true", Until: now.Add(time.Hour), Why: "a release"}
	over := events.Silence{ID: "over", Match: "true", Until: now.Add(-time.Second), Why: "yesterday"}
	for _, sil := range []events.Silence{long, over, short} {
		must(t, s.Store.PutSilence(t.Context(), sil))
	}
	wantSilences(t, s.Again(), short, long)
	short.Until = now.Add(90 * 24 * time.Hour)
	must(t, s.Store.PutSilence(t.Context(), short))
	wantSilences(t, s.Store, long, short)
	must(t, s.Store.DeleteSilence(t.Context(), "long"))
	must(t, s.Store.DeleteSilence(t.Context(), "long"))
	must(t, s.Store.DeleteSilence(t.Context(), "never-there"))
	wantSilences(t, s.Again(), short)
}

func wantSilences(t *testing.T, store Store, want ...events.Silence) {
	t.Helper()
	got, err := store.Silences(t.Context())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("silences: got %+v, %v, want %+v", got, err, want)
	}
}

func testExpiry(t *testing.T, s Subject) {
	must(t, s.Store.Advance(t.Context(), map[string]events.Cursor{purchase: CursorAt(0, 1, 0, 1)}))
	must(t, s.Store.Advance(t.Context(), map[string]events.Cursor{purchase: CursorAt(0, 2, 0, 2)})) // a second write must not lose it
	must(t, s.Store.PutWatchSet(t.Context(), "host-a", "me", events.WatchSet{}))
	must(t, s.Store.PutStandings(t.Context(), "orders", map[string]events.Standing{purchase: standingAt(1)}))
	lives := s.Lives()
	if len(lives) < 3 {
		t.Fatalf("%d records have a life, want 3 at least", len(lives))
	}
	for _, left := range lives {
		if left > life || left < life-time.Hour {
			t.Errorf("a record lives %s, want %s", left, life)
		}
	}
}

func testNames(t *testing.T, s Subject) {
	for _, name := range []string{"", "a.b", "a b", "*", ">", "x\r\nPUB y 0", "ü", strings.Repeat("a", 300)} {
		if _, found, err := s.Store.Cursor(t.Context(), name); err == nil || found {
			t.Errorf("cursor of %q is not refused", name)
		}
		if err := s.Store.Advance(t.Context(), map[string]events.Cursor{name: CursorAt(0, 1, 0, 1)}); err == nil {
			t.Errorf("advance of %q is not refused", name)
		}
		if err := s.Store.PutWatchSet(t.Context(), name, "me", events.WatchSet{}); err == nil {
			t.Errorf("watch set of %q is not refused", name)
		}
		if _, found, err := s.Store.TakeWatchSet(t.Context(), name, "me"); err == nil || found {
			t.Errorf("taking the watch set of %q is not refused", name)
		}
		if err := s.Store.PutStandings(t.Context(), name, map[string]events.Standing{purchase: {}}); err == nil {
			t.Errorf("standing of sink %q is not refused", name)
		}
		if _, err := s.Store.Standings(t.Context(), "orders", []string{name}); err == nil {
			t.Errorf("standing of purchase %q is not refused", name)
		}
	}
	if lives := s.Lives(); len(lives) != 0 {
		t.Errorf("%d records were stored under refused names", len(lives))
	}
}

func testSpoilt(t *testing.T, s Subject) {
	fill(t, s.Store)
	s.Spoil()
	wantErrors(t, s.Store, "spoilt")
}

func testStopped(t *testing.T, s Subject) {
	fill(t, s.Store)
	s.Stop()
	wantErrors(t, s.Store, "stopped")
	ctx := t.Context()
	if err := s.Store.Advance(ctx, map[string]events.Cursor{purchase: CursorAt(0, 5, 0, 5)}); err == nil {
		t.Error("stopped: advance says that it is done")
	}
	if err := s.Store.PutWatchSet(ctx, "host-a", "me", events.WatchSet{}); err == nil || errors.Is(err, events.ErrTaken) {
		t.Error("stopped: the watch set says that it is stored")
	}
	if err := s.Store.PutStandings(ctx, "orders", map[string]events.Standing{purchase: standingAt(2)}); err == nil {
		t.Error("stopped: the standing says that it is stored")
	}
	if err := s.Store.PutSilence(ctx, events.Silence{ID: "s", Until: time.Now().Add(time.Hour)}); err == nil {
		t.Error("stopped: the silence says that it is stored")
	}
}

func fill(t *testing.T, store Store) {
	t.Helper()
	must(t, store.Advance(t.Context(), map[string]events.Cursor{purchase: CursorAt(0, 1, 0, 1)}))
	must(t, store.PutWatchSet(t.Context(), "host-a", "me", events.WatchSet{Baselined: true}))
	must(t, store.PutStandings(t.Context(), "orders", map[string]events.Standing{purchase: standingAt(1)}))
	must(t, store.PutSilence(t.Context(), events.Silence{ID: "s", Until: time.Now().Add(time.Hour)}))
}

// wantErrors sees that no reading is answered with "not found".
func wantErrors(t *testing.T, store Store, state string) {
	t.Helper()
	ctx := t.Context()
	if _, found, err := store.Cursor(ctx, purchase); err == nil {
		t.Errorf("%s: the cursor is answered (found %v), not refused", state, found)
	}
	if _, found, err := store.TakeWatchSet(ctx, "host-a", "me"); err == nil {
		t.Errorf("%s: the watch set is answered (found %v), not refused", state, found)
	}
	if got, err := store.Standings(ctx, "orders", []string{purchase, other}); err == nil {
		t.Errorf("%s: the standings are answered (%v), not refused", state, got)
	}
	if got, err := store.Silences(ctx); err == nil {
		t.Errorf("%s: the silences are answered (%v), not refused", state, got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

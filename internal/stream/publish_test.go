package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

// Every pair of what is the newest on a subject and what is published after
// what was thought to be.
func TestPublishConflicts(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	cases := []struct {
		name  string
		there []func(purchase int) events.Event // stored in this order
		mine  func(purchase int) events.Event
		after int // how many of the stored ones the publisher knows of
		want  string
		newer bool
	}{
		{"First", nil, at(0, 1, 0), 0, "1.0", false},
		{"Follows", list(at(0, 1, 0)), at(0, 2, 0), 1, "1.0 2.0", false},
		{"AlreadyThere", list(at(0, 1, 0)), at(0, 1, 0), 0, "1.0", false},
		{"AlreadyThereAndKnown", list(at(0, 1, 0)), at(0, 1, 0), 1, "1.0", false},
		{"OlderUnknown", list(at(0, 1, 0)), at(0, 3, 0), 0, "1.0 3.0", false},
		{"SeveralOlderUnknown", list(at(0, 1, 0), at(0, 2, 0), at(0, 2, 1)), at(0, 3, 0), 1, "1.0 2.0 2.1 3.0", false},
		{"NewerUnknown", list(at(0, 5, 0)), at(0, 3, 0), 0, "5.0", true},
		{"NewerReading", list(at(0, 3, 1)), at(0, 3, 0), 0, "3.1", true},
		{"NewerEpoch", list(at(1, 1, 0)), at(0, 9, 0), 0, "1.0", true},
		{"OlderEpoch", list(at(0, 9, 0)), at(1, 1, 0), 0, "9.0 1.0", false},
		{"OverdueFollows", list(at(0, 1, 0)), late(0, 1, 0), 1, "1.0 1.0-overdue", false},
		{"OverdueOfUnknown", list(at(0, 1, 0)), late(0, 1, 0), 0, "1.0 1.0-overdue", false},
		{"OverdueAlreadyThere", list(at(0, 1, 0), late(0, 1, 0)), late(0, 1, 0), 1, "1.0 1.0-overdue", false},
		{"OverdueComesTooLate", list(at(0, 1, 0), at(0, 2, 0)), late(0, 1, 0), 1, "1.0 2.0", true},
		{"AfterAnOverdue", list(at(0, 1, 0), late(0, 1, 0)), at(0, 2, 0), 1, "1.0 1.0-overdue 2.0", false},
		{"AlreadyThereUnderAnOverdue", list(at(0, 1, 0), late(0, 1, 0)), at(0, 1, 0), 0, "1.0 1.0-overdue", false},
	}
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var after, last uint64
			for j, there := range tc.there {
				last = publish(t, b, there(i), last)
				if j+1 == tc.after {
					after = last
				}
			}
			seq, err := b.Publish(t.Context(), tc.mine(i), after)
			if tc.newer != errors.Is(err, events.ErrNewer) || !tc.newer && err != nil {
				t.Fatalf("error %v, want ErrNewer: %v", err, tc.newer)
			}
			var got []string
			var sequence uint64
			for env, err := range b.History(t.Context(), purchaseID(i)) {
				must(t, err)
				parts := strings.SplitN(env.Event.ID, "-", 3) // purchase, epoch, the rest
				got = append(got, strings.Replace(parts[2], "-", ".", 1))
				sequence = env.Sequence
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("the subject holds %q, want %q", text, tc.want)
			}
			if !tc.newer && tc.name != "AlreadyThereUnderAnOverdue" && seq != sequence {
				t.Errorf("sequence %d, want the newest of the subject, %d", seq, sequence)
			}
		})
	}
}

func at(epoch, revision, n int64) func(int) events.Event {
	return func(purchase int) events.Event { return reading(purchase, epoch, revision, n) }
}

func late(epoch, revision, n int64) func(int) events.Event {
	return func(purchase int) events.Event { return overdue(reading(purchase, epoch, revision, n)) }
}

func list(l ...func(int) events.Event) []func(int) events.Event { return l }

// Two connections of one user see the same purchase: the second is told that
// the event is published, and its subject stays empty.
func TestPublishOfTheSamePurchaseByAnotherConnection(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	first := publish(t, b, reading(1, 0, 1, 0), 0)
	other := reading(1, 0, 1, 0)
	other.Source = "/connections/host-b"
	if seq := publish(t, b, other, 0); seq != first {
		t.Errorf("sequence %d, want the one of the first, %d", seq, first)
	}
	next := reading(1, 0, 2, 0)
	next.Source = "/connections/host-b"
	publish(t, b, next, first) // whose subject it is not
	if got := ids(t, b.History(t.Context(), purchaseID(1))); len(got) != 2 {
		t.Errorf("stored are %v", got)
	}
}

// Beyond the time for which message ids are kept, the expected sequence alone
// refuses a second one.
func TestPublishTwiceWithoutMessageIDs(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	first := publish(t, b, reading(1, 0, 1, 0), 0)
	forgetIDs(t, rawJS(t, srv.URL()))
	if seq := publish(t, b, reading(1, 0, 1, 0), 0); seq != first {
		t.Errorf("sequence %d, want %d", seq, first)
	}
}

// forgetIDs shortens the time for message ids and waits until an id that is
// younger than all others is forgotten.
func forgetIDs(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	s, err := js.Stream(t.Context(), events.StreamPurchases)
	must(t, err)
	cfg := s.CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond
	_, err = js.UpdateStream(t.Context(), cfg)
	must(t, err)
	probe := func() bool {
		ack, err := js.Publish(t.Context(), "envoy.notice.probe", nil, jetstream.WithMsgID("probe"))
		must(t, err)
		return !ack.Duplicate
	}
	if !probe() {
		t.Fatal("the probe is there already")
	}
	eventually(t, "ids are forgotten", probe)
}

func TestPublishRacesOfOwners(t *testing.T) {
	srv := natstest.Start(t)
	const owners, revisions = 3, 15
	var group sync.WaitGroup
	for range owners {
		b := openURL(t, srv.URL())
		group.Go(func() {
			var after uint64
			for r := range int64(revisions) {
				seq, err := b.Publish(t.Context(), reading(1, 0, r+1, 0), after)
				switch {
				case errors.Is(err, events.ErrNewer): // this one is behind
				case err != nil:
					t.Errorf("revision %d: %v", r+1, err)
				default:
					after = seq
				}
			}
		})
	}
	group.Wait()
	var last int64
	for env, err := range openURL(t, srv.URL()).History(t.Context(), purchaseID(1)) {
		must(t, err)
		if r := env.Event.Purchase.Reading.Revision; r != last+1 {
			t.Errorf("revision %d comes after %d", r, last)
		}
		last = env.Event.Purchase.Reading.Revision
	}
	if last != revisions {
		t.Errorf("the last revision is %d, want %d", last, revisions)
	}
}

func TestPublishNotices(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	n := notice("nothing was seen for 5 minutes")
	first := publish(t, b, n, 0)
	if again := publish(t, b, n, 99); again != first {
		t.Errorf("the same notice is stored at %d and %d", first, again)
	}
}

func TestPublishPassesOverWhatIsNoEvent(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	js := rawJS(t, srv.URL())
	subject, err := events.Subject(connection, purchaseID(1))
	must(t, err)
	ack, err := js.Publish(t.Context(), subject, []byte("put here by hand"))
	must(t, err)
	e, seq, err := b.Last(t.Context(), connection, purchaseID(1))
	if e != nil || seq != ack.Sequence || err != nil {
		t.Errorf("last: %v, %d, %v", e, seq, err)
	}
	publish(t, b, reading(1, 0, 1, 0), 0)
	if e, _, err = b.Last(t.Context(), connection, purchaseID(1)); err != nil || e == nil || e.ID != reading(1, 0, 1, 0).ID {
		t.Errorf("last: %v, %v", e, err)
	}
}

func TestPublishAfterTheStreamWasWiped(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	var after uint64
	for r := range int64(5) {
		after = publish(t, b, reading(1, 0, r+1, 0), after)
	}
	srv.Stop()
	srv.Wipe()
	srv.Restart()
	eventually(t, "an event is stored again", func() bool {
		_, err := b.Publish(t.Context(), reading(1, 0, 6, 0), after)
		return err == nil
	})
	if got := ids(t, b.History(t.Context(), purchaseID(1))); len(got) != 1 {
		t.Errorf("stored are %v", got)
	}
}

// A full stream refuses; the event is not done and is stored once when there is
// room again.
func TestB26_StreamFull(t *testing.T) {
	srv := natstest.Start(t)
	b := open(t, stream.Options{URL: srv.URL(), MaxBytes: 16 << 10})
	var last int
	var full error
	for last = 1; full == nil; last++ {
		_, full = b.Publish(t.Context(), reading(last, 0, 1, 0), 0)
	}
	last--
	if errors.Is(full, events.ErrNewer) {
		t.Fatalf("a full stream is taken for a newer event: %v", full)
	}
	if _, err := b.Publish(t.Context(), reading(last, 0, 1, 0), 0); err == nil {
		t.Fatal("a full stream takes another event")
	}
	js := rawJS(t, srv.URL())
	s, err := js.Stream(t.Context(), events.StreamPurchases)
	must(t, err)
	must(t, s.Purge(t.Context(), jetstream.WithPurgeKeep(1)))
	publish(t, b, reading(last, 0, 1, 0), 0)
	publish(t, b, reading(last, 0, 1, 0), 0)
	if got := ids(t, b.History(t.Context(), purchaseID(last))); len(got) != 1 {
		t.Errorf("stored are %v", got)
	}
}

// Ids that must not become a subject are refused; a raw subscriber sees nothing
// of them.
func TestB29_IDsInSubjectTokens(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	nc, err := nats.Connect(srv.URL())
	must(t, err)
	defer nc.Close()
	var mu sync.Mutex
	var seen []string
	sub, err := nc.Subscribe("envoy.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, m.Subject)
	})
	must(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	must(t, nc.Flush())

	bad := []string{"a.b", "a b", "*", ">", "x\r\nPUB y 0", "ü", strings.Repeat("a", 300), "", "pur_" + strings.Repeat("A", 32)}
	for _, id := range bad {
		e := reading(1, 0, 1, 0)
		e.Subject = id
		if _, err := b.Publish(t.Context(), e, 0); err == nil {
			t.Errorf("purchase %q is not refused", id)
		}
		e = reading(1, 0, 1, 0)
		e.Source = "/connections/" + id
		if _, err := b.Publish(t.Context(), e, 0); err == nil && id != bad[len(bad)-1] {
			t.Errorf("connection %q is not refused", id)
		}
		if _, _, err := b.Last(t.Context(), connection, id); err == nil {
			t.Errorf("the last event of %q is not refused", id)
		}
		if err := b.Bury(t.Context(), events.DeadLetter{Sink: "orders", EventID: id}); err == nil && id != bad[len(bad)-1] {
			t.Errorf("dead letter %q is not refused", id)
		}
		for _, err := range b.History(t.Context(), id) {
			if err == nil {
				t.Errorf("history of %q is not refused", id)
			}
		}
	}
	publish(t, b, reading(2, 0, 1, 0), 0)
	want := fmt.Sprintf("envoy.purchase.%s.%s", connection, purchaseID(2))
	eventually(t, "the good one is seen", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(seen, want)
	})
	mu.Lock()
	defer mu.Unlock()
	for _, subject := range seen {
		if n := strings.Count(subject, "."); n != 3 || strings.ContainsAny(subject, " *>\r\n") {
			t.Errorf("a stray subject: %q", subject)
		}
	}
}

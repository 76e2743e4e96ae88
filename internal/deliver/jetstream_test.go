package deliver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

func TestJetStream_EverythingInOrder(t *testing.T) {
	r := newRig(t)
	sink := &receiver{}
	r.run(r.options("orders", sink))
	for revision := range int64(20) {
		for p := range 10 {
			r.publish(p, revision)
		}
	}
	r.settled("orders")
	if got := sink.accepted(); len(got) != 200 || inOrder(t, got) != 0 {
		t.Errorf("%d accepted", len(got))
	}
}

func TestJetStream_KilledBetweenSendAndStanding(t *testing.T) {
	r := newRig(t)
	victim := events.EventID(purchaseID(3), events.Position{Revision: 2})
	kill := sync.OnceFunc(r.leases.lose)
	sink := &receiver{after: func(n sinks.Notification) {
		if n.Event.ID == victim {
			kill()
		}
	}}
	for revision := range int64(5) {
		for p := range 8 {
			r.publish(p, revision)
		}
	}
	r.run(r.options("orders", sink))
	r.settled("orders")
	counts := sink.counts()
	if len(counts) != 40 || counts[victim] != 2 {
		t.Errorf("%d accepted, the one under way %d times", len(counts), counts[victim])
	}
	if repeats := inOrder(t, sink.accepted()); repeats > 8 { // as many as can be under way
		t.Errorf("%d repeats", repeats)
	}
}

// killingStore dies right after a write.
type killingStore struct {
	*dedupe.KV
	kill func()
}

func (k *killingStore) PutStandings(ctx context.Context, sink string, m map[string]events.Standing) error {
	err := k.KV.PutStandings(ctx, sink, m)
	if s, ok := m[purchaseID(0)]; ok && s.Settled > 0 {
		k.kill()
	}
	return err
}

func TestJetStream_KilledBetweenStandingAndAck(t *testing.T) {
	r := newRig(t)
	sink := &receiver{}
	for revision := range int64(5) {
		r.publish(0, revision)
	}
	o := r.options("orders", sink)
	o.Standings = &killingStore{r.state, sync.OnceFunc(r.leases.lose)}
	r.run(o)
	r.settled("orders")
	if counts := sink.counts(); len(counts) != 5 || len(sink.accepted()) != 5 {
		t.Errorf("accepted %v", counts)
	}
}

func TestB28_JetStreamTwoReplicas(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	fails := 2
	second := events.EventID(purchaseID(1), events.Position{Revision: 2})
	sink := &receiver{answer: func(n sinks.Notification) error {
		mu.Lock()
		defer mu.Unlock()
		if n.Event.ID == second && fails > 0 {
			fails--
			return errServer
		}
		return nil
	}}
	stop := r.run(r.options("orders", sink))
	r.run(r.options("orders", sink))
	r.publish(1, 2)
	eventually(t, "the first try", func() bool { return sink.tried() > 0 })
	r.publish(1, 3)
	r.publish(1, 4)
	other := r.publish(2, 1)
	eventually(t, "the other purchase", func() bool { return slices.Contains(sink.accepted(), other) })
	if got := sink.accepted(); len(got) != 1 {
		t.Errorf("accepted %v before the older one", got)
	}
	stop() // the second replica takes over
	r.settled("orders")
	inOrder(t, sink.accepted())
	if got := sink.accepted(); !strings.HasSuffix(got[len(got)-1], "-4-0") || len(got) != 4 {
		t.Errorf("accepted %v", got)
	}
}

func TestB20_JetStreamTriesAcrossRestarts(t *testing.T) {
	r := newRig(t)
	sink := &receiver{answer: func(sinks.Notification) error { return errServer }}
	id := r.publish(1, 1)
	stop := r.run(r.options("orders", sink))
	eventually(t, "two tries", func() bool { return sink.tried() >= 2 })
	stop()
	r.run(r.options("orders", sink))
	r.settled("orders")
	dead, err := r.bus.DeadOne(t.Context(), id)
	if err != nil || len(dead) != 1 {
		t.Fatalf("dead %+v, %v", dead, err)
	}
	if n := sink.tried(); n < 5 || n > 6 || dead[0].Attempts != n && dead[0].Attempts != n-1 {
		t.Errorf("%d tries, letter says %d", n, dead[0].Attempts)
	}
}

func TestB21_OnlyTheFailingSinkIsRetried(t *testing.T) {
	for name, kill := range map[string]bool{"running": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var mu sync.Mutex
			failing := true
			hook := &receiver{answer: func(sinks.Notification) error {
				mu.Lock()
				defer mu.Unlock()
				if failing {
					return errServer
				}
				return nil
			}}
			slack, email := &receiver{}, &receiver{}
			start := func() []func() {
				return []func(){r.run(r.options("slack", slack)), r.run(r.options("email", email)), r.run(r.options("hook", hook))}
			}
			stops := start()
			r.publish(1, 1)
			eventually(t, "some failures", func() bool { return hook.tried() >= 2 })
			r.settled("slack")
			r.settled("email")
			if kill {
				r.leases.lose() // nothing is recorded or handed back any more
				for _, stop := range stops {
					stop()
				}
				start()
				eventually(t, "another failure", func() bool { return hook.tried() >= 3 })
			}
			mu.Lock()
			failing = false
			mu.Unlock()
			r.settled("hook")
			if len(slack.accepted()) != 1 || len(email.accepted()) != 1 || len(hook.accepted()) != 1 || slack.tried() != 1 {
				t.Errorf("accepted %v %v %v", slack.accepted(), email.accepted(), hook.accepted())
			}
		})
	}
}

func TestB42_JetStreamShutdown(t *testing.T) {
	r := newRig(t)
	sink := &receiver{takes: 500 * time.Millisecond}
	var first string
	for p := range 50 {
		if id := r.publish(p, 1); p == 0 {
			first = id
		}
	}
	o := r.options("orders", sink)
	o.Concurrency = 1
	stop := r.run(o)
	eventually(t, "a send under way", func() bool { return sink.tried() == 1 })
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("stopped after %s", took)
	}
	if got := sink.accepted(); !slices.Equal(got, []string{first}) {
		t.Errorf("accepted %v", got)
	}
	sink.mu.Lock()
	sink.takes = 0
	sink.mu.Unlock()
	r.run(r.options("orders", sink))
	r.settled("orders")
	for id, n := range sink.counts() {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
	if len(sink.counts()) != 50 {
		t.Errorf("%d accepted", len(sink.counts()))
	}
}

func TestB25_JetStreamConsumerDeleted(t *testing.T) {
	r := newRig(t)
	sink := &receiver{}
	r.run(r.options("orders", sink))
	r.publish(0, 1)
	r.settled("orders")
	drop := func() {
		t.Helper()
		if err := r.bus.JetStream().DeleteConsumer(t.Context(), events.StreamPurchases, "sink_orders"); err != nil &&
			!errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatal(err)
		}
	}
	t.Run("while idle", func(t *testing.T) {
		drop()
		id := r.publish(0, 2)
		eventually(t, "the next event", func() bool { return slices.Contains(sink.accepted(), id) })
	})
	t.Run("with messages in hand", func(t *testing.T) {
		sink.mu.Lock()
		sink.takes = 300 * time.Millisecond
		sink.mu.Unlock()
		for p := range 10 {
			r.publish(p+10, 1)
		}
		before := sink.tried()
		eventually(t, "a send under way", func() bool { return sink.tried() > before })
		drop()
		eventually(t, "all of them", func() bool { return len(sink.counts()) == 12 })
		r.settled("orders")
	})
	for id, n := range sink.counts() {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
}

func TestB25_JetStreamStoreWiped(t *testing.T) {
	r := newRig(t)
	sink := &receiver{}
	r.run(r.options("orders", sink))
	r.publish(0, 1)
	r.settled("orders")
	r.server.Stop()
	r.server.Wipe()
	r.server.Restart()
	clear(r.last)
	eventually(t, "the streams again", func() bool { return r.bus.Healthy() == nil })
	id := r.publish(0, 2)
	eventually(t, "the new event", func() bool { return slices.Contains(sink.accepted(), id) })
	for id, n := range sink.counts() {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
}

func TestB24_JetStreamServerRestarts(t *testing.T) {
	r := newRig(t)
	sink := &receiver{takes: 20 * time.Millisecond}
	r.run(r.options("orders", sink))
	for p := range 20 {
		r.publish(p, 1)
	}
	eventually(t, "the first", func() bool { return sink.tried() > 0 })
	r.server.Restart()
	eventually(t, "all of them", func() bool { return len(sink.counts()) == 20 })
	eventually(t, "the streams again", func() bool { return r.bus.Healthy() == nil })
	r.settled("orders")
	for id, n := range sink.counts() {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
}

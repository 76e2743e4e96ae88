package stream_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

// feed publishes revision 1 of purchases from (inclusive) to to (exclusive) and
// gives their ids.
func feed(t *testing.T, b *stream.Bus, from, to int) []string {
	t.Helper()
	var published []string
	for i := from; i < to; i++ {
		e := reading(i, 0, 1, 0)
		publish(t, b, e, 0)
		published = append(published, e.ID)
	}
	return published
}

func wantIDs(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestConsumerResumesAfterTheFloor(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	all := feed(t, b, 0, 6)
	c := b.Consumer("orders")
	if exists, err := c.Exists(t.Context()); exists || err != nil {
		t.Fatalf("before the first beginning: exists %v, %v", exists, err)
	}
	o := own(t, c, stream.StartResume)
	wantIDs(t, "from the start", o.take(2), all[:2])
	if pending, err := c.Pending(t.Context()); err != nil || pending != 4 {
		t.Errorf("pending %d, %v, want 4", pending, err)
	}
	o.next() // in hand, never acknowledged
	_, delayed := o.next()
	must(t, delayed.NakWithDelay(time.Hour))
	fifth, msg := o.next()
	must(t, msg.DoubleAck(t.Context())) // beyond a gap
	if fifth.Event.ID != all[4] {
		t.Fatalf("the fifth is %s", fifth.Event.ID)
	}
	c.Stop()
	if _, _, err := c.Next(t.Context()); !errors.Is(err, stream.ErrStopped) {
		t.Errorf("after a stop: %v", err)
	}

	again := own(t, b.Consumer("orders"), stream.StartResume)
	wantIDs(t, "another owner", again.take(4), all[2:])
	again.none()
	if sinks, err := b.Sinks(t.Context()); err != nil || !slices.Equal(sinks, []string{"orders"}) {
		t.Errorf("sinks %v, %v", sinks, err)
	}
}

func TestConsumersOfSinksAreApart(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	all := feed(t, b, 0, 3)
	first, second := own(t, b.Consumer("orders"), stream.StartResume), own(t, b.Consumer("ops"), stream.StartResume)
	wantIDs(t, "orders", first.take(3), all)
	wantIDs(t, "ops", second.take(3), all)
}

func TestConsumerCarriesNoticesAndWhatIsNoEvent(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	n := notice("blind")
	publish(t, b, n, 0)
	_, err := rawJS(t, srv.URL()).Publish(t.Context(), "envoy.purchase.host-a.by-hand", []byte("no event"))
	must(t, err)
	o := own(t, b.Consumer("orders"), stream.StartResume)
	env, _ := o.next()
	if env.Event.ID != n.ID || env.Bad != nil || env.Sequence != 1 || env.ConsumerSequence != 1 || env.Delivered != 1 || env.Stored.IsZero() {
		t.Errorf("the notice comes as %+v", env)
	}
	env, _ = o.next()
	if env.Bad == nil || string(env.Raw) != "no event" || env.Event.ID != "" {
		t.Errorf("what is no event comes as %+v", env)
	}
}

// A new sink is told what is, not what was.
func TestConsumerOfANewSink(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	var after uint64
	for r := range int64(3) {
		after = publish(t, b, reading(1, 0, r+1, 0), after)
	}
	publish(t, b, notice("old news"), 0)
	publish(t, b, settled(reading(2, 0, 1, 0)), 0)
	publish(t, b, reading(3, 0, 1, 0), 0)
	publish(t, b, reading(4, 0, 1, 0), 0)
	c := b.Consumer("orders")
	o := own(t, c, stream.StartNewest)
	wantIDs(t, "the first", o.take(1), []string{reading(1, 0, 3, 0).ID})

	// Begun again before it is through: still only the newest, then all that is new.
	after = publish(t, b, reading(4, 0, 2, 0), 7)
	publish(t, b, reading(4, 0, 3, 0), after)
	fresh := notice("new news")
	publish(t, b, fresh, 0)
	publish(t, b, settled(reading(5, 0, 1, 0)), 0)
	o = own(t, b.Consumer("orders"), stream.StartResume)
	wantIDs(t, "the rest", o.take(5), []string{
		reading(3, 0, 1, 0).ID, reading(4, 0, 2, 0).ID, reading(4, 0, 3, 0).ID, fresh.ID, reading(5, 0, 1, 0).ID,
	})
	o.none()
}

func TestConsumerOfANewSinkOnAnEmptyStream(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	o := own(t, b.Consumer("orders"), stream.StartNewest)
	all := feed(t, b, 0, 2)
	wantIDs(t, "what comes", o.take(2), all)
}

func TestConsumerBeginsAgainAfterAReconnect(t *testing.T) {
	srv := natstest.Start(t)
	var said journal
	b := open(t, stream.Options{URL: srv.URL(), MaxBytes: 64 << 20, Log: said.logger()})
	all := feed(t, b, 0, 4)
	c := b.Consumer("orders")
	o := own(t, c, stream.StartResume)
	wantIDs(t, "before", o.take(1), all[:1])
	o.next() // in hand
	srv.DropClients()
	for {
		_, _, err := c.Next(t.Context())
		if err == nil {
			continue // came in before the loss was seen
		}
		if !errors.Is(err, stream.ErrBeginAgain) {
			t.Fatalf("after a reconnect: %v", err)
		}
		break
	}
	must(t, c.Begin(t.Context(), stream.StartResume))
	wantIDs(t, "after", o.take(3), all[1:])
	if said.count("connection to nats is back") != 1 {
		t.Errorf("the reconnect is not said once:\n%s", said.String())
	}
}

// Another puller takes messages out of the row: the consumer's sequence has a
// gap.
func TestConsumerSeesAGap(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	c := b.Consumer("orders")
	must(t, c.Begin(t.Context(), stream.StartResume))
	defer c.Stop()
	feed(t, b, 0, 1)
	_, msg, err := c.Next(t.Context())
	must(t, err)
	must(t, msg.Ack())
	other, err := rawJS(t, srv.URL()).Consumer(t.Context(), events.StreamPurchases, "sink_orders")
	must(t, err)
	batch, err := other.Fetch(1, jetstream.FetchMaxWait(patience))
	must(t, err)
	for i := 1; i < 40; i++ { // until the stranger has had one, and then some
		feed(t, b, i, i+1)
	}
	var gap error
	for gap == nil {
		_, _, gap = c.Next(t.Context())
	}
	if !errors.Is(gap, stream.ErrBeginAgain) {
		t.Errorf("a gap gives %v", gap)
	}
	for m := range batch.Messages() {
		_ = m.Ack()
	}
}

func TestB25_ConsumerDeleted(t *testing.T) {
	t.Run("Idle", func(t *testing.T) {
		srv := natstest.Start(t)
		b := openURL(t, srv.URL())
		all := feed(t, b, 0, 3)
		c := b.Consumer("orders")
		o := own(t, c, stream.StartResume)
		wantIDs(t, "before", o.take(3), all)
		must(t, rawJS(t, srv.URL()).DeleteConsumer(t.Context(), events.StreamPurchases, "sink_orders"))
		if _, _, err := c.Next(t.Context()); !errors.Is(err, stream.ErrBeginAgain) {
			t.Fatalf("after the deletion: %v", err)
		}
		must(t, c.Begin(t.Context(), stream.StartResume))
		fresh := feed(t, b, 3, 4)
		// From the start of the stream: the receiver knows what it has had.
		wantIDs(t, "after", o.take(4), append(all, fresh...))
	})
	t.Run("InHand", func(t *testing.T) {
		srv := natstest.Start(t)
		var said journal
		b := open(t, stream.Options{URL: srv.URL(), MaxBytes: 64 << 20, Log: said.logger()})
		all := feed(t, b, 0, 10)
		o := own(t, b.Consumer("orders"), stream.StartResume)
		for range 5 {
			o.next()
		}
		must(t, rawJS(t, srv.URL()).DeleteConsumer(t.Context(), events.StreamPurchases, "sink_orders"))
		settledIDs := make(map[string]bool)
		for len(settledIDs) < len(all) {
			env, msg := o.next()
			// What was fetched from the deleted one cannot be acknowledged any more.
			if err := msg.DoubleAck(t.Context()); err == nil {
				settledIDs[env.Event.ID] = true
			}
		}
		o.none()
		if said.count("consumer is missing") == 0 {
			t.Errorf("the deletion is not said:\n%s", said.String())
		}
	})
	t.Run("WipedServer", func(t *testing.T) {
		srv := natstest.Start(t)
		var said journal
		b := open(t, stream.Options{URL: srv.URL(), MaxBytes: 64 << 20, Log: said.logger()})
		o := own(t, b.Consumer("orders"), stream.StartResume)
		feed(t, b, 0, 3)
		o.take(3)
		srv.Stop()
		eventually(t, "the loss is seen", func() bool { return b.Healthy() != nil })
		srv.Wipe()
		srv.Restart()
		eventually(t, "the streams are back", func() bool {
			_, err := b.Publish(t.Context(), reading(7, 0, 1, 0), 0)
			return err == nil && b.Healthy() == nil
		})
		wantIDs(t, "new events flow", o.take(1), []string{reading(7, 0, 1, 0).ID})
		eventually(t, "three streams are said to be made again", func() bool {
			return said.count("stream was missing and was made again") == 3
		})
	})
}

func TestConsumerWaitsForTheServerToBegin(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	all := feed(t, b, 0, 1)
	srv.Stop()
	c := b.Consumer("orders")
	eventually(t, "a beginning waits for the server", func() bool { // one in the moment of the loss fails
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return errors.Is(c.Begin(ctx, stream.StartResume), context.DeadlineExceeded)
	})
	begun := make(chan error, 1)
	go func() { begun <- c.Begin(t.Context(), stream.StartResume) }()
	srv.Restart()
	must(t, <-begun)
	defer c.Stop()
	wantIDs(t, "after the return", (&owner{t: t, c: c}).take(1), all)
}

func TestConsumerDrainHandsBackInOrder(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	all := feed(t, b, 0, 8)
	c := b.Consumer("orders")
	c.InHand = 8
	o := own(t, c, stream.StartResume)
	wantIDs(t, "the first", o.take(1), all[:1])
	must(t, c.Drain(t.Context()))
	must(t, c.Drain(t.Context())) // nothing is left to drain
	if _, _, err := c.Next(t.Context()); !errors.Is(err, stream.ErrStopped) {
		t.Errorf("after a drain: %v", err)
	}
	raw, err := b.JetStream().Consumer(t.Context(), events.StreamPurchases, "sink_orders")
	must(t, err)
	batch, err := raw.Fetch(7, jetstream.FetchMaxWait(10*time.Second)) // sooner than the ack wait
	must(t, err)
	var again []string
	for msg := range batch.Messages() {
		e, err := events.Decode(msg.Data())
		must(t, err)
		again = append(again, e.ID)
	}
	wantIDs(t, "at the server", again, all[1:])
	start := time.Now()
	wantIDs(t, "another owner", own(t, b.Consumer("orders"), stream.StartResume).take(7), all[1:])
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("what was handed back came after %s", took)
	}
}

func TestConsumerNextEndsWithItsContext(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	c := b.Consumer("orders")
	if _, _, err := c.Next(t.Context()); !errors.Is(err, stream.ErrStopped) {
		t.Errorf("before the beginning: %v", err)
	}
	must(t, c.Begin(t.Context(), stream.StartResume))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.Next(ctx)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	go func() {
		_, _, err := c.Next(t.Context())
		ended <- err
	}()
	c.Stop()
	if err := <-ended; !errors.Is(err, stream.ErrStopped) {
		t.Errorf("stopped from outside: %v", err)
	}
}

func TestConsumerRetires(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	feed(t, b, 0, 2)
	c := b.Consumer("orders")
	must(t, c.Retire(t.Context(), time.Hour)) // nothing to retire
	must(t, c.Begin(t.Context(), stream.StartResume))
	c.Stop()
	must(t, c.Retire(t.Context(), 50*time.Millisecond))
	eventually(t, "the consumer goes", func() bool {
		exists, err := c.Exists(t.Context())
		return err == nil && !exists
	})
	if pending, err := c.Pending(t.Context()); pending != 0 || err != nil {
		t.Errorf("pending without a consumer: %d, %v", pending, err)
	}

	c = b.Consumer("ops")
	must(t, c.Begin(t.Context(), stream.StartResume))
	must(t, c.Retire(t.Context(), stream.RetireAfter))
	o := own(t, c, stream.StartResume) // the sink is back
	o.take(1)
	raw, err := b.JetStream().Consumer(t.Context(), events.StreamPurchases, "sink_ops")
	must(t, err)
	cfg := raw.CachedInfo().Config
	if cfg.InactiveThreshold != 0 || cfg.AckWait != 30*time.Second || cfg.MaxDeliver != -1 || len(cfg.BackOff) != 0 || cfg.MaxAckPending != 65536 {
		t.Errorf("the consumer is %+v", cfg)
	}
}

// A consumer that has messages and gives none is begun again, once that is sure.
func TestConsumerNoticesAStall(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	c := b.Consumer("orders")
	c.SetStallCheck(200 * time.Millisecond)
	o := own(t, c, stream.StartResume)
	o.none() // silent, and nothing is pending: no stall
	_, err := rawJS(t, srv.URL()).PauseConsumer(t.Context(), events.StreamPurchases, "sink_orders", time.Now().Add(time.Hour))
	must(t, err)
	all := feed(t, b, 0, 3)
	_, _, err = c.Next(t.Context())
	if !errors.Is(err, stream.ErrBeginAgain) || !strings.Contains(err.Error(), "pending") {
		t.Fatalf("a stalled consumer gives %v", err)
	}
	must(t, c.Begin(t.Context(), stream.StartResume))
	wantIDs(t, "begun again", o.take(3), all)
}

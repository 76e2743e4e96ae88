package stream_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

// A beginning deletes the consumer before it makes the next one. Where the server
// refuses that one, the place of the sink is known to its owner alone.
func TestConsumerKeepsItsPlaceUntilItIsMadeAgain(t *testing.T) {
	begin := func(t *testing.T) (*stream.Bus, jetstream.JetStream, *stream.Consumer) {
		srv := natstest.Start(t)
		b := openURL(t, srv.URL())
		return b, rawJS(t, srv.URL()), b.Consumer("orders")
	}
	t.Run("Resumed", func(t *testing.T) {
		b, js, c := begin(t)
		all := feed(t, b, 0, 4)
		o := own(t, c, stream.StartResume)
		wantIDs(t, "before", o.take(2), all[:2])
		unmade(t, js, c)
		must(t, c.Begin(t.Context(), stream.StartResume))
		wantIDs(t, "made again", o.take(2), all[2:])
		// From now on the server knows it, and what the owner remembers is old.
		must(t, js.DeleteConsumer(t.Context(), events.StreamPurchases, "sink_orders"))
		must(t, c.Begin(t.Context(), stream.StartResume))
		wantIDs(t, "deleted by hand", o.take(4), all)
	})
	t.Run("NewSink", func(t *testing.T) {
		b, js, c := begin(t)
		publish(t, b, reading(0, 0, 1, 0), 0) // so that the floor lies before what is left out
		after := publish(t, b, reading(1, 0, 1, 0), 0)
		publish(t, b, reading(1, 0, 2, 0), after)
		must(t, c.Begin(t.Context(), stream.StartNewest))
		unmade(t, js, c)
		o := own(t, c, stream.StartResume)
		wantIDs(t, "the newest only", o.take(2), []string{reading(0, 0, 1, 0).ID, reading(1, 0, 2, 0).ID})
		o.none()
	})
	t.Run("AnotherStream", func(t *testing.T) {
		b, js, c := begin(t)
		feed(t, b, 0, 2)
		own(t, c, stream.StartResume).take(2)
		unmade(t, js, c)
		must(t, js.DeleteStream(t.Context(), events.StreamPurchases))
		eventually(t, "the stream is there again", func() bool {
			_, err := b.Publish(t.Context(), reading(7, 0, 1, 0), 0)
			return err == nil
		})
		all := append([]string{reading(7, 0, 1, 0).ID}, feed(t, b, 8, 10)...)
		wantIDs(t, "from its start", own(t, c, stream.StartResume).take(3), all)
	})
}

func TestNewSinkIsToldNoOldNotice(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	publish(t, b, notice("old news"), 0)
	all := feed(t, b, 0, 1)
	o := own(t, b.Consumer("orders"), stream.StartNewest)
	wantIDs(t, "what is", o.take(1), all)
	fresh := notice("news")
	publish(t, b, fresh, 0)
	wantIDs(t, "what comes", o.take(1), []string{fresh.ID})
}

// unmade has the consumer deleted by beginnings that cannot make it again.
func unmade(t *testing.T, js jetstream.JetStream, c *stream.Consumer) {
	t.Helper()
	const few = 10
	raw, err := js.Consumer(t.Context(), events.StreamPurchases, "sink_orders")
	must(t, err)
	cfg := raw.CachedInfo().Config
	cfg.MaxAckPending = few // or the stream would not take the limit
	_, err = js.UpdateConsumer(t.Context(), events.StreamPurchases, cfg)
	must(t, err)
	limitPending(t, js, few)
	for range 2 { // the second finds none
		if err := c.Begin(t.Context(), stream.StartResume); err == nil || !strings.Contains(err.Error(), "create") {
			t.Fatalf("a consumer that the stream does not allow: %v", err)
		}
	}
	if there, err := c.Exists(t.Context()); there || err != nil {
		t.Fatalf("the consumer exists: %v, %v", there, err)
	}
	limitPending(t, js, 0)
}

// limitPending bounds what a consumer of the purchases may have unacknowledged; 0: it does not.
func limitPending(t *testing.T, js jetstream.JetStream, most int) {
	t.Helper()
	s, err := js.Stream(t.Context(), events.StreamPurchases)
	must(t, err)
	cfg := s.CachedInfo().Config
	cfg.ConsumerLimits.MaxAckPending = most
	_, err = js.UpdateStream(t.Context(), cfg)
	must(t, err)
}

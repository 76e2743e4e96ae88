package stream_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

// A server that is asked for a stream while it still removes the one before makes
// the new one in the folder that it removes, which then stores nothing.
func TestStreamDeletedByHandIsMadeOnceItIsGone(t *testing.T) {
	srv := natstest.Start(t)
	b, js := openURL(t, srv.URL()), rawJS(t, srv.URL())
	for i := range 100 { // so that the removal takes its time
		_, err := js.CreateConsumer(t.Context(), events.StreamPurchases, jetstream.ConsumerConfig{Durable: fmt.Sprintf("other-%d", i)})
		must(t, err)
	}
	feed(t, b, 2, 4)
	deleted := make(chan error, 1)
	go func() { deleted <- js.DeleteStream(t.Context(), events.StreamPurchases) }()
	c := b.Consumer("orders")
	for c.Begin(t.Context(), stream.StartResume) == nil { // its failure has the streams looked at
	}
	c.Stop()
	must(t, <-deleted)
	eventually(t, "events are stored again", func() bool {
		_, err := b.Publish(t.Context(), reading(1, 0, 1, 0), 0)
		return err == nil
	})
}

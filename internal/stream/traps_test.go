package stream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

// Messages that were handed back count as pending. With the server's own limit of
// 1,000 the next event would not come before one of them is settled.
func TestHandedBackMessagesDoNotStopNewOnes(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	c := b.Consumer("orders")
	c.InHand = 64
	o := own(t, c, stream.StartResume)
	feed(t, b, 0, 1100)
	for range 1100 {
		_, msg := o.next()
		must(t, msg.NakWithDelay(time.Hour))
	}
	fresh := feed(t, b, 1100, 1101)
	wantIDs(t, "a new one", o.take(1), fresh)
}

// What is fetched ahead of its reader is bounded, by little where nothing is asked
// for: a client's own measure is 500, which a stop would leave to the ack wait.
func TestNoMoreIsFetchedThanIsAskedFor(t *testing.T) {
	for inHand, most := range map[int]int{0: 2, 16: 16} {
		b := openURL(t, natstest.Start(t).URL())
		feed(t, b, 0, 100)
		c := b.Consumer("orders")
		c.InHand = inHand
		own(t, c, stream.StartResume).next()
		raw, err := b.JetStream().Consumer(t.Context(), events.StreamPurchases, "sink_orders")
		must(t, err)
		// One is with the reader; another may be asked for in its place.
		if n := raw.CachedInfo().NumAckPending; n < 1 || n > most+1 {
			t.Errorf("%d are out where %d may be in hand", n, most)
		}
	}
}

// What leaves the stream takes its delay with it: it does not come again, and
// others do not wait for it.
func TestRemovedMessageTakesItsDelayWithIt(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	o := own(t, b.Consumer("orders"), stream.StartResume)
	feed(t, b, 0, 2)
	gone, msg := o.next()
	must(t, msg.NakWithDelay(100*time.Millisecond))
	second, msg := o.next()
	must(t, msg.NakWithDelay(200*time.Millisecond))
	s, err := rawJS(t, srv.URL()).Stream(t.Context(), events.StreamPurchases)
	must(t, err)
	must(t, s.DeleteMsg(t.Context(), gone.Sequence))
	wantIDs(t, "after the delays", o.take(1), []string{second.Event.ID})
	o.none()
}

// A consumer that somebody changed is made again from its definition, and nothing
// is lost or repeated by that.
func TestConsumerChangedByHand(t *testing.T) {
	for field, change := range map[string]func(*jetstream.ConsumerConfig){
		"max_ack_pending": func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 },
		"max_deliver":     func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 2 },
		"ack_wait":        func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second },
		"filter_subjects": func(c *jetstream.ConsumerConfig) { c.FilterSubject = events.SubjectNotices },
		"headers_only":    func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
	} {
		t.Run(field, func(t *testing.T) {
			srv := natstest.Start(t)
			reg := prometheus.NewRegistry()
			var said journal
			b := open(t, stream.Options{URL: srv.URL(), MaxBytes: 64 << 20, Log: said.logger(), Metrics: reg})
			c := b.Consumer("orders")
			c.SetStallCheck(100 * time.Millisecond)
			o := own(t, c, stream.StartResume)
			feed(t, b, 0, 3)
			o.take(3)
			js := rawJS(t, srv.URL())
			raw, err := js.Consumer(t.Context(), events.StreamPurchases, "sink_orders")
			must(t, err)
			cfg := raw.CachedInfo().Config
			change(&cfg)
			_, err = js.UpdateConsumer(t.Context(), events.StreamPurchases, cfg)
			must(t, err)
			_, _, err = c.Next(t.Context())
			if !errors.Is(err, stream.ErrBeginAgain) || !strings.Contains(err.Error(), field) {
				t.Fatalf("a changed consumer gives %v", err)
			}
			must(t, c.Begin(t.Context(), stream.StartResume))
			fresh := feed(t, b, 3, 4)
			wantIDs(t, "after", o.take(1), fresh)
			o.none()
			if said.count("consumer differs from its definition") != 1 || counter(t, reg, "herald_stream_recreated_total") != 1 {
				t.Errorf("the change is not said once:\n%s", said.String())
			}
		})
	}
}

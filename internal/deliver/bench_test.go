package deliver_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/stream"
)

// A day's backlog through one sink that accepts at once.
func BenchmarkLoop(b *testing.B) {
	s := natstest.Start(b)
	bus, err := stream.Open(b.Context(), stream.Options{URL: s.URL(), MaxBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = bus.Close(context.Background()) }()
	state, err := dedupe.OpenKV(b.Context(), bus.JetStream(), dedupe.KVOptions{})
	if err != nil {
		b.Fatal(err)
	}
	sample := events.Samples()[0]
	for i := range b.N {
		e, p := sample, *sample.Purchase
		e.Subject = purchaseID(i)
		e.ID, p.ChainRoot, e.Purchase = e.Subject+"-0-1-0", e.Subject, &p
		if _, err := bus.Publish(b.Context(), e, 0); err != nil {
			b.Fatal(err)
		}
	}
	if err := state.PutStandings(b.Context(), "orders", map[string]events.Standing{"_sink": {LastTime: time.Now()}}); err != nil {
		b.Fatal(err)
	}
	set, err := route.Compile([]route.Spec{{Name: "all", Match: "true", Sinks: []string{"orders"}}})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	count := &counter{want: b.N, done: done}
	c := bus.Consumer("orders")
	c.InHand = 64
	l, err := deliver.New(deliver.Options{
		Name: "orders", Sink: count, Source: &source{c, bus}, Standings: state, Graveyard: bus, Leases: dedupe.Sole{},
		Set: set, Concurrency: 16, StreamCreated: bus.StreamID, Grace: time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	b.ResetTimer()
	go func() { defer close(ended); _ = l.Run(ctx) }()
	<-done
	b.StopTimer()
	cancel()
	<-ended
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

type counter struct {
	mu        sync.Mutex
	got, want int
	done      chan struct{}
}

func (c *counter) Send(context.Context, sinks.Notification) (sinks.Receipt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.got++; c.got == c.want {
		close(c.done)
	}
	return sinks.Receipt{}, nil
}

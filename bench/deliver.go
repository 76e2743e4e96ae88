package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

// drained is what draining one backlog took.
type drained struct {
	rate float64 // webhooks a second, at the receiver
	cpu  float64 // of the sender, seconds for 10,000 webhooks
}

func benchDeliver(ctx context.Context, b *bench) error {
	turns, count := 3, 20000
	if b.o.short {
		turns, count = 1, 6000
	}
	b.leaveWorld()
	w, err := b.newWorld(ctx)
	if err != nil {
		return err
	}
	defer w.stop()
	var hook receiverURL
	if err := w.receiver.call(ctx, "reset", struct{}{}, &hook); err != nil {
		return err
	}
	// A sink that has begun before drains its backlog; a new one starts with the newest.
	d := &drain{b: b, w: w, hook: hook.URL, count: count}
	if err := d.begin(ctx); err != nil {
		return err
	}
	players := []struct {
		name string
		play func(context.Context) (drained, error)
	}{{"post", d.post}, {"least", d.least}, {"herald", d.herald}}
	all := map[string][]drained{}
	for n := -1; n < turns; n++ { // turn -1 warms up
		for _, p := range players {
			d.turn, d.count = fmt.Sprintf("%s-%d", p.name, n), count
			if n < 0 {
				d.count = count / 10
			}
			got, err := p.play(ctx)
			if err != nil {
				return fmt.Errorf("play %s: %w", p.name, err)
			}
			if n >= 0 {
				all[p.name] = append(all[p.name], got)
			}
		}
	}
	d.rows(all)
	return nil
}

// drain is the setting of the benchmark deliver.
type drain struct {
	b     *bench
	w     *world
	hook  string
	count int
	turn  string
	made  int // purchases so far: each turn has its own
}

func (d *drain) rows(all map[string][]drained) {
	of := func(name string, figure func(drained) float64) (out []float64) {
		for _, one := range all[name] {
			out = append(out, figure(one))
		}
		return out
	}
	rate := func(one drained) float64 { return one.rate }
	cpu := func(one drained) float64 { return one.cpu }
	const bare, least = "bare signed POST loop", "least program of the same work"
	r := d.b.report
	r.add(row{Benchmark: "deliver", Figure: "webhooks", Unit: "1/s", Against: bare, Sense: atLeast, Target: 0.45},
		figures{of("herald", rate), of("post", rate)})
	r.add(row{Benchmark: "deliver", Figure: "CPU for 10,000 webhooks", Unit: "s", Against: bare, Sense: atMost, Target: 2.2},
		figures{of("herald", cpu), of("post", cpu)})
	r.add(row{Benchmark: "deliver", Figure: "webhooks", Unit: "1/s", Against: least, Sense: atLeast, Target: 0.9},
		figures{of("herald", rate), of("least", rate)})
	r.add(row{Benchmark: "deliver", Figure: "CPU for 10,000 webhooks", Unit: "s", Against: least, Sense: atMost},
		figures{of("herald", cpu), of("least", cpu)})
}

// begin has the product's sink begin once on the empty stream.
func (d *drain) begin(ctx context.Context) error {
	return errors.Join(
		d.w.herald.call(ctx, "deliver", deliverArgs{Hook: d.hook, InHand: d.b.inHand()}, nil),
		d.w.herald.call(ctx, "undeliver", struct{}{}, nil),
	)
}

// measure plays f and tells how fast the receiver got its webhooks.
func (d *drain) measure(ctx context.Context, p *part, f func() error) (drained, error) {
	if err := d.w.receiver.call(ctx, "reset", struct{}{}, nil); err != nil {
		return drained{}, err
	}
	before, err := used(ctx, p)
	if err != nil {
		return drained{}, err
	}
	if err := f(); err != nil {
		return drained{}, err
	}
	got, err := d.b.awaitAll(ctx, d.w, p.name, d.count)
	if err != nil {
		return drained{}, err
	}
	after, err := used(ctx, p)
	if err != nil {
		return drained{}, err
	}
	return drained{
		rate: float64(got.Unique-1) / got.Seconds, cpu: (after.CPU - before.CPU) * 10000 / float64(d.count),
	}, nil
}

func (d *drain) post(ctx context.Context) (drained, error) {
	body, _, err := d.event(0, 1)
	if err != nil {
		return drained{}, err
	}
	return d.measure(ctx, d.w.floor, func() error {
		return d.w.floor.call(ctx, "post", postArgs{Hook: d.hook, Count: d.count, Body: body, Run: d.turn}, nil)
	})
}

func (d *drain) least(ctx context.Context) (drained, error) {
	if err := d.backlog(ctx); err != nil {
		return drained{}, err
	}
	return d.measure(ctx, d.w.floor, func() error {
		return d.w.floor.call(ctx, "drain", drainArgs{
			Hook: d.hook, Redis: d.b.redis.url, Prefix: d.b.prefix(d.w.name), Count: d.count,
		}, nil)
	})
}

func (d *drain) herald(ctx context.Context) (drained, error) {
	if err := d.backlog(ctx); err != nil {
		return drained{}, err
	}
	var got drained
	err := d.b.profiled(ctx, d.w.herald, "deliver-"+d.turn, func() (err error) {
		got, err = d.measure(ctx, d.w.herald, func() error {
			return d.w.herald.call(ctx, "deliver", deliverArgs{Hook: d.hook, InHand: d.b.inHand()}, nil)
		})
		return err
	})
	return got, errors.Join(err, d.w.herald.call(ctx, "undeliver", struct{}{}, nil))
}

// readings is how many events of the same purchase a backlog has.
const readings = 4

// backlog fills the stream with events that are written as the watcher writes
// them, of purchases that no turn had before.
func (d *drain) backlog(ctx context.Context) error {
	stream, err := d.b.js.Stream(ctx, events.StreamPurchases)
	if err != nil {
		return fmt.Errorf("look at the stream: %w", err)
	}
	if err := stream.Purge(ctx); err != nil {
		return fmt.Errorf("empty the stream: %w", err)
	}
	purchases := (d.count + readings - 1) / readings
	for i := range d.count {
		body, e, err := d.event(d.made+i%purchases, int64(1+i/purchases))
		if err != nil {
			return err
		}
		subject, err := events.EventSubject(e)
		if err != nil {
			return err
		}
		_, err = d.b.js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: body},
			jetstream.WithMsgID(e.ID), jetstream.WithStallWait(30*time.Second))
		if err != nil {
			return fmt.Errorf("publish backlog: %w", err)
		}
	}
	d.made += purchases
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.b.js.PublishAsyncComplete():
	}
	stored, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("look at the stream: %w", err)
	}
	if stored.State.Msgs != uint64(d.count) {
		return fmt.Errorf("publish backlog: %d of %d are stored", stored.State.Msgs, d.count)
	}
	return nil
}

// event is the reading of a purchase at a revision.
func (d *drain) event(purchase int, revision int64) ([]byte, events.Event, error) {
	at := time.Now().UTC()
	no := false
	s := events.Snapshot{
		PurchaseID: purchaseID(purchase), Revision: revision, State: events.StateProcessing,
		StatusText: "Envoy is placing the order.", Rail: "operated_checkout", RailReason: "RAIL_AMOUNT_ABOVE_OTU_LIMIT",
		CheckoutBy: "envoy", Merchant: events.Merchant{Name: "Example Store", URL: "https://shop.example.test/headphones"},
		Amount: events.Amount{Minor: 249900, Currency: "INR", Display: "INR 2,499.00"}, DetailsComplete: true,
		Approval: events.Approval{State: "approved", Method: "passkey"}, Money: events.MoneyStatus{Status: "not_started"},
		Agent:     events.Agent{ID: agentID, DisplayName: agentName, Verification: "origin"},
		CreatedAt: at.Add(-time.Minute), UpdatedAt: at,
	}
	f := events.Facts{
		Source: events.SourceStatus, Connection: fmt.Sprintf("host-%d", purchase%50), PassedApproval: true,
		Held: events.HeldAnswer{Available: true, Truncated: &no}, ServerTime: at,
		Support: events.Support{RequestID: "req_synthetic", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"},
	}
	e := events.New(s, f, events.Judge(s, f), events.Position{Revision: revision}, events.CauseRevision, nil, events.Cursor{}, events.Options{})
	body, err := events.Encode(e)
	return body, e, err
}

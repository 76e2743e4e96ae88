package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	auditQueue   = 4096 // records that wait to be sent
	auditPending = 1024 // records sent whose acknowledgement is out
	auditStall   = 200 * time.Millisecond
	auditTimeout = 10 * time.Second
)

// auditor sends audit records behind its callers' backs: nobody waits for it,
// and what it cannot take or send is dropped and counted.
type auditor struct {
	js      jetstream.JetStream
	queue   chan events.Delivery
	dropped prometheus.Counter
}

func newAuditor(nc *nats.Conn, m *metrics) (*auditor, error) {
	js, err := jetstream.New(nc,
		jetstream.WithPublishAsyncMaxPending(auditPending),
		jetstream.WithPublishAsyncTimeout(auditTimeout),
		jetstream.WithPublishAsyncErrHandler(func(jetstream.JetStream, *nats.Msg, error) { m.auditDropped.Inc() }))
	if err != nil {
		return nil, fmt.Errorf("set up the audit: %w", err)
	}
	return &auditor{js: js, queue: make(chan events.Delivery, auditQueue), dropped: m.auditDropped}, nil
}

func (a *auditor) run(ctx context.Context) {
	for {
		select {
		case d := <-a.queue:
			a.send(d)
		case <-ctx.Done():
			return
		}
	}
}

func (a *auditor) send(d events.Delivery) {
	subject, err := events.DeliverySubject(d.Sink, d.PurchaseID)
	if err != nil {
		a.dropped.Inc()
		return
	}
	body, err := json.Marshal(d)
	if err != nil {
		a.dropped.Inc()
		return
	}
	if _, err := a.js.PublishAsync(subject, body, jetstream.WithStallWait(auditStall)); err != nil {
		a.dropped.Inc()
	}
}

// flush sends what waits and awaits the acknowledgements until ctx ends. run
// must have ended.
func (a *auditor) flush(ctx context.Context) {
	for {
		select {
		case d := <-a.queue:
			if ctx.Err() != nil {
				a.dropped.Inc()
				continue
			}
			a.send(d)
			continue
		default:
		}
		break
	}
	select {
	case <-a.js.PublishAsyncComplete():
	case <-ctx.Done():
	}
	a.js.CleanupPublisher()
}

// Audit stores the outcome of a delivery without waiting: it never blocks, and a
// record that finds no room is dropped and counted.
func (b *Bus) Audit(d events.Delivery) {
	select {
	case b.auditor.queue <- d:
	default:
		b.metrics.auditDropped.Inc()
	}
}

// DeliveryFilter selects audit records; zero fields select all.
type DeliveryFilter struct {
	Sink       string
	PurchaseID string
	Since      time.Time
}

// Deliveries walks over audit records, oldest first.
func (b *Bus) Deliveries(ctx context.Context, f DeliveryFilter) iter.Seq2[events.Delivery, error] {
	sink, purchase := "*", "*"
	if f.Sink != "" {
		if !events.ValidConnection(f.Sink) {
			return fails[events.Delivery](fmt.Errorf("read deliveries: sink %q: %w", f.Sink, events.ErrBadName))
		}
		sink = f.Sink
	}
	if f.PurchaseID != "" {
		if !events.ValidPurchaseID(f.PurchaseID) {
			return fails[events.Delivery](fmt.Errorf("read deliveries: purchase %q: %w", f.PurchaseID, events.ErrBadName))
		}
		purchase = f.PurchaseID
	}
	cfg := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubject: "envoy.delivery." + sink + "." + purchase,
	}
	if !f.Since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &f.Since
	}
	return records[events.Delivery](b.walk(ctx, events.StreamDeliveries, cfg))
}

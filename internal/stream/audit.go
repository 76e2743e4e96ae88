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
	auditBurst   = 512  // records that are sent together
	auditLinger  = 10 * time.Millisecond
	auditTimeout = 5 * time.Second
)

// auditor sends audit records behind its callers' backs: nobody waits for it,
// and what it cannot take or send is dropped and counted. Records that come
// within a moment go together, and only the last of them asks the stream for its
// acknowledgement: what keeps it from storing one keeps it from storing all.
type auditor struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	queue   chan events.Delivery
	dropped prometheus.Counter
}

func (a *auditor) run(ctx context.Context) {
	linger := time.NewTimer(0)
	defer linger.Stop()
	for {
		select {
		case d := <-a.queue:
			linger.Reset(auditLinger)
			select {
			case <-linger.C:
			case <-ctx.Done():
			}
			a.send(context.WithoutCancel(ctx), d) // bounded, and not broken off in the middle
		case <-ctx.Done():
			return
		}
	}
}

// flush sends what waits until ctx ends. run must have ended.
func (a *auditor) flush(ctx context.Context) {
	for {
		select {
		case d := <-a.queue:
			a.send(ctx, d)
		default:
			return
		}
	}
}

// send stores a record and those that wait behind it.
func (a *auditor) send(ctx context.Context, d events.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	var burst []*nats.Msg
	for more := true; more; {
		if msg := a.message(d); msg != nil {
			burst = append(burst, msg)
		}
		if more = len(burst) < auditBurst; more {
			select {
			case d = <-a.queue:
			default:
				more = false
			}
		}
	}
	for i, msg := range burst {
		var err error
		if i < len(burst)-1 {
			err = a.nc.PublishMsg(msg)
		} else {
			_, err = a.js.PublishMsg(ctx, msg)
		}
		if err != nil { // what came before did not arrive either, or it is not known that it did
			a.dropped.Add(float64(len(burst)))
			return
		}
	}
}

// message is the record as it is stored; nil, and counted, for one that cannot be.
func (a *auditor) message(d events.Delivery) *nats.Msg {
	subject, err := events.DeliverySubject(d.Sink, d.PurchaseID)
	if err != nil {
		a.dropped.Inc()
		return nil
	}
	body, err := json.Marshal(d)
	if err != nil {
		a.dropped.Inc()
		return nil
	}
	return &nats.Msg{Subject: subject, Data: body}
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

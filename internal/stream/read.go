package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	walkBatch     = 256
	walkIdle      = time.Minute // after which a forgotten walk's consumer goes
	walkHeartbeat = 5 * time.Second
	walkExpiry    = 30 * time.Second
	readTimeout   = 5 * time.Second
	cleanTimeout  = 2 * time.Second
)

// Last is the newest event of a purchase at a connection and the sequence of
// its subject. The event is nil when there is none, or none that can be read;
// in the second case the sequence is not 0.
func (b *Bus) Last(ctx context.Context, connection, purchaseID string) (*events.Event, uint64, error) {
	subject, err := events.Subject(connection, purchaseID)
	if err != nil {
		return nil, 0, err
	}
	env, err := b.last(ctx, subject)
	if err != nil {
		return nil, 0, fmt.Errorf("read the newest event of %s: %w", purchaseID, err)
	}
	if env.Sequence == 0 || env.Bad != nil {
		return nil, env.Sequence, nil //nolint:nilerr // Bad is about the message, which is passed over
	}
	return &env.Event, env.Sequence, nil
}

// last reads the newest message of a subject; a zero Sequence means none.
func (b *Bus) last(ctx context.Context, subject string) (events.Envelope, error) {
	s, err := b.stream(events.StreamPurchases)
	if err != nil {
		return events.Envelope{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	raw, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return events.Envelope{}, nil
	}
	if err != nil {
		return events.Envelope{}, err
	}
	env := events.Envelope{Raw: raw.Data, Subject: raw.Subject, Sequence: raw.Sequence, Stored: raw.Time}
	b.decode(&env)
	return env, nil
}

func (b *Bus) decode(env *events.Envelope) {
	env.Event, env.Document, env.Bad = events.Read(env.Raw)
	if env.Bad == nil {
		return
	}
	env.Event = events.Event{}
	b.metrics.undecodable.Inc()
	b.log.Warn("a stored message is no event of ours", slog.String("subject", env.Subject),
		slog.Uint64("sequence", env.Sequence), slog.Any("error", env.Bad))
}

// Newest walks over the newest message of every purchase, in stream order. An
// error ends the walk.
func (b *Bus) Newest(ctx context.Context) iter.Seq2[events.Envelope, error] {
	return b.envelopes(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: events.SubjectPurchases,
	})
}

// Followed gives the purchases of a connection whose newest event says that they are not over.
func (b *Bus) Followed(ctx context.Context, connection string) ([]string, error) {
	if !events.ValidConnection(connection) {
		return nil, fmt.Errorf("read what is followed: connection %q: %w", connection, events.ErrBadName)
	}
	var out []string
	for env, err := range b.envelopes(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: "envoy.purchase." + connection + ".*",
	}) {
		if err != nil {
			return nil, fmt.Errorf("read what is followed: %w", err)
		}
		if p := env.Event.Purchase; env.Bad == nil && p != nil && (!p.Terminal || p.Unsettled) {
			out = append(out, env.Event.Subject)
		}
	}
	return out, nil
}

// History walks over everything stored about a purchase, oldest first, whatever
// the connection.
func (b *Bus) History(ctx context.Context, purchaseID string) iter.Seq2[events.Envelope, error] {
	if !events.ValidPurchaseID(purchaseID) {
		return fails[events.Envelope](fmt.Errorf("read history: purchase %q: %w", purchaseID, events.ErrBadName))
	}
	return b.envelopes(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubject: "envoy.purchase.*." + purchaseID,
	})
}

// Stored walks over every event stored since a time, oldest first.
func (b *Bus) Stored(ctx context.Context, since time.Time) iter.Seq2[events.Envelope, error] {
	return b.envelopes(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since,
	})
}

// From says where a tail begins: after a sequence, or at a time; the zero value
// is from now on.
type From struct {
	After uint64
	Time  time.Time
}

// Tail follows events and notices as they are stored, in order and over
// reconnects, until ctx ends; then its last pair has the error of ctx.
func (b *Bus) Tail(ctx context.Context, from From) iter.Seq2[events.Envelope, error] {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}
	switch {
	case from.After > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from.After+1
	case !from.Time.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &from.Time
	}
	return func(yield func(events.Envelope, error) bool) {
		fail := func(err error) { yield(events.Envelope{}, fmt.Errorf("follow events: %w", err)) }
		cons, err := b.js.OrderedConsumer(ctx, events.StreamPurchases, cfg)
		if err != nil {
			fail(err)
			return
		}
		msgs, err := cons.Messages(jetstream.PullMaxMessages(walkBatch))
		if err != nil {
			fail(err)
			return
		}
		defer msgs.Stop()
		for {
			msg, err := msgs.Next(jetstream.NextContext(ctx))
			if err != nil {
				fail(err)
				return
			}
			env, err := b.envelope(msg)
			if err != nil {
				fail(err)
				return
			}
			if !yield(env, nil) {
				return
			}
		}
	}
}

// StreamID is when ENVOY_PURCHASES was made. Sequences of streams with
// different times cannot be compared.
func (b *Bus) StreamID(ctx context.Context) (time.Time, error) {
	info, err := b.streamInfo(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return info.Created, nil
}

// StreamStart is the sequence of the oldest event that is still there, and when
// it was stored; both are zero in an empty stream.
func (b *Bus) StreamStart(ctx context.Context) (uint64, time.Time, error) {
	info, err := b.streamInfo(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	if info.State.Msgs == 0 {
		return 0, time.Time{}, nil
	}
	return info.State.FirstSeq, info.State.FirstTime, nil
}

func (b *Bus) streamInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := b.stream(events.StreamPurchases)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask about stream %s: %w", events.StreamPurchases, err)
	}
	return info, nil
}

func (b *Bus) envelopes(ctx context.Context, cfg jetstream.ConsumerConfig) iter.Seq2[events.Envelope, error] {
	return func(yield func(events.Envelope, error) bool) {
		for msg, err := range b.walk(ctx, events.StreamPurchases, cfg) {
			var env events.Envelope
			if err == nil {
				env, err = b.envelope(msg)
			}
			if !yield(env, err) || err != nil {
				return
			}
		}
	}
}

func (b *Bus) envelope(msg jetstream.Msg) (events.Envelope, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return events.Envelope{}, fmt.Errorf("read message metadata: %w", err)
	}
	env := events.Envelope{
		Raw: msg.Data(), Subject: msg.Subject(), Sequence: meta.Sequence.Stream,
		ConsumerSequence: meta.Sequence.Consumer, Delivered: int(meta.NumDelivered), Stored: meta.Timestamp,
	}
	b.decode(&env)
	return env, nil
}

// walk goes once over the messages that a stream holds now and that cfg
// selects. A message that the client missed ends the walk with an error, so
// that a walk without one is whole.
func (b *Bus) walk(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) iter.Seq2[jetstream.Msg, error] {
	cfg.AckPolicy, cfg.MemoryStorage, cfg.Replicas, cfg.InactiveThreshold = jetstream.AckNonePolicy, true, 1, walkIdle
	return func(yield func(jetstream.Msg, error) bool) {
		fail := func(err error) { yield(nil, fmt.Errorf("read stream %s: %w", stream, err)) }
		cons, err := b.js.CreateConsumer(ctx, stream, cfg)
		if err != nil {
			fail(err)
			return
		}
		defer b.forget(ctx, stream, cons.CachedInfo().Name)
		left := cons.CachedInfo().NumPending
		if left == 0 {
			return
		}
		msgs, err := cons.Messages(jetstream.PullMaxMessages(walkBatch),
			jetstream.PullExpiry(walkExpiry), jetstream.PullHeartbeat(walkHeartbeat))
		if err != nil {
			fail(err)
			return
		}
		defer msgs.Stop()
		for seen := uint64(1); ; seen++ {
			msg, err := msgs.Next(jetstream.NextContext(ctx))
			if err != nil {
				fail(err)
				return
			}
			meta, err := msg.Metadata()
			if err == nil && meta.Sequence.Consumer != seen {
				err = fmt.Errorf("messages %d to %d are missing", seen, meta.Sequence.Consumer-1)
			}
			if err != nil {
				fail(err)
				return
			}
			if !yield(msg, nil) || seen >= left || meta.NumPending == 0 {
				return
			}
		}
	}
}

// forget deletes the consumer of a walk; if that fails the server does it after
// walkIdle.
func (b *Bus) forget(ctx context.Context, stream, consumer string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	_ = b.js.DeleteConsumer(ctx, stream, consumer)
}

func fails[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

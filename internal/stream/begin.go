package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

// newestStart is what a consumer begun with StartNewest leaves out: everything
// up to before that is not the newest message of a purchase.
type newestStart struct {
	before uint64              // 0: nothing is left out
	keep   map[uint64]struct{} // nil: the server itself leaves it out
}

// floor remembers the position of a consumer that was deleted and could not be
// made again, so that the next try does not go back to the start.
type floor struct {
	known   bool
	seq     uint64
	before  uint64
	created time.Time // of the stream
}

func (c *Consumer) begin(ctx context.Context, start Start) error {
	cfg, err := c.renew(ctx, start)
	if err != nil {
		return err
	}
	cons, err := c.create(ctx, cfg)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	c.fallback = floor{}
	inHand := c.InHand
	if inHand <= 0 {
		inHand = defaultInHand
	}
	msgs, err := cons.Messages(jetstream.PullMaxMessages(inHand),
		jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	c.cons, c.made, c.last, c.stalls, c.probed, c.looked = cons, cons.CachedInfo().Config, 0, 0, 0, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil { // lost while we were at it
		msgs.Stop()
		return c.broken
	}
	c.msgs = msgs
	return nil
}

// create makes the consumer. A server that is still removing the files of the
// one before refuses the new one for a moment.
func (c *Consumer) create(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	for try := 1; ; try++ {
		cons, err := c.bus.js.CreateConsumer(ctx, events.StreamPurchases, cfg)
		if err == nil || !isCode(err, jetstream.JSErrCodeConsumerCreate) || try == createTries {
			return cons, err
		}
		if perr := pause(ctx, conflictPause<<try); perr != nil {
			return nil, errors.Join(err, perr)
		}
	}
}

// renew deletes the present consumer and says how the next one is made.
func (c *Consumer) renew(ctx context.Context, start Start) (jetstream.ConsumerConfig, error) {
	stream, err := c.bus.js.Stream(ctx, events.StreamPurchases)
	if err != nil {
		return jetstream.ConsumerConfig{}, fmt.Errorf("look at the stream: %w", err)
	}
	info := stream.CachedInfo()
	at, err := c.position(ctx, info)
	if err != nil {
		return jetstream.ConsumerConfig{}, err
	}
	cfg := jetstream.ConsumerConfig{
		Durable: c.name, Description: "Herald sink " + c.sink,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: maxAckPending,
		DeliverPolicy: jetstream.DeliverAllPolicy,
	}
	c.newest = newestStart{}
	switch {
	case start == StartNewest:
		cfg.DeliverPolicy = jetstream.DeliverLastPerSubjectPolicy
		cfg.FilterSubjects = []string{events.SubjectPurchases, events.SubjectNotices}
		c.newest.before = info.State.LastSeq
	case at.known && at.seq > 0 && at.seq <= info.State.LastSeq:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, at.seq+1
	}
	if start != StartNewest && at.before > at.seq {
		c.newest.before = at.before
		if c.newest.keep, err = c.newestUpTo(ctx, at.before); err != nil {
			return jetstream.ConsumerConfig{}, err
		}
	}
	if c.newest.before > 0 {
		cfg.Metadata = map[string]string{metaNewestBefore: strconv.FormatUint(c.newest.before, 10)}
	}
	return cfg, nil
}

// position reads where the consumer stands, deletes it, and remembers.
func (c *Consumer) position(ctx context.Context, stream *jetstream.StreamInfo) (floor, error) {
	old, err := c.bus.js.Consumer(ctx, events.StreamPurchases, c.name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		if c.fallback.known && c.fallback.created.Equal(stream.Created) {
			return c.fallback, nil
		}
		if c.cons != nil { // we had one
			c.bus.metrics.recreated.WithLabelValues("consumer").Inc()
			c.bus.log.Warn("consumer is missing and is made again from the start of the stream",
				slog.String("sink", c.sink), slog.String("consumer", c.name))
		}
		return floor{}, nil
	case err != nil:
		return floor{}, fmt.Errorf("look at the consumer: %w", err)
	}
	info := old.CachedInfo()
	at := floor{known: true, seq: info.AckFloor.Stream, created: stream.Created}
	if text, ok := info.Config.Metadata[metaNewestBefore]; ok {
		if at.before, err = strconv.ParseUint(text, 10, 64); err != nil {
			return floor{}, fmt.Errorf("read the consumer's metadata: %w", err)
		}
	}
	c.fallback = at
	err = c.bus.js.DeleteConsumer(ctx, events.StreamPurchases, c.name)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return floor{}, fmt.Errorf("delete: %w", err)
	}
	return at, nil
}

// newestUpTo lists the messages up to a sequence that are the newest of their
// purchase now.
func (c *Consumer) newestUpTo(ctx context.Context, before uint64) (map[uint64]struct{}, error) {
	keep := make(map[uint64]struct{})
	for msg, err := range c.bus.walk(ctx, events.StreamPurchases, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: events.SubjectPurchases, HeadersOnly: true,
	}) {
		if err != nil {
			return nil, err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return nil, err
		}
		if meta.Sequence.Stream > before {
			break
		}
		keep[meta.Sequence.Stream] = struct{}{}
	}
	return keep, nil
}

// leftOut tells whether a message is one of the old ones that a new sink is
// spared: notices, settled purchases, and what was not the newest of its
// purchase when the sink began.
func (c *Consumer) leftOut(env events.Envelope) bool {
	if env.Sequence > c.newest.before {
		return false
	}
	if env.Bad != nil {
		return false // to be buried, not lost
	}
	p := env.Event.Purchase
	if p == nil || p.Terminal && !p.Unsettled {
		return true
	}
	if c.newest.keep == nil {
		return false
	}
	_, newest := c.newest.keep[env.Sequence]
	return !newest
}

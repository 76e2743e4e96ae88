package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

// RetireAfter is how long the consumer of a sink that is gone from the
// configuration keeps its position.
const RetireAfter = 24 * time.Hour

// Sinks lists the names of all sinks that have a consumer.
func (b *Bus) Sinks(ctx context.Context) ([]string, error) {
	s, err := b.stream(events.StreamPurchases)
	if err != nil {
		return nil, err
	}
	var sinks []string
	list := s.ConsumerNames(ctx)
	for name := range list.Name() {
		if sink, ok := strings.CutPrefix(name, consumerPrefix); ok {
			sinks = append(sinks, sink)
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	return sinks, nil
}

// Exists tells whether the sink has a consumer.
func (c *Consumer) Exists(ctx context.Context) (bool, error) {
	_, err := c.info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Pending is how many events the sink has yet to be done with: those that were
// not fetched and those that are not acknowledged. It is 0 without a consumer.
func (c *Consumer) Pending(ctx context.Context) (uint64, error) {
	info, err := c.info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.NumPending + uint64(max(info.NumAckPending, 0)), nil
}

// Floor is the stream sequence up to which the sink is done with everything; 0
// without a consumer.
func (c *Consumer) Floor(ctx context.Context) (uint64, error) {
	info, err := c.info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.AckFloor.Stream, nil
}

// Retire lets the server delete the consumer once nobody has pulled from it for
// the given time. Begin takes that back.
func (c *Consumer) Retire(ctx context.Context, after time.Duration) error {
	info, err := c.info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	cfg := info.Config
	if cfg.InactiveThreshold == after {
		return nil
	}
	cfg.InactiveThreshold = after
	if _, err := c.bus.js.UpdateConsumer(ctx, events.StreamPurchases, cfg); err != nil {
		return fmt.Errorf("retire consumer %s: %w", c.name, err)
	}
	return nil
}

func (c *Consumer) info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	if !events.ValidConnection(c.sink) {
		return nil, fmt.Errorf("sink %q: %w", c.sink, events.ErrBadName)
	}
	cons, err := c.bus.js.Consumer(ctx, events.StreamPurchases, c.name)
	if err != nil {
		return nil, fmt.Errorf("look at consumer %s: %w", c.name, err)
	}
	return cons.CachedInfo(), nil
}

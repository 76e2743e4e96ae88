package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/deadline"
	"github.com/heraldbridge/herald/internal/events"
)

const (
	consumerPrefix   = "sink_"
	ackWait          = 30 * time.Second // a constant: changing it moves every delay that is under way
	maxAckPending    = 65536            // the server's limit for messages that wait or were handed back
	defaultInHand    = 2
	createTries      = 5
	stallCheck       = 15 * time.Second
	changeCheck      = time.Minute // between looks at a consumer that gives messages all the time
	stallChecks      = 2           // looks without progress, one after another, that make a stall
	pullExpiry       = 30 * time.Second
	pullHeartbeat    = 5 * time.Second
	metaNewestBefore = "herald_newest_before" // on consumers begun with StartNewest
)

// Start says where a consumer begins.
type Start string

// The ways to begin.
const (
	// StartResume continues after the last message up to which everything is
	// acknowledged; without a consumer, at the start of the stream.
	StartResume Start = "resume"
	// StartNewest is for a new sink: the newest message of each purchase, the
	// settled ones left out, then everything that comes.
	StartNewest Start = "newest"
)

var (
	// ErrBeginAgain says that the order of what comes next is not sure any more.
	// Let what is under way end, forget the rest, and call Begin.
	ErrBeginAgain = errors.New("begin the consumer again")
	// ErrStopped is the answer of a consumer that was stopped or never begun.
	ErrStopped = errors.New("the consumer is stopped")
)

// Consumer is the place of one sink in the events: a durable consumer of its
// own, pulled by one owner. Begin, Next, Stop and Drain are for one goroutine,
// but Stop may be called from another one to end a Next.
//
// There is one way to begin, at a start, after a reconnect and after every
// doubt: delete the consumer and make it anew after its acknowledged floor. So
// what an earlier owner had in hand, and what waits for a redelivery, comes
// again in the order of the stream. Repeats are for the receiver to absorb.
type Consumer struct {
	// InHand bounds how many messages are fetched ahead of Next; 0: 2. Set it
	// before Begin.
	InHand int

	bus  *Bus
	sink string
	name string

	mu     sync.Mutex
	msgs   jetstream.MessagesContext // nil when stopped
	broken error                     // why msgs was ended from outside
	forget func()                    // of the link

	stallCheck time.Duration // only tests change it

	look     deadline.Shared // of calls that end in time for the next look for a stall
	cons     jetstream.Consumer
	last     uint64                   // consumer sequence of the message before
	made     jetstream.ConsumerConfig // as the server had it when it was made
	stalls   int
	probed   uint64    // last at the probe before
	looked   time.Time // at the server, in that probe
	newest   newestStart
	fallback floor
}

// Consumer gives the place of a sink. Nothing is asked of the server yet.
func (b *Bus) Consumer(sink string) *Consumer {
	return &Consumer{bus: b, sink: sink, name: consumerPrefix + sink, stallCheck: stallCheck}
}

// Begin waits for the server, then takes the sink's place from the beginning
// that start says.
func (c *Consumer) Begin(ctx context.Context, start Start) error {
	if !events.ValidConnection(c.sink) {
		return fmt.Errorf("begin consumer: sink %q: %w", c.sink, events.ErrBadName)
	}
	c.Stop()
	if err := c.bus.link.await(ctx); err != nil {
		return fmt.Errorf("begin consumer %s: %w", c.name, err)
	}
	c.mu.Lock()
	c.broken = nil
	c.forget = c.bus.link.onLoss(func() { c.breakOff(errors.New("the connection was lost")) })
	c.mu.Unlock()
	if err := c.begin(ctx, start); err != nil {
		c.Stop()
		c.bus.recheck() // the stream may be what is missing
		return fmt.Errorf("begin consumer %s: %w", c.name, err)
	}
	return nil
}

// Next waits for the next message. ErrBeginAgain, with the cause, asks for a
// Begin; the error of ctx and ErrStopped are the ends.
func (c *Consumer) Next(ctx context.Context) (events.Envelope, jetstream.Msg, error) {
	for {
		msg, err := c.pull(ctx)
		if err != nil {
			return events.Envelope{}, nil, err
		}
		if msg == nil {
			continue
		}
		env, err := c.bus.envelope(msg)
		if err != nil {
			return events.Envelope{}, nil, c.again("unreadable", err)
		}
		if env.ConsumerSequence != c.last+1 {
			return events.Envelope{}, nil, c.again("gap",
				fmt.Errorf("message %d came after message %d", env.ConsumerSequence, c.last))
		}
		c.last = env.ConsumerSequence
		if !c.leftOut(env) {
			return env, msg, nil
		}
		if err := msg.Ack(); err != nil {
			return events.Envelope{}, nil, c.again("ack", err)
		}
	}
}

// pull waits for one message, and looks for a stall when none comes: nil and no
// error says that it should be called again.
func (c *Consumer) pull(ctx context.Context) (jetstream.Msg, error) {
	c.mu.Lock()
	msgs, broken := c.msgs, c.broken
	c.mu.Unlock()
	if broken != nil {
		return nil, c.again("lost", broken)
	}
	if msgs == nil {
		return nil, ErrStopped
	}
	if time.Since(c.looked) > changeCheck {
		if err := c.probe(ctx); err != nil {
			return nil, err
		}
	}
	msg, err := msgs.Next(jetstream.NextContext(c.look.Between(ctx, c.stallCheck/2, c.stallCheck)))
	switch {
	case err == nil:
		return msg, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, c.probe(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.broken != nil:
		return nil, c.again("lost", c.broken)
	case c.msgs == nil:
		return nil, ErrStopped
	case errors.Is(err, jetstream.ErrConsumerDeleted):
		return nil, c.again("deleted", err)
	default:
		return nil, c.again("pull", err)
	}
}

// probe asks the server about the consumer: a pull consumer can fall silent after
// a reconnect, and its deletion or change by hand may pass unnoticed.
func (c *Consumer) probe(ctx context.Context) error {
	c.looked = time.Now()
	ask, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	info, err := c.cons.Info(ask)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return c.again("deleted", err)
	}
	if err != nil {
		return ctx.Err() // a server that is away is noticed by the connection
	}
	if fields := changed(info.Config, c.made); len(fields) > 0 {
		c.bus.metrics.recreated.WithLabelValues("consumer").Inc()
		c.bus.log.Warn("consumer differs from its definition and is made again",
			slog.String("sink", c.sink), slog.Any("fields", fields))
		return c.again("changed", fmt.Errorf("it was changed by hand: %s", strings.Join(fields, ", ")))
	}
	stalled := info.NumPending > 0 && info.NumAckPending < maxAckPending && c.last == c.probed
	c.probed = c.last
	if !stalled {
		c.stalls = 0
		return nil
	}
	if c.stalls++; c.stalls < stallChecks {
		return nil
	}
	return c.again("stalled", fmt.Errorf("%d messages are pending and none comes", info.NumPending))
}

// changed names the fields of a consumer on which order and delays depend and
// that are not as they were made.
func changed(now, made jetstream.ConsumerConfig) (fields []string) {
	for name, same := range map[string]bool{
		"ack_policy":      now.AckPolicy == made.AckPolicy,
		"ack_wait":        now.AckWait == made.AckWait,
		"max_deliver":     now.MaxDeliver == made.MaxDeliver,
		"backoff":         slices.Equal(now.BackOff, made.BackOff),
		"max_ack_pending": now.MaxAckPending == made.MaxAckPending,
		"filter_subjects": now.FilterSubject == made.FilterSubject && slices.Equal(now.FilterSubjects, made.FilterSubjects),
		"headers_only":    now.HeadersOnly == made.HeadersOnly,
		"max_batch":       now.MaxRequestBatch == made.MaxRequestBatch && now.MaxRequestMaxBytes == made.MaxRequestMaxBytes,
		"max_waiting":     now.MaxWaiting == made.MaxWaiting && now.MaxRequestExpires == made.MaxRequestExpires,
	} {
		if !same {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}

// again counts a reason for beginning again and wraps its cause.
func (c *Consumer) again(reason string, cause error) error {
	c.bus.metrics.beginnings.WithLabelValues(reason).Inc()
	c.bus.log.Info("consumer has to begin again", slog.String("sink", c.sink),
		slog.String("reason", reason), slog.Any("error", cause))
	return fmt.Errorf("%w: %w", ErrBeginAgain, cause)
}

func (c *Consumer) breakOff(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = cause
	if c.msgs != nil {
		c.msgs.Stop()
	}
}

// Stop ends pulling at once. What was fetched and not given out waits for the
// next Begin. It may be called at any time, more than once.
func (c *Consumer) Stop() {
	c.take(jetstream.MessagesContext.Stop)
}

// Drain ends pulling and hands back, in order, what was fetched and not given
// out.
func (c *Consumer) Drain(ctx context.Context) error {
	msgs := c.take(jetstream.MessagesContext.Drain)
	if msgs == nil {
		return nil
	}
	for {
		msg, err := msgs.Next(jetstream.NextContext(ctx))
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("drain consumer %s: %w", c.name, err)
		}
		if err := msg.Nak(); err != nil {
			return fmt.Errorf("hand back message: %w", err)
		}
	}
}

// take ends the iterator in the given way and forgets it.
func (c *Consumer) take(end func(jetstream.MessagesContext)) jetstream.MessagesContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	msgs := c.msgs
	c.msgs = nil
	if c.forget != nil {
		c.forget()
		c.forget = nil
	}
	if msgs != nil {
		end(msgs)
	}
	return msgs
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	consumerPrefix   = "sink_"
	ackWait          = 30 * time.Second // a constant: changing it moves every delay that is under way
	maxAckPending    = 65536            // the server's limit for messages that wait or were handed back
	defaultInHand    = 2
	createTries      = 5
	stallCheck       = 15 * time.Second
	stallChecks      = 2 // looks without progress, one after another, that make a stall
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

	cons     jetstream.Consumer
	last     uint64 // consumer sequence of the message before
	stalls   int
	probed   uint64 // last at the probe before
	newest   newestStart
	fallback floor
}

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
	c.cons, c.last, c.stalls, c.probed = cons, 0, 0, 0
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
	wait, cancel := context.WithTimeout(ctx, c.stallCheck)
	defer cancel()
	msg, err := msgs.Next(jetstream.NextContext(wait))
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

// probe asks the server about a consumer that gives nothing: a pull consumer
// can fall silent after a reconnect, and its deletion may pass unnoticed.
func (c *Consumer) probe(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	info, err := c.cons.Info(ask)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return c.again("deleted", err)
	}
	if err != nil {
		return ctx.Err() // a server that is away is noticed by the connection
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

// again counts a reason for beginning again and wraps its cause.
func (c *Consumer) again(reason string, cause error) error {
	c.bus.metrics.beginnings.WithLabelValues(reason).Inc()
	c.bus.log.Info("consumer has to begin again", slog.String("sink", c.sink),
		slog.String("reason", reason), slog.Any("error", cause))
	return fmt.Errorf("%w: %w", ErrBeginAgain, cause)
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

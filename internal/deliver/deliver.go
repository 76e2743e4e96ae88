// Package deliver is the loop of one sink. It takes the messages of its sink's
// consumer in stream order, asks route what each is worth telling, sends, and
// records the outcome before it acknowledges: standing first, then the ack, so
// that a crash between the two repeats nothing and one before them repeats the
// same id only.
//
// Messages of one conversation (a purchase and those it replaced, or a
// connection's notices) go through one lane, one at a time; lanes do not wait
// for each other. A failed try is first the message's, and becomes the sink's by
// the rules of the breaker; what cannot be told in the end is buried with its
// reason. All state is owned by one goroutine per sink; only sends run beside it.
package deliver

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/sinks"
)

// ErrBeginAgain is what Source.Next answers when what is in hand can no longer be
// trusted: after a reconnect, a gap, a missing consumer. The loop lets sends
// under way end, forgets the rest and calls Begin.
var ErrBeginAgain = errors.New("begin again")

// Start is where a beginning takes up.
type Start string

// The starts.
const (
	StartResume Start = "resume" // after everything that is settled; at the start of the stream if that is not known
	StartNewest Start = "newest" // with the newest message of each subject: a new sink
)

// Handle settles one delivered message. A jetstream.Msg is one.
type Handle interface {
	Ack() error
	NakWithDelay(delay time.Duration) error
	InProgress() error
}

// Message is an event in hand.
type Message struct {
	events.Envelope
	Handle Handle
}

// Source is the sink's consumer.
type Source interface {
	// Begin starts over; messages handed out before are void.
	Begin(ctx context.Context, s Start) error
	// Next waits for a message. ErrBeginAgain asks for a new Begin.
	Next(ctx context.Context) (Message, error)
	// Newest gives the newest message of each subject.
	Newest(ctx context.Context) iter.Seq2[events.Envelope, error]
}

// Existing is what a Source may also be able to tell: whether its consumer is
// there. One that is there is resumed even where the standings are gone.
type Existing interface {
	Exists(ctx context.Context) (bool, error)
}

// Backlogger is what a Source may also be able to tell: how many messages wait.
type Backlogger interface {
	Pending(ctx context.Context) (uint64, error)
}

// Drainer is what a Source may also be able to do when the loop stops: hand back,
// in order, what it has fetched ahead of Next.
type Drainer interface {
	Drain(ctx context.Context) error
}

// Gap is what left the stream, by age or by hand, before the sink was done with it.
type Gap struct {
	Count uint64    // at most so many events; zero: no gap
	From  time.Time // when the sink was last done with something; zero: not known
	To    time.Time // when the oldest event that is left was stored; zero: none is left
}

// Ageing is what a Source may also be able to tell: what left the stream. It is
// asked before Begin.
type Ageing interface {
	Gap(ctx context.Context) (Gap, error)
}

// Standings keeps what was said. Keys are purchase ids (the oldest of a chain),
// "connection-" and a name for notices, and one key of the loop's own.
type Standings interface {
	Standings(ctx context.Context, sink string, keys []string) (map[string]events.Standing, error)
	PutStandings(ctx context.Context, sink string, m map[string]events.Standing) error
}

// Graveyard stores dead letters, once per sink and event.
type Graveyard interface {
	Bury(ctx context.Context, d events.DeadLetter) error
}

// Leases gives ownership: owned.Err() is nil while it surely lasts. leave is called
// once when another process should have it; it is owned until it is released.
type Leases interface {
	Acquire(ctx context.Context, name string, leave func()) (owned context.Context, release func(), err error)
}

// Options are everything a Loop needs. Zero values are documented where they are allowed.
type Options struct {
	Name      string
	Sink      sinks.Sink
	Source    Source
	Standings Standings
	Graveyard Graveyard
	Leases    Leases
	Audit     func(events.Delivery)   // must not block; nil: no record
	Silences  func() []events.Silence // those in force; must not block; nil: none
	Notify    func(events.Notice)     // sink paused or resumed; must not block; nil: logged only
	// Latest gives the newest event of a purchase at a connection, with its stream
	// sequence. A NewestOnly sink asks it before each send; nil: it knows of what is
	// in hand only.
	Latest func(ctx context.Context, connection, purchaseID string) (*events.Event, uint64, error)
	// Changed tells whether the sink's secrets are others than when it was last asked.
	// It is asked every few seconds while the sink is paused, and true ends the pause;
	// nil: only Resume and a test do.
	Changed func(ctx context.Context) bool
	// Serve runs while the loop owns its sink: who answers wishes listens there and
	// calls Do. It returns soon after ctx has ended; nil: nobody asks.
	Serve    func(ctx context.Context, l *Loop)
	Set      *route.Set
	Personal []string // personal fields that this sink may have

	Limit       time.Duration   // of one try, which may take an eighth more; zero: 2 min, for sinks with shorter limits of their own
	Concurrency int             // sends at once; zero: 1
	MaxRate     float64         // sends per second; zero: no limit
	Pace        *Pace           // shared with the loops of other sinks; nil: one of its own, by MaxRate
	Schedule    []time.Duration // waits between the tries of a message; nil: DefaultSchedule
	Jitter      float64         // part of a wait by which it is spread to either side
	// NewestOnly: of a purchase only the newest event is told; for people, not machines.
	NewestOnly    bool
	StreamCreated func(ctx context.Context) (time.Time, error) // when the stream was made, in whose sequence standings count
	Grace         time.Duration                                // how long sends under way may take when stopped
	Tracer        trace.Tracer                                 // nil: nothing is traced
	Log           *slog.Logger                                 // nil: discarded
	Metrics       prometheus.Registerer                        // nil: not registered
	Rand          func() float64                               // in [0, 1); nil: math/rand/v2
}

// DefaultSchedule is the waits between the tries of one message: eight tries
// over about eight hours.
func DefaultSchedule() []time.Duration {
	return []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute,
		30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	}
}

// State is how a loop is doing.
type State string

// The states.
const (
	StateWaiting State = "waiting" // for the lease, or for the stream
	StateRunning State = "running"
	StateDown    State = "down"   // the receiver cannot be reached; probing
	StatePaused  State = "paused" // credentials are refused
	StateGone    State = "gone"   // the receiver is gone for good
	StateStopped State = "stopped"
)

// Status is a picture of a loop for operators.
type Status struct {
	Name        string    `json:"name"`
	State       State     `json:"state"`
	Since       time.Time `json:"since"`               // when the state began
	Failure     string    `json:"failure,omitempty"`   // the newest failure, masked
	NextProbe   time.Time `json:"next_probe,omitzero"` // while down
	LastSuccess time.Time `json:"last_success,omitzero"`
	InHand      int       `json:"in_hand"`               // messages taken and not settled
	Sending     int       `json:"sending"`               // tries under way
	Waiting     int       `json:"waiting"`               // alarms with a moment to come
	StoreError  string    `json:"store_error,omitempty"` // standings cannot be read or written
}

// Loop delivers to one sink.
type Loop struct {
	o       Options
	metrics *metrics
	breaker *breaker
	resume  chan struct{}
	asks    chan *ask

	mu     sync.Mutex
	status Status
}

// New checks the options and builds a loop that does nothing yet.
func New(o Options) (*Loop, error) {
	switch {
	case o.Name == "":
		return nil, errors.New("build delivery loop: no name")
	case o.Sink == nil || o.Source == nil || o.Standings == nil || o.Graveyard == nil || o.Leases == nil:
		return nil, errors.New("build delivery loop: sink, source, standings, graveyard and leases are needed")
	case o.Set == nil || o.StreamCreated == nil:
		return nil, errors.New("build delivery loop: subscriptions and the stream's age are needed")
	}
	o.Concurrency = max(o.Concurrency, 1)
	if o.Limit <= 0 {
		o.Limit = longestSend
	}
	if o.Pace == nil {
		o.Pace = NewPace(o.MaxRate)
	}
	if o.Schedule == nil {
		o.Schedule = DefaultSchedule()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = o.Log.With("sink", o.Name)
	if o.Audit == nil {
		o.Audit = func(events.Delivery) {}
	}
	m, err := newMetrics(o.Metrics, o.Name)
	if err != nil {
		return nil, err
	}
	return &Loop{
		o: o, metrics: m, breaker: newBreaker(), resume: make(chan struct{}, 1), asks: make(chan *ask),
		status: Status{Name: o.Name, State: StateWaiting, Since: time.Now()},
	}, nil
}

// Status is how the loop is doing now.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Resume ends a pause: the sink's secret or configuration has changed. It does
// nothing to a loop that is not paused.
func (l *Loop) Resume() {
	select {
	case l.resume <- struct{}{}:
	default:
	}
}

// note changes the status.
func (l *Loop) note(change func(*Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.status.State
	change(&l.status)
	if l.status.State != before {
		l.status.Since = time.Now()
	}
}

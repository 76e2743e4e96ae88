package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
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

// rig is a real JetStream server with the real bus and the real state store.
type rig struct {
	t      *testing.T
	server *natstest.Server
	bus    *stream.Bus
	state  *dedupe.KV
	leases *leases
	last   map[string]uint64 // sequence of each purchase's subject
	newest uint64            // sequence of the newest event
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s := natstest.Start(t)
	r := newRigAt(t, s.URL())
	r.server = s
	return r
}

// newRigAt is a rig on a server that the test runs itself.
func newRigAt(t *testing.T, url string) *rig {
	t.Helper()
	bus, err := stream.Open(t.Context(), stream.Options{URL: url, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bus.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	state, err := dedupe.OpenKV(t.Context(), bus.JetStream(), dedupe.KVOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, bus: bus, state: state, leases: &leases{held: map[string]chan struct{}{}}, last: map[string]uint64{}}
}

// source is the bus's consumer as the loop wants it.
type source struct {
	*stream.Consumer
	bus *stream.Bus
}

func (s *source) Begin(ctx context.Context, at deliver.Start) error {
	return s.Consumer.Begin(ctx, stream.Start(at))
}

func (s *source) Next(ctx context.Context) (deliver.Message, error) {
	env, handle, err := s.Consumer.Next(ctx)
	if errors.Is(err, stream.ErrBeginAgain) {
		return deliver.Message{}, fmt.Errorf("%w: %w", deliver.ErrBeginAgain, err)
	}
	return deliver.Message{Envelope: env, Handle: handle}, err
}

func (s *source) Newest(ctx context.Context) iter.Seq2[events.Envelope, error] {
	return s.bus.Newest(ctx)
}

func (r *rig) options(name string, sink sinks.Sink) deliver.Options {
	set, err := route.Compile([]route.Spec{{Name: "all", Match: "true", Sinks: []string{name}}})
	if err != nil {
		r.t.Fatal(err)
	}
	// The sink is not new: everything from the start of the stream is for it.
	err = r.state.PutStandings(r.t.Context(), name, map[string]events.Standing{"_sink": {LastTime: time.Now()}})
	if err != nil {
		r.t.Fatal(err)
	}
	return deliver.Options{
		Name: name, Sink: sink, Source: &source{r.bus.Consumer(name), r.bus}, Standings: r.state, Graveyard: r.bus,
		Leases: r.leases, Audit: r.bus.Audit, Set: set, Concurrency: 8, Grace: 5 * time.Second,
		Schedule:      []time.Duration{300 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond},
		StreamCreated: r.bus.StreamID,
	}
}

// run starts a loop; stop ends it and waits.
func (r *rig) run(o deliver.Options) (stop func()) {
	r.t.Helper()
	l, err := deliver.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(stop)
	return stop
}

func purchaseID(n int) string { return fmt.Sprintf("pur_%032x", n) }

func (r *rig) publish(n int, revision int64) string {
	r.t.Helper()
	id := purchaseID(n)
	e := events.Event{
		ID: events.EventID(id, events.Position{Revision: revision}), Source: "/connections/host-a", Type: events.TypeChanged, Subject: id,
		Time: time.Now().UTC(), Purchase: &events.Purchase{
			Connection: "host-a", Situation: events.SituationWorking, State: events.StateProcessing, ChainRoot: id,
			Reading: events.ReadingInfo{Revision: revision, Cause: events.CauseRevision, Changed: []string{}},
		},
	}
	eventually(r.t, e.ID+" is stored", func() bool { // once: the sequence that it expects sees to that
		seq, err := r.bus.Publish(r.t.Context(), e, r.last[id])
		if err == nil {
			r.last[id], r.newest = seq, seq
		}
		return err == nil
	})
	return e.ID
}

// settled waits until the sink's consumer is done with all that was published.
func (r *rig) settled(name string) {
	r.t.Helper()
	c := r.bus.Consumer(name)
	eventually(r.t, name+" has settled everything", func() bool {
		floor, err := c.Floor(r.t.Context())
		return err == nil && floor >= r.newest
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(60*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

// receiver accepts what its answer lets it, and remembers.
type receiver struct {
	mu     sync.Mutex
	answer func(n sinks.Notification) error
	after  func(n sinks.Notification)
	takes  time.Duration
	tries  []string
	got    []string
}

func (f *receiver) Send(ctx context.Context, n sinks.Notification) (sinks.Receipt, error) {
	f.mu.Lock()
	f.tries = append(f.tries, n.Event.ID)
	answer, after, takes := f.answer, f.after, f.takes
	f.mu.Unlock()
	if takes > 0 {
		select {
		case <-ctx.Done():
			return sinks.Receipt{}, &sinks.Failure{Verdict: sinks.Temporary, Reason: sinks.ReasonTimeout, Err: ctx.Err()}
		case <-time.After(takes):
		}
	}
	if answer != nil {
		if err := answer(n); err != nil {
			return sinks.Receipt{}, err
		}
	}
	f.mu.Lock()
	f.got = append(f.got, n.Event.ID)
	f.mu.Unlock()
	if after != nil {
		after(n)
	}
	return sinks.Receipt{}, nil
}

func (f *receiver) accepted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

func (f *receiver) tried() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tries)
}

func (f *receiver) counts() map[string]int {
	m := map[string]int{}
	for _, id := range f.accepted() {
		m[id]++
	}
	return m
}

var errServer = &sinks.Failure{Verdict: sinks.Temporary, Reason: sinks.ReasonServer, Status: 500}

// leases gives each name to one owner at a time; lose takes all away at once.
type leases struct {
	mu     sync.Mutex
	held   map[string]chan struct{}
	cancel []context.CancelFunc
}

func (l *leases) Acquire(ctx context.Context, name string, _ func()) (context.Context, func(), error) {
	for {
		l.mu.Lock()
		free := l.held[name]
		if free == nil {
			owned, cancel := context.WithCancel(context.WithoutCancel(ctx))
			free = make(chan struct{})
			l.held[name], l.cancel = free, append(l.cancel, cancel)
			l.mu.Unlock()
			return owned, sync.OnceFunc(func() {
				cancel()
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, name)
				close(free)
			}), nil
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-free:
		}
	}
}

func (l *leases) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cancel := range l.cancel {
		cancel()
	}
	l.cancel = nil
}

// inOrder checks that each purchase's revisions rise; repeats of the newest one
// are counted.
func inOrder(t *testing.T, ids []string) (repeats int) {
	t.Helper()
	last := map[string]string{}
	for _, id := range ids {
		p, revision := id[:36], id[len("pur_")+32:]
		switch {
		case len(revision) < len(last[p]) || len(revision) == len(last[p]) && revision < last[p]:
			t.Errorf("%s accepted after %s%s", id, p, last[p])
		case revision == last[p]:
			repeats++
		}
		last[p] = revision
	}
	return repeats
}

package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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
	bus, err := stream.Open(t.Context(), stream.Options{URL: s.URL(), MaxBytes: 64 << 20})
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
	return &rig{t: t, server: s, bus: bus, state: state, leases: &leases{held: map[string]chan struct{}{}}, last: map[string]uint64{}}
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
	seq, err := r.bus.Publish(r.t.Context(), e, r.last[id])
	if err != nil {
		r.t.Fatal(err)
	}
	r.last[id], r.newest = seq, seq
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

// leases gives each name to one owner at a time; lose takes it away at once.
type leases struct {
	mu     sync.Mutex
	held   map[string]chan struct{}
	cancel context.CancelFunc
}

func (l *leases) Acquire(ctx context.Context, name string) (context.Context, func(), error) {
	for {
		l.mu.Lock()
		free := l.held[name]
		if free == nil {
			owned, cancel := context.WithCancel(context.WithoutCancel(ctx))
			free = make(chan struct{})
			l.held[name], l.cancel = free, cancel
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
	l.cancel()
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

func TestJetStream_EverythingInOrder(t *testing.T) {
	r := newRig(t)
	sink := &receiver{}
	r.run(r.options("orders", sink))
	for revision := range int64(20) {
		for p := range 10 {
			r.publish(p, revision)
		}
	}
	r.settled("orders")
	if got := sink.accepted(); len(got) != 200 || inOrder(t, got) != 0 {
		t.Errorf("%d accepted", len(got))
	}
}

func TestJetStream_KilledBetweenSendAndStanding(t *testing.T) {
	r := newRig(t)
	victim := events.EventID(purchaseID(3), events.Position{Revision: 2})
	kill := sync.OnceFunc(r.leases.lose)
	sink := &receiver{after: func(n sinks.Notification) {
		if n.Event.ID == victim {
			kill()
		}
	}}
	for revision := range int64(5) {
		for p := range 8 {
			r.publish(p, revision)
		}
	}
	r.run(r.options("orders", sink))
	r.settled("orders")
	counts := sink.counts()
	if len(counts) != 40 || counts[victim] != 2 {
		t.Errorf("%d accepted, the one under way %d times", len(counts), counts[victim])
	}
	if repeats := inOrder(t, sink.accepted()); repeats > 8 { // as many as can be under way
		t.Errorf("%d repeats", repeats)
	}
}

// killingStore dies right after a write.
type killingStore struct {
	*dedupe.KV
	kill func()
}

func (k *killingStore) PutStandings(ctx context.Context, sink string, m map[string]events.Standing) error {
	err := k.KV.PutStandings(ctx, sink, m)
	if s, ok := m[purchaseID(0)]; ok && s.Settled > 0 {
		k.kill()
	}
	return err
}

func TestJetStream_KilledBetweenStandingAndAck(t *testing.T) {
	r := newRig(t)
	sink := &receiver{}
	for revision := range int64(5) {
		r.publish(0, revision)
	}
	o := r.options("orders", sink)
	o.Standings = &killingStore{r.state, sync.OnceFunc(r.leases.lose)}
	r.run(o)
	r.settled("orders")
	if counts := sink.counts(); len(counts) != 5 || len(sink.accepted()) != 5 {
		t.Errorf("accepted %v", counts)
	}
}

func TestB28_JetStreamTwoReplicas(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	fails := 2
	second := events.EventID(purchaseID(1), events.Position{Revision: 2})
	sink := &receiver{answer: func(n sinks.Notification) error {
		mu.Lock()
		defer mu.Unlock()
		if n.Event.ID == second && fails > 0 {
			fails--
			return errServer
		}
		return nil
	}}
	stop := r.run(r.options("orders", sink))
	r.run(r.options("orders", sink))
	r.publish(1, 2)
	eventually(t, "the first try", func() bool { return sink.tried() > 0 })
	r.publish(1, 3)
	r.publish(1, 4)
	other := r.publish(2, 1)
	eventually(t, "the other purchase", func() bool { return slices.Contains(sink.accepted(), other) })
	if got := sink.accepted(); len(got) != 1 {
		t.Errorf("accepted %v before the older one", got)
	}
	stop() // the second replica takes over
	r.settled("orders")
	inOrder(t, sink.accepted())
	if got := sink.accepted(); !strings.HasSuffix(got[len(got)-1], "-4-0") || len(got) != 4 {
		t.Errorf("accepted %v", got)
	}
}

func TestB20_JetStreamTriesAcrossRestarts(t *testing.T) {
	r := newRig(t)
	sink := &receiver{answer: func(sinks.Notification) error { return errServer }}
	id := r.publish(1, 1)
	stop := r.run(r.options("orders", sink))
	eventually(t, "two tries", func() bool { return sink.tried() >= 2 })
	stop()
	r.run(r.options("orders", sink))
	r.settled("orders")
	dead, err := r.bus.DeadOne(t.Context(), id)
	if err != nil || len(dead) != 1 {
		t.Fatalf("dead %+v, %v", dead, err)
	}
	if n := sink.tried(); n < 5 || n > 6 || dead[0].Attempts != n && dead[0].Attempts != n-1 {
		t.Errorf("%d tries, letter says %d", n, dead[0].Attempts)
	}
}

func TestB21_OnlyTheFailingSinkIsRetried(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var mu sync.Mutex
			failing := true
			hook := &receiver{answer: func(sinks.Notification) error {
				mu.Lock()
				defer mu.Unlock()
				if failing {
					return errServer
				}
				return nil
			}}
			slack, email := &receiver{}, &receiver{}
			start := func() []func() {
				return []func(){r.run(r.options("slack", slack)), r.run(r.options("email", email)), r.run(r.options("hook", hook))}
			}
			stops := start()
			r.publish(1, 1)
			eventually(t, "some failures", func() bool { return hook.tried() >= 2 })
			r.settled("slack")
			r.settled("email")
			if restart {
				for _, stop := range stops {
					stop()
				}
				start()
				eventually(t, "another failure", func() bool { return hook.tried() >= 3 })
			}
			mu.Lock()
			failing = false
			mu.Unlock()
			r.settled("hook")
			if len(slack.accepted()) != 1 || len(email.accepted()) != 1 || len(hook.accepted()) != 1 || slack.tried() != 1 {
				t.Errorf("accepted %v %v %v", slack.accepted(), email.accepted(), hook.accepted())
			}
		})
	}
}

func TestB42_JetStreamShutdown(t *testing.T) {
	r := newRig(t)
	sink := &receiver{takes: 500 * time.Millisecond}
	var first string
	for p := range 50 {
		if id := r.publish(p, 1); p == 0 {
			first = id
		}
	}
	o := r.options("orders", sink)
	o.Concurrency = 1
	stop := r.run(o)
	eventually(t, "a send under way", func() bool { return sink.tried() == 1 })
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("stopped after %s", took)
	}
	if got := sink.accepted(); !slices.Equal(got, []string{first}) {
		t.Errorf("accepted %v", got)
	}
	sink.mu.Lock()
	sink.takes = 0
	sink.mu.Unlock()
	r.run(r.options("orders", sink))
	r.settled("orders")
	for id, n := range sink.counts() {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
	if len(sink.counts()) != 50 {
		t.Errorf("%d accepted", len(sink.counts()))
	}
}

func TestB25_JetStreamConsumerDeleted(t *testing.T) {
	r := newRig(t)
	sink := &receiver{}
	r.run(r.options("orders", sink))
	r.publish(0, 1)
	r.settled("orders")
	drop := func() {
		t.Helper()
		if err := r.bus.JetStream().DeleteConsumer(t.Context(), events.StreamPurchases, "sink_orders"); err != nil &&
			!errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatal(err)
		}
	}
	t.Run("while idle", func(t *testing.T) {
		drop()
		id := r.publish(0, 2)
		eventually(t, "the next event", func() bool { return slices.Contains(sink.accepted(), id) })
	})
	t.Run("with messages in hand", func(t *testing.T) {
		sink.mu.Lock()
		sink.takes = 300 * time.Millisecond
		sink.mu.Unlock()
		for p := range 10 {
			r.publish(p+10, 1)
		}
		before := sink.tried()
		eventually(t, "a send under way", func() bool { return sink.tried() > before })
		drop()
		eventually(t, "all of them", func() bool { return len(sink.counts()) == 12 })
		r.settled("orders")
	})
	for id, n := range sink.counts() {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
}

func TestB25_JetStreamStoreWiped(t *testing.T) {
	r := newRig(t)
	sink := &receiver{}
	r.run(r.options("orders", sink))
	r.publish(0, 1)
	r.settled("orders")
	r.server.Stop()
	r.server.Wipe()
	r.server.Restart()
	clear(r.last)
	eventually(t, "the streams again", func() bool { return r.bus.Healthy() == nil })
	id := r.publish(0, 2)
	eventually(t, "the new event", func() bool { return slices.Contains(sink.accepted(), id) })
	for id, n := range sink.counts() {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
}

func TestB24_JetStreamServerRestarts(t *testing.T) {
	r := newRig(t)
	sink := &receiver{takes: 20 * time.Millisecond}
	r.run(r.options("orders", sink))
	for p := range 20 {
		r.publish(p, 1)
	}
	eventually(t, "the first", func() bool { return sink.tried() > 0 })
	r.server.Restart()
	eventually(t, "all of them", func() bool { return len(sink.counts()) == 20 })
	eventually(t, "the streams again", func() bool { return r.bus.Healthy() == nil })
	r.settled("orders")
	for id, n := range sink.counts() {
		if n != 1 {
			t.Errorf("%s accepted %d times", id, n)
		}
	}
}

// A day's backlog through one sink that accepts at once.
func BenchmarkLoop(b *testing.B) {
	s := natstest.Start(b)
	bus, err := stream.Open(b.Context(), stream.Options{URL: s.URL(), MaxBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = bus.Close(context.Background()) }()
	state, err := dedupe.OpenKV(b.Context(), bus.JetStream(), dedupe.KVOptions{})
	if err != nil {
		b.Fatal(err)
	}
	sample := events.Samples()[0]
	for i := range b.N {
		e, p := sample, *sample.Purchase
		e.Subject = purchaseID(i)
		e.ID, p.ChainRoot, e.Purchase = e.Subject+"-0-1-0", e.Subject, &p
		if _, err := bus.Publish(b.Context(), e, 0); err != nil {
			b.Fatal(err)
		}
	}
	if err := state.PutStandings(b.Context(), "orders", map[string]events.Standing{"_sink": {LastTime: time.Now()}}); err != nil {
		b.Fatal(err)
	}
	set, err := route.Compile([]route.Spec{{Name: "all", Match: "true", Sinks: []string{"orders"}}})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	count := &counter{want: b.N, done: done}
	c := bus.Consumer("orders")
	c.InHand = 64
	l, err := deliver.New(deliver.Options{
		Name: "orders", Sink: count, Source: &source{c, bus}, Standings: state, Graveyard: bus, Leases: dedupe.Sole{},
		Set: set, Concurrency: 16, StreamCreated: bus.StreamID, Grace: time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	b.ResetTimer()
	go func() { defer close(ended); _ = l.Run(ctx) }()
	<-done
	b.StopTimer()
	cancel()
	<-ended
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

type counter struct {
	mu        sync.Mutex
	got, want int
	done      chan struct{}
}

func (c *counter) Send(context.Context, sinks.Notification) (sinks.Receipt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.got++; c.got == c.want {
		close(c.done)
	}
	return sinks.Receipt{}, nil
}

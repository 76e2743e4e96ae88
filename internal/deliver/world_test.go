package deliver

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/sinks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a stream, a store, a graveyard and a receiver, all in memory, that
// outlive the loops that use them.
type world struct {
	t       testing.TB
	o       Options
	stream  *fakeStream
	store   *fakeStore
	graves  *fakeGraveyard
	sink    *fakeSink
	leases  *fakeLeases
	metrics *prometheus.Registry
	mu      sync.Mutex
	audits  []events.Delivery
	notices []events.Notice
}

func newWorld(t testing.TB, specs ...route.Spec) *world {
	if len(specs) == 0 {
		specs = []route.Spec{{Name: "all", Match: "true"}}
	}
	for i := range specs {
		specs[i].Sinks = []string{"ops"}
	}
	set, err := route.Compile(specs)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, stream: newFakeStream(), store: &fakeStore{data: map[string][]byte{}}, graves: &fakeGraveyard{},
		sink: &fakeSink{}, leases: &fakeLeases{}, metrics: prometheus.NewRegistry(),
	}
	w.store.data["ops/"+sinkKey] = mustJSON(events.Standing{Stream: w.stream.created, LastTime: time.Now()})
	w.o = Options{
		Name: "ops", Sink: w.sink, Source: w.stream, Standings: w.store, Graveyard: w.graves, Leases: w.leases,
		Set: set, Concurrency: 4, Schedule: []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute},
		StreamCreated: func(context.Context) (time.Time, error) { return w.stream.created, nil },
		Grace:         25 * time.Second, Metrics: w.metrics,
		Audit: func(d events.Delivery) { w.mu.Lock(); defer w.mu.Unlock(); w.audits = append(w.audits, d) },
		Notify: func(n events.Notice) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notices = append(w.notices, n)
		},
	}
	return w
}

// pass lets the bubble's time pass and everything in it come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// run starts a loop over the world; stop ends it and waits.
func (w *world) run() (l *Loop, stop func()) {
	w.t.Helper()
	l, err := New(w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.Run(ctx); err != nil {
			w.t.Errorf("run: %v", err)
		}
	}()
	return l, func() { cancel(); <-done }
}

// kill takes the lease away at once: from that moment the loop sends, writes and
// settles nothing, as if its process had died.
func (w *world) kill() { w.leases.lose() }

func (w *world) outcomes(id string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, d := range w.audits {
		if d.EventID == id {
			out = append(out, d.Outcome)
		}
	}
	return out
}

// metric is the sum of a family's samples.
func (w *world) metric(name string) float64 {
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// event is an event of a purchase.
func event(purchase string, revision int64, s events.Situation) events.Event {
	at := events.Position{Revision: revision}
	e := events.Event{
		ID: events.EventID(purchase, at), Source: "/connections/host-a", Type: events.TypeChanged, Subject: purchase,
		Time: time.Now().UTC(), Purchase: &events.Purchase{
			Connection: "host-a", Situation: s, State: events.StateProcessing, ChainRoot: purchase,
			Reading: events.ReadingInfo{Revision: revision, Cause: events.CauseRevision, Changed: []string{}},
		},
	}
	switch s {
	case events.SituationConfirming, events.SituationNeedsSupport:
		e.Purchase.Unsettled, e.Purchase.State = true, events.StateVerifying
	case events.SituationDone:
		e.Purchase.Terminal, e.Purchase.State = true, events.StateCompleted
	case events.SituationNeedsDetails, events.SituationNeedsAnswer, events.SituationWaitingForUser, events.SituationStopped,
		events.SituationWorking, events.SituationReady, events.SituationUnknown:
	}
	return e
}

func notice(text string) events.Event {
	return events.Event{
		ID: "host-a-parked-" + text, Source: "/connections/host-a", Type: events.TypeNotice, Time: time.Now().UTC(),
		Notice: &events.Notice{Connection: "host-a", Kind: events.NoticeParked, Text: text},
	}
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// fakeStore keeps standings as a store does, in bytes.
type fakeStore struct {
	mu            sync.Mutex
	data          map[string][]byte
	readErr       error
	writeErr      error
	reads, writes int
	beforeWrite   func(map[string]events.Standing)
}

func (f *fakeStore) Standings(_ context.Context, sink string, keys []string) (map[string]events.Standing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.readErr != nil {
		return nil, f.readErr
	}
	out := map[string]events.Standing{}
	for _, k := range keys {
		if data, ok := f.data[sink+"/"+k]; ok {
			var s events.Standing
			if err := json.Unmarshal(data, &s); err != nil {
				return nil, err
			}
			out[k] = s
		}
	}
	return out, nil
}

func (f *fakeStore) PutStandings(_ context.Context, sink string, m map[string]events.Standing) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	if f.beforeWrite != nil {
		f.beforeWrite(m)
	}
	if f.writeErr != nil {
		return f.writeErr
	}
	for k, s := range m {
		f.data[sink+"/"+k] = mustJSON(s)
	}
	return nil
}

func (f *fakeStore) trouble(read, write error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readErr, f.writeErr = read, write
}

func (f *fakeStore) get(key string) events.Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	var s events.Standing
	_ = json.Unmarshal(f.data["ops/"+key], &s) // a missing one is empty
	return s
}

// fakeGraveyard stores dead letters once.
type fakeGraveyard struct {
	mu   sync.Mutex
	dead []events.DeadLetter
	err  error
}

func (f *fakeGraveyard) Bury(_ context.Context, d events.DeadLetter) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if !slices.ContainsFunc(f.dead, func(o events.DeadLetter) bool { return o.EventID == d.EventID }) {
		f.dead = append(f.dead, d)
	}
	return nil
}

func (f *fakeGraveyard) trouble(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeGraveyard) all() []events.DeadLetter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dead)
}

// fakeLeases gives one owner at a time.
type fakeLeases struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	leave  func()
	names  []string
	err    error
}

func (f *fakeLeases) Acquire(ctx context.Context, name string, leave func()) (context.Context, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, nil, f.err
	}
	owned, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel, f.leave, f.names = cancel, leave, append(f.names, name)
	return owned, cancel, nil
}

// handOver asks for the lease back.
func (f *fakeLeases) handOver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave()
}

// asked is how often the lease was asked for.
func (f *fakeLeases) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.names)
}

func (f *fakeLeases) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancel != nil {
		f.cancel()
	}
}

// fakeSink answers as it is told and remembers what it accepted.
type fakeSink struct {
	mu       sync.Mutex
	answer   func(n sinks.Notification) error // nil: accept
	takes    time.Duration
	tries    []try
	accepted []try
	running  int
	most     int
	entered  chan string // told of every try, where there is one
	after    func(n sinks.Notification)
}

type try struct {
	n  sinks.Notification
	at time.Time
}

func (f *fakeSink) Send(ctx context.Context, n sinks.Notification) (sinks.Receipt, error) {
	f.mu.Lock()
	f.running++
	f.most = max(f.most, f.running)
	f.tries = append(f.tries, try{n, time.Now()})
	answer, takes, after, entered := f.answer, f.takes, f.after, f.entered
	f.mu.Unlock()
	if entered != nil {
		entered <- n.Event.ID
	}
	defer func() { f.mu.Lock(); f.running--; f.mu.Unlock() }()
	if takes > 0 {
		t := time.NewTimer(takes)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return sinks.Receipt{}, &sinks.Failure{Verdict: sinks.Temporary, Reason: sinks.ReasonTimeout, Err: ctx.Err()}
		case <-t.C:
		}
	}
	if answer != nil {
		if err := answer(n); err != nil {
			return sinks.Receipt{}, err
		}
	}
	f.mu.Lock()
	f.accepted = append(f.accepted, try{n, time.Now()})
	f.mu.Unlock()
	if after != nil {
		after(n)
	}
	return sinks.Receipt{Thread: map[string]string{"ts": n.Event.ID}}, nil
}

func (f *fakeSink) answers(answer func(sinks.Notification) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func ids(tries []try) []string {
	var out []string
	for _, t := range tries {
		out = append(out, t.n.Event.ID)
	}
	return out
}

func (f *fakeSink) got() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ids(f.accepted)
}

func (f *fakeSink) tried() []try {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.tries)
}

func (f *fakeSink) kinds() []sinks.Kind {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []sinks.Kind
	for _, t := range f.accepted {
		out = append(out, t.n.Kind)
	}
	return out
}

var (
	errServer  = &sinks.Failure{Verdict: sinks.Temporary, Reason: sinks.ReasonServer, Status: 500}
	errRefused = &sinks.Failure{Verdict: sinks.Refused, Reason: sinks.ReasonStatus, Status: 404}
	errDial    = &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonDial}
)

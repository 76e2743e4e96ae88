// Package watch decides who watches what, when to read, and when to stop, and turns what Envoy shows into events.
//
// Reading is not harmless: the reply to get_purchase_status about a ready purchase releases payment details, and can
// start a gift-card checkout. So each request is decided anew by one pure function, plan, from what is known at that
// moment: a table of state and route says whether a purchase may be held, read, or only looked at by get_account, which
// shows it without payment details. Nothing else, neither next nor a retry nor a registration, can make a request that
// the table does not allow.
//
// # The loop
//
// A Watcher keeps one keeper for each connection. The keeper waits for the connection's lease; while it owns it, a
// term runs: one goroutine that owns all state and does nothing slow. Calls, publishes and store accesses are jobs that
// end with an effect, a function that the loop runs. At most one status request of a purchase is under way.
//
// # The way of a reply
//
//	project     the reply as a snapshot, field by field from the allow-list
//	take        is it ours, is its revision not below what was said?
//	events      Judge, ReadingOf, Follow, New: is it news, and in which words?
//	publish     until it is stored; meanwhile the purchase is not read again
//	cursor      after the acknowledgement, never before
//	plan        what next, and when
//
// # Budget
//
// All calls with one token share a budget (budget.go). A call goes out in the moment in which the budget gives it, and
// what it is gets decided in that moment, so that no permission grows old in a queue.
package watch

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Watcher watches connections. Its methods may be called at any time, from any goroutine.
type Watcher struct {
	policy    Policy
	publisher Publisher
	cursors   Cursors
	sets      Sets
	leases    Leases
	desk      Desk
	tracer    trace.Tracer
	log       *slog.Logger
	metrics   *metrics

	budgets budgets
	auth    authGate
	halted  atomic.Bool // Envoy refuses this version of the client

	mu      sync.Mutex
	wanted  map[string]Connection
	keepers map[string]*keeper
	changed chan struct{} // capacity 1
}

// New checks the options and makes a Watcher. Nothing runs before Run.
func New(o Options) (*Watcher, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		policy: o.Policy.withDefaults(), publisher: o.Publisher, cursors: o.Cursors, sets: o.Sets, leases: o.Leases,
		desk:   o.Desk,
		tracer: o.Tracer, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), metrics: m,
		wanted: map[string]Connection{}, keepers: map[string]*keeper{}, changed: make(chan struct{}, 1),
	}
	w.budgets = budgets{perMinute: w.policy.RequestsPerMinute, byKey: map[string]*budget{}}
	for _, c := range o.Connections {
		w.wanted[c.Name] = c
	}
	return w, nil
}

// Run watches until ctx ends and everything is stopped. It may be run once at a time.
func (w *Watcher) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer w.forget()
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		w.reconcile(ctx, &running)
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		}
	}
}

// forget drops the keepers after all have ended, so that Run can be called again.
func (w *Watcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keepers = map[string]*keeper{}
}

// Update replaces the connections, by name. One whose Reader and BudgetKey are the same as before goes on undisturbed.
// Connections that are not usable are left out and named in the log; those already running stay.
func (w *Watcher) Update(conns []Connection) {
	if err := checkConnections(conns); err != nil {
		w.log.Error("refuse connections", "error", err)
		return
	}
	w.mu.Lock()
	w.wanted = map[string]Connection{}
	for _, c := range conns {
		w.wanted[c.Name] = c
	}
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// reconcile stops the keepers that nobody wants and starts those that are missing. Stopping waits, so that a changed
// connection is never watched twice.
func (w *Watcher) reconcile(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	var gone []*keeper
	for name, k := range w.keepers {
		if c, ok := w.wanted[name]; !ok || !c.same(k.conn) {
			gone = append(gone, k)
			delete(w.keepers, name)
		}
	}
	w.mu.Unlock()
	for _, k := range gone {
		k.cancel()
	}
	for _, k := range gone {
		<-k.done
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	users := map[string]int{}
	defer func() { w.budgets.count(users) }()
	for name, c := range w.wanted {
		users[c.budgetKey()]++
		if _, ok := w.keepers[name]; ok || ctx.Err() != nil {
			continue
		}
		k := newKeeper(w, c)
		var own context.Context
		own, k.cancel = context.WithCancel(ctx)
		w.keepers[name] = k
		running.Go(func() { k.run(own) })
	}
}

// keeper gives the keeper of a connection.
func (w *Watcher) keeper(name string) (*keeper, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.keepers[name]
	return k, ok
}

func (w *Watcher) allKeepers() []*keeper {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.keepers), func(a, b *keeper) int { return cmp.Compare(a.conn.Name, b.conn.Name) })
}

// halt parks all connections, or lets them go on.
func (w *Watcher) halt(yes bool) {
	if w.halted.Swap(yes) == yes {
		return
	}
	for _, k := range w.allKeepers() {
		k.nudge()
	}
}

// ConnectionStatus is how one connection stands, for console and health.
type ConnectionStatus struct {
	Name         string     `json:"name"`
	Owner        bool       `json:"owner"`                   // this process watches it
	Parked       ParkReason `json:"parked,omitempty"`        // why no calls are made; empty: they are
	ParkedSince  time.Time  `json:"parked_since,omitzero"`   //
	Blind        bool       `json:"blind"`                   // nothing has been seen for too long
	BlindWhy     string     `json:"blind_why,omitempty"`     // one of a closed set of sentences
	Calls        int        `json:"calls"`                   // of the token, in the last minute
	Share        int        `json:"share"`                   // calls a minute that are allowed now
	ClosedUntil  time.Time  `json:"closed_until,omitzero"`   // Envoy asked to wait so long
	Open         int        `json:"open"`                    // purchases that are followed
	Unsettled    int        `json:"unsettled"`               // of them, with money that hangs
	Holds        int        `json:"holds"`                   // held reads that are open
	Registered   int        `json:"registered"`              // references that hosts registered
	Unpublished  int        `json:"unpublished"`             // events that are not stored yet
	LastReply    time.Time  `json:"last_reply,omitzero"`     // newest valid reply of any tool
	LastPublish  time.Time  `json:"last_publish,omitzero"`   // newest event stored
	StoreTrouble bool       `json:"store_trouble,omitempty"` // the state store does not take what is written
}

// Status gives all connections, by name.
func (w *Watcher) Status() []ConnectionStatus {
	keepers := w.allKeepers()
	out := make([]ConnectionStatus, 0, len(keepers))
	now := time.Now()
	for _, k := range keepers {
		s := k.status()
		s.Calls, s.Share, s.ClosedUntil = k.budget.used(now)
		if !s.ClosedUntil.After(now) {
			s.ClosedUntil = time.Time{}
		}
		out = append(out, s)
	}
	return out
}

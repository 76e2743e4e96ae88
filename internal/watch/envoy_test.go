package watch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// asked is one call that the fake was given.
type asked struct {
	at   time.Time
	tool envoy.Tool
	req  envoy.StatusRequest
}

// far is a fake Envoy: one account, whose replies a test sets.
type far struct {
	mu      sync.Mutex
	byID    map[string]*envoy.Purchase
	next    map[string]envoy.Next
	active  string // id; empty: none
	unknown bool   // looks answer not known
	heldMny *envoy.HeldPurchases
	list    []envoy.ListItem
	agent   string
	changed chan struct{}
	calls   []asked

	// Faults: when they give an error the call fails with it.
	onStatus func(n int, r envoy.StatusRequest) error
	onLook   func(n int) error
	onList   func(n int) error
	// rewrite edits a copy of what a status read shows.
	rewrite func(*envoy.Status)
	early   time.Duration // holds end after so long; zero: as asked
	counts  map[envoy.Tool]int
	skew    time.Duration // Envoy's clock against ours
}

const me = "agent-of-mine"

func newFar() *far {
	f := &far{
		byID: map[string]*envoy.Purchase{}, next: map[string]envoy.Next{}, agent: me, changed: make(chan struct{}),
		counts: map[envoy.Tool]int{},
	}
	f.heldMny = f.nothingHeld()
	return f
}

func (f *far) nothingHeld() *envoy.HeldPurchases {
	no := false
	return &envoy.HeldPurchases{Available: true, Items: []envoy.HeldItem{}, Truncated: &no}
}

func pid(n int) string { return fmt.Sprintf("pur_%032x", n) }

func ptr[T any](v T) *T { return &v }

// put sets a purchase. Without an active one, an open purchase becomes it.
func (f *far) put(p envoy.Purchase) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.UpdatedAt = time.Now().Add(f.skew)
	if p.CreatedAt.IsZero() {
		p.CreatedAt = p.UpdatedAt
	}
	if p.Agent.AgentID == "" {
		p.Agent.AgentID = f.agent
	}
	p.Terminal = ended(events.State(p.State))
	f.byID[p.PurchaseID] = &p
	switch {
	case p.Terminal && f.active == p.PurchaseID:
		f.active = ""
	case !p.Terminal && f.active == "":
		f.active = p.PurchaseID
	}
	f.relist(p)
	f.wake()
}

func (f *far) relist(p envoy.Purchase) {
	item := envoy.ListItem{PurchaseID: p.PurchaseID, State: p.State, CheckoutBy: p.CheckoutBy, CreatedAt: p.CreatedAt}
	for i := range f.list {
		if f.list[i].PurchaseID == p.PurchaseID {
			f.list[i] = item
			return
		}
	}
	f.list = append(f.list, item)
}

func (f *far) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// edit changes a purchase and raises its revision.
func (f *far) edit(id string, change func(*envoy.Purchase)) {
	f.mu.Lock()
	p := *f.byID[id]
	f.mu.Unlock()
	p.Revision++
	change(&p)
	f.put(p)
}

func (f *far) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.wake()
}

func (f *far) meta() envoy.Meta {
	return envoy.Meta{RequestID: "req_1", TraceID: "trace_1", ServerTime: time.Now().Add(f.skew)}
}

func (f *far) count(tool envoy.Tool, r envoy.StatusRequest) int {
	f.counts[tool]++
	f.calls = append(f.calls, asked{at: time.Now(), tool: tool, req: r})
	return f.counts[tool]
}

func (f *far) Status(ctx context.Context, r envoy.StatusRequest) (*envoy.Status, error) {
	f.mu.Lock()
	n, fault := f.count(envoy.ToolStatus, r), f.onStatus
	f.mu.Unlock()
	if fault != nil {
		if err := fault(n, r); err != nil {
			return nil, err
		}
	}
	wait := r.Wait
	if f.early > 0 {
		wait = min(wait, f.early)
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		f.mu.Lock()
		p, changed := f.find(r.Purchase), f.changed
		if p == nil {
			f.mu.Unlock()
			return nil, &envoy.Error{Tool: envoy.ToolStatus, Code: envoy.CodeNotFound, Meta: f.meta()}
		}
		holds := r.AfterRevision != nil && p.Revision <= *r.AfterRevision && wait > 0
		if !holds {
			s := f.statusLocked(p)
			f.mu.Unlock()
			return s, nil
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over.C:
			wait = 0
		case <-changed:
		}
	}
}

func (f *far) find(reference string) *envoy.Purchase {
	for _, p := range f.byID {
		if p.PurchaseID == reference || p.IdempotencyKey == reference {
			return p
		}
	}
	return nil
}

func (f *far) statusLocked(p *envoy.Purchase) *envoy.Status {
	s := &envoy.Status{Meta: f.meta(), Purchase: *p, Next: f.next[p.PurchaseID]}
	if f.rewrite != nil {
		f.rewrite(s)
	}
	return s
}

func (f *far) Look(_ context.Context, withAgent bool) (*envoy.Look, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.count(envoy.ToolAccount, envoy.StatusRequest{})
	if f.onLook != nil {
		if err := f.onLook(n); err != nil {
			return nil, err
		}
	}
	l := &envoy.Look{Meta: f.meta(), Active: envoy.ActiveNone, Held: f.heldMny}
	if withAgent {
		l.AgentID = f.agent
	}
	switch {
	case f.unknown:
		l.Active = envoy.ActiveNotKnown
	case f.active != "":
		p := *f.byID[f.active]
		l.Active, l.Purchase = envoy.ActiveShown, &p
	}
	return l, nil
}

func (f *far) List(context.Context) (*envoy.List, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.count(envoy.ToolList, envoy.StatusRequest{})
	if f.onList != nil {
		if err := f.onList(n); err != nil {
			return nil, err
		}
	}
	return &envoy.List{Meta: f.meta(), Items: append([]envoy.ListItem(nil), f.list...)}, nil
}

// made are the calls so far of a tool, or of all.
func (f *far) made(tool envoy.Tool) []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []asked
	for _, a := range f.calls {
		if tool == "" || a.tool == tool {
			out = append(out, a)
		}
	}
	return out
}

// forgetCalls starts counting anew.
func (f *far) forgetCalls() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = nil
}

// bench is a watcher with its fakes, running in a bubble.
type bench struct {
	t      *testing.T
	store  *store
	leases *leases
	w      *Watcher
	stop   func()
}

// start runs a watcher over one connection called host-a.
func start(t *testing.T, f envoy.Reader, edit ...func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, store: newStore(), leases: newLeases()}
	b.restart(f, edit...)
	return b
}

// restart runs a new watcher over the same stores.
func (b *bench) restart(f envoy.Reader, edit ...func(*Options)) {
	b.t.Helper()
	o := Options{
		Connections: []Connection{{Name: "host-a", Reader: f}},
		Publisher:   b.store, Cursors: b.store, Sets: b.store, Leases: b.leases,
	}
	for _, e := range edit {
		e(&o)
	}
	w, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	b.w = w
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("run: %v", err)
		}
	})
}

// pass lets time go by.
func (b *bench) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// bubble runs a test in a bubble, whose time is ours.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// states gives the states of the stored events of a purchase, with their causes.
func (b *bench) states(id string) string {
	out := ""
	for _, e := range b.store.purchases(id) {
		if out != "" {
			out += " "
		}
		out += string(e.Purchase.State) + ":" + string(e.Purchase.Reading.Cause)
		if e.Type == events.TypeOverdue {
			out += ":overdue"
		}
	}
	return out
}

func (b *bench) wantStates(id, want string) {
	b.t.Helper()
	if got := b.states(id); got != want {
		b.t.Errorf("events of %s:\n got %s\nwant %s", id[len(id)-2:], got, want)
	}
}

// card is an open purchase on a one-time card.
func card(n int, state events.State) envoy.Purchase {
	p := envoy.Purchase{
		PurchaseID: pid(n), IdempotencyKey: fmt.Sprintf("key-of-the-agent-%d", n), Revision: 1, State: string(state),
		StatusText: "As it is.", Rail: ptr("otu_card"), CheckoutBy: ptr("agent"),
		Merchant: envoy.Merchant{Name: "Example Store", URL: "https://shop.example.test/a"},
		Amount:   envoy.Amount{Minor: 249900, Currency: "INR", Display: "₹2,499.00"},
	}
	p.Money.Status = "not_started"
	return p
}

// operated is one that Envoy checks out.
func operated(n int, state events.State) envoy.Purchase {
	p := card(n, state)
	p.Rail, p.CheckoutBy = ptr("operated_checkout"), ptr("envoy")
	return p
}

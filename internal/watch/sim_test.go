package watch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/secret"
)

// direct carries requests to a handler without a network, so that they work in a bubble.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.RemoteAddr = "127.0.0.1:1"
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	rec := httptest.NewRecorder()
	defer func() {
		switch cut := recover(); cut {
		case nil:
		case http.ErrAbortHandler:
			resp, err = nil, io.ErrUnexpectedEOF
		default:
			panic(cut)
		}
	}()
	d.handler.ServeHTTP(rec, r)
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return rec.Result(), nil
}

// showing is one reply that a watcher was given about a purchase.
type showing struct {
	id       string
	revision int64
	at       time.Time
}

// witness notes what a reader shows.
type witness struct {
	envoy.Reader
	name  string // of the connection
	token int    // which of the world's
	agent string // whose purchases count
	mu    sync.Mutex
	shown []showing
	asked []showing // status requests that name a purchase by its id; without a revision
	ready []showing // status replies that were ready
}

func (w *witness) note(p *envoy.Purchase) {
	if p != nil && p.Agent.AgentID == w.agent {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.shown = append(w.shown, showing{p.PurchaseID, p.Revision, time.Now()})
	}
}

func (w *witness) Status(ctx context.Context, r envoy.StatusRequest) (*envoy.Status, error) {
	w.mu.Lock()
	w.asked = append(w.asked, showing{id: r.Purchase, at: time.Now()})
	w.mu.Unlock()
	s, err := w.Reader.Status(ctx, r)
	if err == nil && ctx.Err() == nil {
		w.note(&s.Purchase)
		if s.Purchase.PurchaseID == r.Purchase && s.Purchase.State == "ready" {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ready = append(w.ready, showing{r.Purchase, s.Purchase.Revision, time.Now()})
		}
	}
	return s, err
}

func (w *witness) Look(ctx context.Context, withAgent bool) (*envoy.Look, error) {
	l, err := w.Reader.Look(ctx, withAgent)
	if err == nil && ctx.Err() == nil {
		w.note(l.Purchase)
	}
	return l, err
}

// world is a simulated Envoy with a watcher.
type world struct {
	*bench
	sim       *envoysim.Sim
	tokens    []string
	witnesses []*witness
	log       *buffer
	edit      []func(*Options)
	quit      func()
	breaks    []time.Time    // when the watcher was stopped
	away      [][2]time.Time // when the stores were away
}

// buffer is a log that a test can search.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func agentID(i int) string { return fmt.Sprintf("origin:https://host-%d.example.test", i) }

// newWorld starts a simulator and a watcher of one connection per token: host-0, host-1 and so on.
func newWorld(t *testing.T, o envoysim.Options, owners []string, edit ...func(*world, *Options)) *world {
	t.Helper()
	sim, err := envoysim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{sim: sim, log: &buffer{}}
	for _, e := range edit {
		w.edit = append(w.edit, func(o *Options) { e(w, o) })
	}
	for i, user := range owners {
		w.tokens = append(w.tokens, sim.AddToken(user, agentID(i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	w.quit = sync.OnceFunc(func() {
		w.stop()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.bench = &bench{t: t, store: newStore(), leases: newLeases()}
	w.again()
	return w
}

// again runs a new watcher over the same stores and world.
func (w *world) again() {
	edit := append([]func(*Options){func(o *Options) {
		o.Connections = nil
		o.Log = slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		for i, token := range w.tokens {
			name := fmt.Sprintf("host-%d", i)
			reader := &witness{name: name, token: i, agent: agentID(i), Reader: envoy.New(envoy.Options{
				BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: direct{w.sim.Handler()}},
				Token: func(context.Context) (secret.Value, error) { return secret.New(token), nil },
			})}
			w.witnesses = append(w.witnesses, reader)
			o.Connections = append(o.Connections, Connection{
				Name: name, Reader: reader, BudgetKey: fmt.Sprint("token-", i),
			})
		}
	}}, w.edit...)
	w.restart(nil, edit...)
}

// requests notes when a tool is asked for.
func (w *world) requests(tool string) func() []time.Time {
	var mu sync.Mutex
	var at []time.Time
	w.sim.Observe(func(r envoysim.Request) {
		if tool == "" || r.Tool == tool {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, r.At)
		}
	})
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return append([]time.Time(nil), at...)
	}
}

func (w *world) start(spec envoysim.Spec) string {
	w.t.Helper()
	id, err := w.sim.Start(w.tokens[0], spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) move(id string, state envoysim.State) {
	w.t.Helper()
	if err := w.sim.Transition(id, func(p *envoysim.Purchase) { p.State = state }); err != nil {
		w.t.Fatal(err)
	}
}

func TestB33_HoldsThatReturnAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, envoysim.Options{Seed: 1}, []string{"asha"})
		defer w.quit()
		w.pass(30 * time.Second)
		id := w.start(envoysim.Spec{Rail: envoysim.OperatedCheckout, State: envoysim.Processing})
		w.pass(2 * time.Minute)
		asked := w.requests("get_purchase_status")
		for _, f := range []envoysim.Fault{
			{Kind: envoysim.FaultImmediate}, {Kind: envoysim.FaultNoContent, Status: 204}, {Kind: envoysim.FaultNoContent, Status: 304},
		} {
			f.Tool = "get_purchase_status"
			before := len(asked())
			remove := w.sim.Inject(f)
			w.pass(time.Minute)
			if n := len(asked()) - before; n > 12 {
				t.Errorf("%s %d: %d requests in a minute", f.Kind, f.Status, n)
			}
			remove()
		}
		w.move(id, envoysim.Verifying)
		w.pass(16 * time.Second)
		w.wantStates(id, "processing:revision verifying:revision")
	})
}

func TestB34_ProxyEndsHolds(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault envoysim.Fault
	}{
		{"504 with HTML after 30 s", envoysim.Fault{Kind: envoysim.FaultHTML, Status: 504, Delay: 30 * time.Second}},
		{"reset after 30 s", envoysim.Fault{Kind: envoysim.FaultReset, Delay: 30 * time.Second}},
	} {
		for _, rail := range []envoysim.Rail{envoysim.OperatedCheckout, envoysim.OTUCard} {
			t.Run(c.name+" on "+string(rail), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t, envoysim.Options{Seed: 1}, []string{"asha"})
					defer w.quit()
					w.pass(30 * time.Second)
					id := w.start(envoysim.Spec{Rail: rail})
					w.pass(2 * time.Minute)
					c.fault.Tool = "get_purchase_status"
					w.sim.Inject(c.fault)
					w.pass(50 * time.Second)
					asked := w.requests("get_purchase_status")
					w.pass(10 * time.Minute)
					for i, at := range asked() {
						if i > 0 && at.Sub(asked()[i-1]) > 32500*time.Millisecond {
							t.Errorf("%s between two holds that end after 30 s", at.Sub(asked()[i-1]))
						}
					}
					w.move(id, envoysim.Processing)
					w.pass(time.Minute)
					if got := w.states(id); !strings.HasPrefix(got, "waiting_for_user:revision processing:revision") || strings.Count(got, "revision") != 2 {
						t.Error(got)
					}
					if s := w.log.String(); strings.Contains(s, `"level":"ERROR"`) {
						t.Errorf("an error was logged: %s", s)
					}
					for id, g := range w.sim.GuiltyReads() {
						t.Errorf("%s: %+v", id, g)
					}
				})
			})
		}
	}
	t.Run("504 at once", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, envoysim.Options{Seed: 1}, []string{"asha"})
			defer w.quit()
			w.pass(30 * time.Second)
			w.start(envoysim.Spec{Rail: envoysim.OperatedCheckout, State: envoysim.Processing})
			w.pass(2 * time.Minute)
			w.sim.Inject(envoysim.Fault{Kind: envoysim.FaultHTML, Status: 504, Tool: "get_purchase_status"})
			asked := w.requests("get_purchase_status")
			w.pass(time.Minute)
			if n := len(asked()); n > 20 {
				t.Errorf("%d requests in the first minute", n)
			}
			before := len(asked())
			w.pass(10 * time.Minute)
			if n := len(asked()) - before; n > 60 {
				t.Errorf("%d requests in ten minutes of outage", n)
			}
		})
	})
}

// herd is a world in which the API holds three hundred reads of one token.
func herd(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, envoysim.Options{Seed: 1, RequestsPerMinute: -1}, []string{"asha"}, func(_ *world, o *Options) {
		o.Policy.RequestsPerMinute = 1500
	})
	w.pass(30 * time.Second)
	for range 300 {
		id, err := w.sim.Put("asha", envoysim.Purchase{
			State: envoysim.Verifying, Rail: envoysim.OperatedCheckout, CheckoutBy: envoysim.ByEnvoy, Amount: 100,
			Agent: envoysim.AgentIdentity{ID: agentID(0)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.w.Register(t.Context(), "host-0", id); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(2 * time.Minute)
	if n := w.sim.Holds(); n < 280 {
		t.Fatalf("%d holds are open", n)
	}
	return w
}

// Three hundred holds on one token are cut together, and the API then limits: they come back spread, honour the wait,
// and do not stay in step.
func TestB35_ThunderingHerd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := herd(t)
		defer w.quit()
		cut := time.Now()
		remove := w.sim.Inject(envoysim.Fault{Kind: envoysim.FaultReset, Delay: time.Millisecond})
		asked := w.requests("get_purchase_status")
		w.stop() // all holds are cut
		remove()
		limited := w.sim.Inject(envoysim.Fault{Kind: envoysim.FaultError, Code: envoysim.RateLimited, Wait: 5 * time.Second, Count: 1})
		defer limited()
		w.again()
		w.pass(90 * time.Second)
		if n := w.sim.Holds(); n < 280 {
			t.Errorf("%d holds are open a minute and a half later", n)
		}
		w.pass(2 * time.Minute)
		buckets := map[int]int{}
		for _, at := range asked() {
			buckets[int(at.Sub(cut)/time.Second)]++
		}
		for second, n := range buckets {
			if n > 60 {
				t.Errorf("%d requests in second %d", n, second)
			}
		}
	})
}

// A process that is asked to stop cuts its holds at once: it waits for none to end by itself, and the API keeps none.
// Whoever comes after it goes on.
func TestB42_HoldsAreCutAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := herd(t)
		defer w.quit()
		stopped := make(chan struct{})
		go func() { defer close(stopped); w.stop() }()
		w.pass(2 * time.Second)
		if n := w.sim.Holds(); n != 0 {
			t.Errorf("%d holds are open 2 s after the signal", n)
		}
		select {
		case <-stopped:
		default:
			t.Error("the watcher has not ended 2 s after the signal")
			<-stopped
		}
		w.again()
		w.pass(2 * time.Minute)
		if n := w.sim.Holds(); n < 280 {
			t.Errorf("%d holds are open after the restart", n)
		}
	})
}

package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/redistest"
	"github.com/heraldbridge/herald/internal/stream"
)

const (
	hookSecret = "hook-signing-secret-of-the-test"
	cardNumber = "4111 1111 1111 1111"
)

// bench is a console over a real bus and a real state store.
type bench struct {
	client console.Client
	bus    *stream.Bus
	stores *stores
	events []events.Event // stored, oldest first
}

// newBench opens the console of a process that delivers. Without a Redis the
// state is in key-value.
func newBench(t *testing.T, redisURL string) *bench {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "herald.yaml")
	write(t, filepath.Join(dir, "hook"), hookSecret)
	text := `
redis: { url: "` + redisURL + `" }
sinks:
  - name: orders
    webhook: { url: "https://orders.example.test/hook", secrets: ["file:hook"] }
  - name: ops
    webhook: { url: "https://ops.example.test/hook" }
subscriptions:
  - { name: all, match: 'type == "money.envoy.purchase.changed.v1"', sinks: [orders] }
  - { name: unsettled, match: unsettled, for: 2m, repeat: 30m, resolve: true, sinks: [ops] }
`
	if redisURL == "" {
		text = strings.Replace(text, `redis: { url: "" }`, "", 1)
	}
	write(t, file, text)
	a, bus := newNotifier(t, file, slog.New(slog.DiscardHandler))
	st := &stores{bus: bus}
	var err error
	if redisURL == "" {
		st.state, err = dedupe.OpenKV(t.Context(), bus.JetStream(), dedupe.KVOptions{Metrics: prometheus.NewRegistry()})
	} else {
		var rd *dedupe.Redis
		rd, err = dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{URL: redisURL})
		st.state = rd
		t.Cleanup(func() { _ = rd.Close() })
	}
	if err != nil {
		t.Fatal(err)
	}
	handler, _ := a.consoleOf(st, noLoops, nil)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b := &bench{client: console.Client{URL: server.URL, HTTP: server.Client()}, bus: bus, stores: st}
	for _, e := range events.Samples() {
		_, after, err := bus.Last(t.Context(), "sample-host", orElseID(e.Subject))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bus.Publish(t.Context(), e, after); err != nil {
			t.Fatal(err)
		}
		b.events = append(b.events, e)
	}
	return b
}

func noLoops() []*deliver.Loop { return nil }

func orElseID(id string) string {
	if id == "" {
		return "pur_" + strings.Repeat("0", 32)
	}
	return id
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func get[T any](t *testing.T, b *bench, path string) T {
	t.Helper()
	var out T
	if err := b.client.Get(t.Context(), path, nil, &out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

// stored waits until audit records, which nobody waits for, are in the stream.
func (b *bench) stored(t *testing.T, n int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		if len(get[console.Page[events.Delivery]](t, b, "/v1/deliveries").Items) == n {
			return
		}
	}
	t.Fatalf("%d records are not stored", n)
}

func TestConsoleOverARealBus(t *testing.T) {
	b := newBench(t, "")
	list := get[console.PurchaseList](t, b, "/v1/purchases")
	if list.Total != 8 || !list.Items[0].Attention {
		t.Fatalf("%d purchases, first %+v", list.Total, list.Items[0])
	}
	confirming := b.events[3]
	b.bus.Audit(events.Delivery{Sink: "orders", EventID: confirming.ID, PurchaseID: confirming.Subject, Type: confirming.Type, Outcome: "sent", Attempt: 2, At: time.Now()})
	b.bus.Audit(events.Delivery{Sink: "ops", EventID: confirming.ID, PurchaseID: confirming.Subject, Type: confirming.Type, Outcome: "waiting", Reason: "dwelling", At: time.Now()})
	b.stored(t, 2)
	e := get[console.Explanation](t, b, "/v1/explain/"+confirming.Subject)
	if len(e.Events) != 1 || len(e.Events[0].Sinks) != 2 {
		t.Fatalf("%+v", e)
	}
	ops, orders := e.Events[0].Sinks[0], e.Events[0].Sinks[1]
	if ops.Fate != console.FateWaiting || ops.Subscription != "unsettled" || time.Until(ops.Until) > 2*time.Minute {
		t.Errorf("ops: %+v", ops)
	}
	if orders.Fate != console.FateDelivered || orders.Subscription != "all" || orders.Attempts != 2 {
		t.Errorf("orders: %+v", orders)
	}
	// A real expression is refused with its place, and a right one silences.
	err := b.client.Post(t.Context(), "/v1/silences", console.SilenceRequest{Match: "unsettld", For: console.Duration(time.Hour), Why: "x"}, nil)
	var r *console.Refusal
	if !errors.As(err, &r) || r.Field != "match" || !strings.Contains(r.Problem, "1:1") || !strings.Contains(r.Problem, "unsettld") {
		t.Errorf("wrong silence: %v", err)
	}
	if err := b.client.Post(t.Context(), "/v1/silences", console.SilenceRequest{Match: `situation == "confirming"`, For: console.Duration(time.Hour), Why: "known"}, nil); err != nil {
		t.Fatal(err)
	}
	if f := get[console.Explanation](t, b, "/v1/explain/"+confirming.Subject).Events[0].Sinks[0]; f.Fate != console.FateWaiting && f.Fate != console.FateSilenced {
		t.Errorf("silenced: %+v", f)
	}
	if list := get[console.Page[events.Silence]](t, b, "/v1/silences"); len(list.Items) != 1 {
		t.Errorf("silences: %+v", list)
	}
}

func TestSimulateWithRealExpressions(t *testing.T) {
	b := newBench(t, "")
	subs := []console.Subscription{
		{Name: "all", Match: `type == "money.envoy.purchase.changed.v1"`, Sinks: []string{"orders"}},
		{Name: "now", Match: "unsettled", Urgent: "true", Repeat: console.Duration(time.Hour), Sinks: []string{"ops"}},
	}
	var s console.Simulation
	if err := b.client.Post(t.Context(), "/v1/simulate", console.SimulateRequest{Subscriptions: subs, Since: "1h"}, &s); err != nil {
		t.Fatal(err)
	}
	if s.Events != 10 || s.Same != 8 || s.New.BySink["ops"] != 3 || s.Running.BySink["ops"] != 0 || len(s.Added) != 3 {
		t.Errorf("%+v", s)
	}
	subs[1].Match = "unsettled &&"
	err := b.client.Post(t.Context(), "/v1/simulate", console.SimulateRequest{Subscriptions: subs}, &s)
	if err == nil || !strings.Contains(err.Error(), `subscription "now"`) {
		t.Errorf("wrong subscription: %v", err)
	}
}

func TestWishesGoToTheOwner(t *testing.T) {
	b := newBench(t, "")
	d := events.DeadLetter{Sink: "orders", EventID: b.events[0].ID, Sequence: 1, Reason: "refused", Event: []byte("{}"), Buried: time.Now()}
	if err := b.bus.Bury(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	var report console.ReplayReport
	replay := func() {
		t.Helper()
		if err := b.client.Post(t.Context(), "/v1/dead/replay", console.ReplayRequest{Event: d.EventID}, &report); err != nil {
			t.Fatal(err)
		}
	}
	replay()
	if report.Asked != 0 || report.Letters[0].Problem != console.ErrNoOwner.Error() {
		t.Errorf("without an owner: %+v", report)
	}
	subject, err := console.WishSubject("orders")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan console.Wish, 1)
	sub, err := b.bus.Conn().Subscribe(subject, func(m *nats.Msg) {
		var w console.Wish
		if json.Unmarshal(m.Data, &w) == nil {
			got <- w
		}
		_ = m.Respond([]byte(`{"status":"taken"}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	replay()
	if w := <-got; report.Asked != 1 || w.Kind != console.WishReplay || w.Event != d.EventID {
		t.Errorf("%+v %+v", report, w)
	}
	sinks := get[console.Page[console.Sink]](t, b, "/v1/sinks")
	if len(sinks.Items) != 0 { // no loop runs and no consumer is there
		t.Errorf("sinks: %+v", sinks)
	}
}

func TestLeakcheckSearchesEverything(t *testing.T) {
	for _, where := range []string{"key-value", "redis"} {
		t.Run(where, func(t *testing.T) {
			url := ""
			if where == "redis" {
				url = redistest.Own(t).URL()
			}
			b := newBench(t, url)
			check := func() console.LeakReport {
				t.Helper()
				var r console.LeakReport
				if err := b.client.Post(t.Context(), "/v1/leakcheck", struct{}{}, &r); err != nil {
					t.Fatal(err)
				}
				return r
			}
			clean := check()
			if clean.Total != 0 || clean.Secrets != 1 || clean.Records[events.StreamPurchases] != 10 {
				t.Fatalf("before: %+v", clean)
			}
			err := errors.Join(
				b.stores.state.PutStandings(t.Context(), "ops", map[string]events.Standing{"pur_x": {Thread: map[string]string{"card": cardNumber}}}),
				b.bus.Bury(t.Context(), events.DeadLetter{Sink: "ops", EventID: "e-1", Event: []byte(`{"say":"` + hookSecret + `"}`)}),
				b.bus.Bury(t.Context(), events.DeadLetter{Sink: "ops", EventID: "e-2", Detail: "said " + cardNumber}),
			)
			if err != nil {
				t.Fatal(err)
			}
			r := check()
			kinds := map[string]int{}
			for _, f := range r.Findings {
				kinds[f.Store+" "+f.Kind]++
				if strings.Contains(f.Place+f.Name, hookSecret) {
					t.Errorf("a finding tells the secret: %+v", f)
				}
			}
			state := "KV_herald_state"
			if where == "redis" {
				state = "redis"
			}
			if r.Total != 3 || kinds[state+" card"] != 1 || kinds["ENVOY_DEAD secret"] != 1 || kinds["ENVOY_DEAD card"] != 1 {
				t.Errorf("after: %+v", r)
			}
		})
	}
}

func TestProcessesTellEachOther(t *testing.T) {
	b := newBench(t, "")
	a := &App{
		Options:  Options{Config: &config.Config{Redis: config.Redis{URL: "redis://x"}}, Role: config.RoleNotifier},
		registry: prometheus.NewRegistry(),
	}
	a.now.Store(&wiring{})
	asking := newParts(a, b.stores, noLoops, nil)
	other := report{Process: "watcher on b, pid 2", Sinks: []console.Sink{{Name: "orders", State: "running", Owner: "watcher on b, pid 2", Configured: true}},
		Connections: []console.Connection{{Name: "host-a", Owner: "watcher on b, pid 2", Open: 3}}}
	sub, err := b.bus.Conn().Subscribe(statusSubject, func(m *nats.Msg) {
		body, _ := json.Marshal(other)
		_ = m.Respond(body)
		_ = m.Respond([]byte("{"))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	sinks, err := asking.Sinks(t.Context())
	if err != nil || len(sinks) != 1 || sinks[0].Owner != other.Process {
		t.Errorf("%+v, %v", sinks, err)
	}
	conns, err := asking.Connections(t.Context())
	if err != nil || len(conns) != 1 || conns[0].Open != 3 {
		t.Errorf("%+v, %v", conns, err)
	}
	// The loop answers, and ends with its context.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- asking.run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// hook is a receiver that verifies as it is told.
type hook struct{ skip string }

func TestVerifyReceiver(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		wrong   int
	}{
		"accepts everything": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 6},
		"refuses everything": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, 6},
		"fails":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, 12},
		"redirects":          {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, 12},
		"right":              {hook{}.ServeHTTP, 0},
		"takes old ones":     {hook{skip: "time"}.ServeHTTP, 2},
		"first signature":    {hook{skip: "rotation"}.ServeHTTP, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tt.handler)
			defer s.Close()
			checks, err := VerifyReceiver(t.Context(), ReceiverOptions{URL: s.URL, Secret: secretOf(hookSecret)})
			if err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for _, c := range checks {
				if !c.OK {
					wrong++
				}
				if c.Says == "" {
					t.Errorf("%s says nothing", c.Name)
				}
			}
			if len(checks) != 12 || wrong != tt.wrong {
				t.Errorf("%d of %d wrong, want %d: %+v", wrong, len(checks), tt.wrong, checks)
			}
		})
	}
	for _, o := range []ReceiverOptions{{URL: "ftp://x", Secret: secretOf("x")}, {URL: "http://127.0.0.1:1"}, {URL: "http://127.0.0.1:1", Secret: secretOf("whsec_%%")}} {
		var usage *UsageError
		if _, err := VerifyReceiver(t.Context(), o); !errors.As(err, &usage) {
			t.Errorf("%s: %v", o.URL, err)
		}
	}
}

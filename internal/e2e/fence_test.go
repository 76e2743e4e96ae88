package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/stream"
	"github.com/heraldbridge/herald/internal/watch"
)

// everyone gives every lease to whoever asks: what must never happen, and did.
type everyone struct{}

func (everyone) Acquire(ctx context.Context, _ string, _ func()) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

// within hands requests to the stand-in without a network.
type within struct{ http.Handler }

func (h within) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	w := httptest.NewRecorder()
	defer func() {
		if cut := recover(); cut == http.ErrAbortHandler { //nolint:errorlint // the very value
			resp, err = nil, io.ErrUnexpectedEOF
		} else if cut != nil {
			panic(cut)
		}
	}()
	h.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// The race detector takes gigabytes for the thousands of goroutines of a full race: go test -run TestTwoOwners -raced 2000.
var raced = flag.Int("raced", 200, "purchases that two owners race over")

// Two watchers that both believe to own the same connections race over all their purchases. The stream's expected
// sequence lets each reading in once, in order, and leaves none out.
func TestTwoOwnersStoreEachReadingOnce(t *testing.T) {
	n := *raced
	w := newWorld(t)
	sim, err := envoysim.New(envoysim.Options{Seed: 3, RequestsPerMinute: -1})
	if err != nil {
		t.Fatal(err)
	}
	w.sim = sim
	var conns []watch.Connection
	var ids []string
	for i := range n {
		user := fmt.Sprintf("user-%d", i)
		token := secret.New(sim.AddToken(user, "origin:https://host.example.test"))
		conns = append(conns, watch.Connection{
			Name: fmt.Sprintf("host-%d", i), BudgetKey: user,
			Reader: envoy.New(envoy.Options{
				BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: within{sim.Handler()}},
				Token: func(context.Context) (secret.Value, error) { return token, nil },
			}),
		})
		id, err := sim.Put(user, envoysim.Purchase{
			State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
			CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 249900,
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	gathered := make([]*prometheus.Registry, 2)
	for i := range gathered {
		gathered[i] = prometheus.NewRegistry()
		one := w.owner(ctx, conns, gathered[i])
		running.Go(func() {
			if err := one.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, 2*time.Minute, "both hold everything", func() bool { return sim.Holds() >= 2*n*9/10 },
		func() string { return fmt.Sprint(sim.Holds(), " holds") })
	if most := slices.Max(slices.Collect(maps.Values(sim.MostHolds()))); most != 2 {
		t.Errorf("%d holds of one purchase at once, want those of both", most) // what shows that one owner holds once
	}
	w.published("what two owners saw first", ids)
	for _, to := range []envoysim.State{envoysim.Processing, envoysim.Verifying, envoysim.Completed} {
		for _, id := range ids {
			w.move(id, to)
		}
		w.published("what two owners saw as "+string(to), ids)
	}

	order := map[string][]events.Event{}
	for _, e := range w.stored() {
		if e.Event.Purchase != nil {
			order[e.Event.Subject] = append(order[e.Event.Subject], e.Event)
		}
	}
	for id, list := range order {
		if !slices.IsSortedFunc(list, func(a, b events.Event) int { return events.Compare(a.Position(), b.Position()) }) {
			t.Errorf("%s is out of order", id)
		}
	}
	calls := 0.0
	for _, r := range gathered {
		calls += sumOf(t, r, "herald_watch_calls_total")
	}
	t.Logf("%d purchases, %v calls of two owners", n, calls)
}

// owner builds a watcher over the world's stores that never asks who owns what.
func (w *world) owner(ctx context.Context, conns []watch.Connection, metrics *prometheus.Registry) *watch.Watcher {
	w.t.Helper()
	bus, err := stream.Open(ctx, stream.Options{URL: w.nats.URL()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { bus.Close(context.WithoutCancel(ctx)) })
	state, err := dedupe.OpenRedis(ctx, dedupe.RedisOptions{URL: w.redis.URL()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = state.Close() })
	one, err := watch.New(watch.Options{
		Connections: conns, Policy: watch.Policy{RequestsPerMinute: 10000, LookEvery: time.Second},
		Publisher: bus, Cursors: state, Sets: state, Leases: everyone{}, Metrics: metrics,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return one
}

// sumOf adds up all series of a counter.
func sumOf(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), name) {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

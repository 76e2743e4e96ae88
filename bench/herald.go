package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
	"github.com/heraldbridge/herald/internal/stream"
	"github.com/heraldbridge/herald/internal/watch"
)

// Settings of the product that both sides of a benchmark share.
const (
	sinkName    = "bench"
	signingKey  = "herald-bench-signing-key-32-byte"
	condition   = `situation != "ready"`
	concurrency = 16 // sends at once, the product's own default
	// requestsPerMinute lifts the budget of a token out of the way.
	requestsPerMinute = 100_000_000
)

// herald is the product, wired as its programs wire it.
type herald struct {
	log   *slog.Logger
	bus   *stream.Bus
	redis *dedupe.Redis
	known prometheus.Registerer

	client  *http.Client // shared by all connections
	conns   []watch.Connection
	watcher *watch.Watcher

	running sync.WaitGroup
	cancel  context.CancelFunc // of everything that runs
	unsink  context.CancelFunc // of the sink's loop
	sinking sync.WaitGroup
}

func newHeraldRole(context.Context) (map[string]handler, func(), error) {
	h := &herald{
		log:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		client: envoy.NewHTTPClient(envoy.HTTPOptions{UnencryptedHTTP2: true}),
	}
	return map[string]handler{
		"connect": handle(h.connect), "watch": handle(h.watch),
		"deliver": handle(h.deliver), "undeliver": handle(h.undeliver),
	}, h.close, nil
}

type connectArgs struct {
	NATS   string `json:"nats"`
	Redis  string `json:"redis"`
	Prefix string `json:"prefix"` // of keys in Redis
}

func (h *herald) connect(ctx context.Context, a connectArgs) (any, error) {
	h.known = prometheus.NewRegistry()
	var err error
	h.bus, err = stream.Open(ctx, stream.Options{URL: a.NATS, MaxBytes: 8 << 30, Log: h.log, Metrics: h.known})
	if err != nil {
		return nil, fmt.Errorf("open NATS: %w", err)
	}
	h.redis, err = dedupe.OpenRedis(ctx, dedupe.RedisOptions{URL: a.Redis, Prefix: a.Prefix, Log: h.log, Metrics: h.known})
	if err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	return nil, nil
}

type watchArgs struct {
	Envoy       string `json:"envoy"`
	Purchases   int    `json:"purchases"`   // in all
	Connections int    `json:"connections"` // in all; purchases are dealt out to them
	First       int    `json:"first"`       // so many of the connections, from now on
}

// watch begins to watch purchases that hosts have registered before, as after a
// restart. Asked again, it adds connections.
func (h *herald) watch(ctx context.Context, a watchArgs) (any, error) {
	for c := len(h.conns); c < a.First; c++ {
		name := fmt.Sprintf("host-%d", c)
		set := events.WatchSet{Baselined: true}
		for i := c; i < a.Purchases; i += a.Connections {
			set.Refs = append(set.Refs, events.WatchRef{PurchaseID: purchaseID(i), Registered: true, Seen: true, Since: time.Now()})
		}
		if err := h.redis.PutWatchSet(ctx, name, "bench", set); err != nil {
			return nil, err
		}
		h.conns = append(h.conns, watch.Connection{
			Name: name, Token: bearer, BudgetKey: name,
			Reader: envoy.New(envoy.Options{BaseURL: a.Envoy, Token: bearer, HTTP: h.client, Version: "bench"}),
		})
	}
	if h.watcher != nil {
		h.watcher.Update(h.conns)
		return nil, nil
	}
	var err error
	h.watcher, err = watch.New(watch.Options{
		Connections: h.conns, Policy: watch.Policy{RequestsPerMinute: requestsPerMinute},
		Publisher: h.bus, Cursors: h.redis, Sets: h.redis, Leases: h.redis, Log: h.log, Metrics: h.known,
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	h.running.Go(func() {
		if err := h.watcher.Run(running); err != nil {
			h.log.Error("watch", "error", err)
		}
	})
	return nil, nil
}

func bearer(context.Context) (secret.Value, error) {
	return secret.New("bench-bearer-token-of-an-agent"), nil
}

type deliverArgs struct {
	Hook string `json:"hook"`
	// InHand is how many messages are fetched ahead; zero: what the consumer does
	// by itself.
	InHand int `json:"in_hand"`
	// Beside are further sinks, by name, and where they post.
	Beside map[string]string `json:"beside"`
}

// deliver starts the sink, and those beside it, and returns when it takes messages.
func (h *herald) deliver(ctx context.Context, a deliverArgs) (any, error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.unsink = cancel
	loop, err := h.sink(running, sinkName, a.Hook, a.InHand)
	if err != nil {
		return nil, err
	}
	for name, hook := range a.Beside {
		if _, err := h.sink(running, name, hook, a.InHand); err != nil {
			return nil, err
		}
	}
	return nil, await(ctx, readyWithin, "wait for the sink", func() error {
		if s := loop.Status(); s.State != deliver.StateRunning {
			return fmt.Errorf("it is %s", s.State)
		}
		return nil
	})
}

// sink starts one sink, which runs until ctx ends.
func (h *herald) sink(ctx context.Context, name, hook string, inHand int) (*deliver.Loop, error) {
	sink, err := webhook.New(webhook.Config{
		Name: name, URL: secret.New(hook), AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Secrets: func(context.Context) ([]secret.Value, error) { return []secret.Value{secret.New(signingKey)}, nil },
	})
	if err != nil {
		return nil, err
	}
	set, err := route.Compile([]route.Spec{{Name: "all", Match: condition, Sinks: []string{name}}})
	if err != nil {
		return nil, err
	}
	consumer := h.bus.Consumer(name)
	consumer.InHand = inHand
	loop, err := deliver.New(deliver.Options{
		Name: name, Sink: sink, Source: &source{consumer, h.bus}, Standings: h.redis, Graveyard: h.bus,
		Leases: h.redis, Audit: h.bus.Audit, Set: set, Concurrency: concurrency, StreamCreated: h.bus.StreamID,
		Limit: webhook.DefaultTimeout, Grace: 10 * time.Second, Log: h.log, Metrics: h.known,
	})
	if err != nil {
		return nil, err
	}
	h.sinking.Go(func() {
		if err := loop.Run(ctx); err != nil {
			h.log.Error("deliver", "error", err)
		}
		if err := sink.Close(); err != nil {
			h.log.Error("close sink", "error", err)
		}
	})
	return loop, nil
}

// undeliver stops the sink.
func (h *herald) undeliver(context.Context, struct{}) (any, error) {
	if h.unsink != nil {
		h.unsink()
		h.sinking.Wait()
	}
	return nil, nil
}

func (h *herald) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if h.unsink != nil {
		h.unsink()
		h.sinking.Wait()
	}
	if h.cancel != nil {
		h.cancel()
		h.running.Wait()
	}
	if h.redis != nil {
		_ = h.redis.Close()
	}
	if h.bus != nil {
		_ = h.bus.Close(ctx)
	}
}

// source is a stream consumer as the loop wants it.
type source struct {
	*stream.Consumer
	bus *stream.Bus
}

// Begin starts the consumer over.
func (s *source) Begin(ctx context.Context, at deliver.Start) error {
	return s.Consumer.Begin(ctx, stream.Start(at))
}

// Next gives the next message.
func (s *source) Next(ctx context.Context) (deliver.Message, error) {
	env, handle, err := s.Consumer.Next(ctx)
	if errors.Is(err, stream.ErrBeginAgain) {
		return deliver.Message{}, fmt.Errorf("%w: %w", deliver.ErrBeginAgain, err)
	}
	return deliver.Message{Envelope: env, Handle: handle}, err
}

// Newest gives the newest message of every purchase.
func (s *source) Newest(ctx context.Context) iter.Seq2[events.Envelope, error] {
	return s.bus.Newest(ctx)
}

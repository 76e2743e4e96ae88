package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/envoy"
)

// Names of the floor's own stream.
const (
	floorStream   = "BENCH_FLOOR"
	floorSubject  = "bench.floor.purchase"
	floorConsumer = "bench_floor"
)

// floor is the least that a hand-written program has to do: no state, no lease,
// no order, no retry, no filter, no limit.
type floor struct {
	log    *slog.Logger
	nc     *nats.Conn
	js     jetstream.JetStream
	sender *http.Client

	running sync.WaitGroup
	cancel  context.CancelFunc
	consume jetstream.ConsumeContext
	holder  *http.Transport
	holding context.Context //nolint:containedctx // of all holds, which outlive the request that opens them

	complain sync.Once // thousands of holds can fail at once, for the same reason
}

func newFloorRole(context.Context) (map[string]handler, func(), error) {
	f := &floor{
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		sender: &http.Client{Transport: &http.Transport{
			MaxIdleConns: concurrency, MaxIdleConnsPerHost: concurrency, DisableCompression: true,
		}},
	}
	return map[string]handler{
		"connect": handle(f.connect), "hold": handle(f.hold), "deliver": handle(f.deliver),
		"undeliver": handle(f.undeliver), "drain": handle(f.drain), "post": handle(f.post),
	}, f.close, nil
}

// connect opens NATS and makes the floor's stream, as the product's is made.
func (f *floor) connect(ctx context.Context, a connectArgs) (any, error) {
	var err error
	if f.nc, err = nats.Connect(a.NATS); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if f.js, err = jetstream.New(f.nc); err != nil {
		return nil, fmt.Errorf("set up jetstream: %w", err)
	}
	_, err = f.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: floorStream, Subjects: []string{floorSubject}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute,
	})
	return nil, err
}

func (f *floor) close() {
	if f.consume != nil {
		f.consume.Stop()
	}
	if f.cancel != nil {
		f.cancel()
	}
	f.running.Wait()
	if f.nc != nil {
		f.nc.Close()
	}
}

type holdArgs struct {
	Envoy     string `json:"envoy"`
	From      int    `json:"from"` // the first purchase
	Purchases int    `json:"purchases"`
	// Publish decodes what a hold brings and publishes it; otherwise the reply is
	// read and dropped.
	Publish bool `json:"publish"`
}

// hold keeps one read held for each of some purchases, each in a goroutine.
func (f *floor) hold(ctx context.Context, a holdArgs) (any, error) {
	if f.holder == nil {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		f.holder = &http.Transport{Protocols: protocols, DisableCompression: true}
		f.holding, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	url := a.Envoy + "/tools/get_purchase_status"
	for i := a.From; i < a.From+a.Purchases; i++ {
		f.running.Go(func() { f.follow(f.holding, url, purchaseID(i), a.Publish) })
	}
	return nil, nil
}

// follow reads one purchase until ctx ends. The first hold waits as long as the product's does: holds that end all together
// cost the client far less than those that end one by one.
func (f *floor) follow(ctx context.Context, url, id string, publish bool) {
	wait := 30 + rand.IntN(16)
	for revision := int64(1); ctx.Err() == nil; wait = 45 {
		ask := fmt.Appendf(nil, `{"purchase":%q,"after_revision":%d,"wait_seconds":%d}`, id, revision, wait)
		next, err := f.once(ctx, url, ask, publish)
		switch {
		case err == nil:
			revision = max(revision, next)
		case ctx.Err() == nil:
			f.complain.Do(func() { f.log.Error("hold", "error", err) })
			return
		}
	}
}

// once makes one held read and publishes what it brings.
func (f *floor) once(ctx context.Context, url string, ask []byte, publish bool) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(ask))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer bench-bearer-token-of-an-agent")
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.holder.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if !publish {
		_, err := io.Copy(io.Discard, resp.Body)
		return 0, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var reply struct {
		OK       bool           `json:"ok"`
		Purchase envoy.Purchase `json:"purchase"`
		Next     envoy.Next     `json:"next"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return 0, fmt.Errorf("decode reply: %w", err)
	}
	if !reply.OK {
		return 0, errors.New("the reply is not ok")
	}
	return reply.Purchase.Revision, f.publish(ctx, ask, &reply.Purchase)
}

// publish stores a changed purchase and waits for the acknowledgement.
func (f *floor) publish(ctx context.Context, ask []byte, p *envoy.Purchase) error {
	if bytes.Contains(ask, fmt.Appendf(nil, `"after_revision":%d,`, p.Revision)) {
		return nil // the hold ended without a change
	}
	p.Description = nil
	body, err := json.Marshal(floorEvent{
		SpecVersion: "1.0", ID: fmt.Sprintf("%s-0-%d-0", p.PurchaseID, p.Revision), Source: "/connections/bench",
		Type: "money.envoy.purchase.changed.v1", Subject: p.PurchaseID, Data: p,
	})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	_, err = f.js.Publish(ctx, floorSubject, body, jetstream.WithMsgID(fmt.Sprintf("%s-0-%d-0", p.PurchaseID, p.Revision)))
	return err
}

// floorEvent is what the floor publishes: about as long as the product's event.
type floorEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Data        *envoy.Purchase `json:"data"`
}

// deliver posts what is published, from now on: pull, sign, POST, acknowledge.
func (f *floor) deliver(ctx context.Context, a deliverArgs) (any, error) {
	cons, err := f.js.CreateOrUpdateConsumer(ctx, floorStream, jetstream.ConsumerConfig{
		Durable: floorConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
		DeliverPolicy: jetstream.DeliverNewPolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("make consumer: %w", err)
	}
	running := context.WithoutCancel(ctx)
	messages := make(chan jetstream.Msg, concurrency)
	for range concurrency {
		f.running.Go(func() {
			for m := range messages {
				if err := f.send(running, a.Hook, m.Headers().Get(jetstream.MsgIDHeader), m.Data()); err != nil {
					f.log.Error("deliver", "error", err)
					continue
				}
				if err := m.Ack(); err != nil {
					f.log.Error("acknowledge", "error", err)
				}
			}
		})
	}
	var last sync.Once
	f.consume, err = cons.Consume(func(m jetstream.Msg) { messages <- m }, jetstream.PullMaxMessages(2*concurrency))
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	f.running.Go(func() {
		<-f.consume.Closed()
		last.Do(func() { close(messages) })
	})
	return nil, nil
}

func (f *floor) undeliver(context.Context, struct{}) (any, error) {
	if f.consume != nil {
		f.consume.Drain()
		<-f.consume.Closed()
		f.consume = nil
	}
	return nil, nil
}

type postArgs struct {
	Hook  string          `json:"hook"`
	Count int             `json:"count"`
	Body  json.RawMessage `json:"body"`
	Run   string          `json:"run"` // makes the ids of this turn its own
}

type posted struct {
	Seconds float64 `json:"seconds"`
}

// post sends one signed body again and again, with so many requests at once.
func (f *floor) post(ctx context.Context, a postArgs) (any, error) {
	var next atomic.Int64
	var senders sync.WaitGroup
	failed := make(chan error, concurrency)
	begun := time.Now()
	for range concurrency {
		senders.Go(func() {
			for i := next.Add(1); i <= int64(a.Count); i = next.Add(1) {
				if err := f.send(ctx, a.Hook, fmt.Sprintf("%s-%d", a.Run, i), a.Body); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	senders.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
		return posted{Seconds: time.Since(begun).Seconds()}, nil
	}
}

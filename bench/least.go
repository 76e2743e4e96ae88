package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/heraldbridge/herald/internal/events"
)

// send signs a body after Standard Webhooks and posts it.
func (f *floor) send(ctx context.Context, hook, id string, body []byte) error {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(signingKey))
	_, _ = io.WriteString(mac, id+"."+at+".") // a hash takes everything
	_, _ = mac.Write(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/cloudevents+json")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := f.sender.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("post: status %d", resp.StatusCode)
	}
	return nil
}

// batchLimit bounds what one read or write of standings serves.
const batchLimit = 64

type drainArgs struct {
	Hook   string `json:"hook"`
	Redis  string `json:"redis"`
	Prefix string `json:"prefix"`
	Count  int    `json:"count"`
}

// least is the least program that does the work of a delivery: it decodes the
// product's events, matches the same condition, reads and writes a record for
// each purchase in batches, signs, posts, acknowledges, and publishes a record of
// what it did without asking for an answer. It keeps no order, and an error ends
// it.
type least struct {
	f     *floor
	a     drainArgs
	redis *redis.Client
	match cel.Program

	messages chan jetstream.Msg
	jobs     chan leastJob
	results  chan leastJob
	failed   chan error
}

type leastJob struct {
	msg   jetstream.Msg
	event leastEvent
	key   string
}

// leastRecord is what is remembered of a purchase.
type leastRecord struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

type leastEvent struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Subject string          `json:"subject"`
	Time    time.Time       `json:"time"`
	Data    events.Purchase `json:"data"`
}

// drain takes so many messages of the product's stream.
func (f *floor) drain(ctx context.Context, a drainArgs) (any, error) {
	match, err := compile()
	if err != nil {
		return nil, err
	}
	opts, err := redis.ParseURL(a.Redis)
	if err != nil {
		return nil, errors.New("parse redis url: not of the form redis://host:port/db")
	}
	l := &least{
		f: f, a: a, redis: redis.NewClient(opts), match: match, failed: make(chan error, 2*concurrency),
		messages: make(chan jetstream.Msg, batchLimit), jobs: make(chan leastJob, batchLimit), results: make(chan leastJob, batchLimit),
	}
	defer func() { _ = l.redis.Close() }()
	cons, err := f.js.CreateOrUpdateConsumer(ctx, events.StreamPurchases, jetstream.ConsumerConfig{
		Durable: "bench_least", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: 65536,
	})
	if err != nil {
		return nil, fmt.Errorf("make consumer: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	consume, err := cons.Consume(func(m jetstream.Msg) {
		select {
		case l.messages <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxMessages(batchLimit))
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	defer consume.Stop()
	if err := l.run(ctx, cancel); err != nil {
		return nil, err
	}
	return nil, f.js.DeleteConsumer(context.WithoutCancel(ctx), events.StreamPurchases, "bench_least")
}

func compile() (cel.Program, error) {
	env, err := cel.NewEnv(cel.Variable("situation", cel.StringType))
	if err != nil {
		return nil, fmt.Errorf("set up conditions: %w", err)
	}
	ast, issues := env.Compile(condition)
	if issues.Err() != nil {
		return nil, fmt.Errorf("compile condition: %w", issues.Err())
	}
	return env.Program(ast)
}

func (l *least) run(ctx context.Context, cancel context.CancelFunc) error {
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { l.take(ctx) })
	for range concurrency {
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case j := <-l.jobs:
					if err := l.f.send(ctx, l.a.Hook, j.event.ID, j.msg.Data()); err != nil {
						l.failed <- err
						return
					}
					l.results <- j
				}
			}
		})
	}
	for done := 0; done < l.a.Count; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-l.failed:
			return err
		case j := <-l.results:
			batch := gather([]leastJob{j}, l.results)
			if err := l.write(ctx, batch); err != nil {
				return err
			}
			done += len(batch)
		}
	}
	return nil
}

// gather adds to a batch what is there without waiting.
func gather[T any](batch []T, more <-chan T) []T {
	for len(batch) < batchLimit {
		select {
		case one := <-more:
			batch = append(batch, one)
		default:
			return batch
		}
	}
	return batch
}

// take decodes and matches what comes and reads the records of a batch at once.
func (l *least) take(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-l.messages:
			if err := l.plan(ctx, gather([]jetstream.Msg{m}, l.messages)); err != nil {
				l.failed <- err
				return
			}
		}
	}
}

func (l *least) plan(ctx context.Context, batch []jetstream.Msg) error {
	jobs := make([]leastJob, len(batch))
	keys := make([]string, len(batch))
	for i, m := range batch {
		j := leastJob{msg: m}
		if err := json.Unmarshal(m.Data(), &j.event); err != nil {
			return fmt.Errorf("decode event: %w", err)
		}
		out, _, err := l.match.Eval(map[string]any{"situation": string(j.event.Data.Situation)})
		if err != nil || out.Value() != true {
			return fmt.Errorf("match event: %v, %w", out, err)
		}
		j.key = l.a.Prefix + ":least:" + j.event.Subject
		jobs[i], keys[i] = j, j.key
	}
	records, err := l.redis.MGet(ctx, keys...).Result()
	if err != nil {
		return fmt.Errorf("read standings: %w", err)
	}
	for i, j := range jobs {
		if text, ok := records[i].(string); ok {
			var said leastRecord
			if err := json.Unmarshal([]byte(text), &said); err != nil || said.ID == j.event.ID {
				continue
			}
		}
		select {
		case l.jobs <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// write stores the records of a batch at once, then acknowledges.
func (l *least) write(ctx context.Context, batch []leastJob) error {
	_, err := l.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, j := range batch {
			record, err := json.Marshal(leastRecord{ID: j.event.ID, At: time.Now()})
			if err != nil {
				return err
			}
			p.Set(ctx, j.key, record, time.Hour)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write standings: %w", err)
	}
	for _, j := range batch {
		if err := j.msg.Ack(); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
		if err := l.audit(j); err != nil {
			return fmt.Errorf("publish what was done: %w", err)
		}
	}
	return nil
}

// audit publishes what became of an event where the product does.
func (l *least) audit(j leastJob) error {
	body, err := json.Marshal(events.Delivery{
		Sink: sinkName, EventID: j.event.ID, PurchaseID: j.event.Subject, Type: events.Type(j.event.Type),
		Revision: j.event.Data.Reading.Revision, Outcome: "sent", Attempt: 1, At: time.Now(), Detail: "200",
	})
	if err != nil {
		return err
	}
	return l.f.nc.Publish("envoy.delivery."+sinkName+"."+j.event.Subject, body)
}

package dedupe_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/dedupe/dedupetest"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/redistest"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRedisBehaviour(t *testing.T) {
	dedupetest.Run(t, func(t *testing.T) dedupetest.Subject {
		srv := redistest.Own(t)
		plain := srv.Client()
		return dedupetest.Subject{
			Store: openRedis(t, srv.URL(), nil),
			Again: func() dedupetest.Store { return openRedis(t, srv.URL(), nil) },
			Stop:  srv.Stop,
			Lives: func() (lives []time.Duration) {
				for _, key := range keys(t, plain) {
					left, err := plain.PTTL(t.Context(), key).Result()
					if err != nil {
						t.Fatal(err)
					}
					lives = append(lives, left)
				}
				return lives
			},
			Spoil: func() {
				for _, key := range keys(t, plain) {
					err := plain.Set(t.Context(), key, strings.Repeat("{", 100), time.Hour).Err()
					if err != nil {
						t.Fatal(err)
					}
				}
			},
		}
	})
}

func TestKVBehaviour(t *testing.T) {
	dedupetest.Run(t, func(t *testing.T) dedupetest.Subject {
		srv := natstest.Start(t)
		js := connect(t, srv.URL())
		open := func() dedupetest.Store {
			kv, err := dedupe.OpenKV(t.Context(), js, dedupe.KVOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return kv
		}
		return dedupetest.Subject{
			Store: open(),
			Again: open,
			Stop:  srv.Stop,
			Lives: func() (lives []time.Duration) {
				kv, err := js.KeyValue(t.Context(), "herald_state")
				if err != nil {
					t.Fatal(err)
				}
				status, err := kv.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, key := range kvKeys(t, kv) {
					entry, err := kv.Get(t.Context(), key)
					if err != nil {
						t.Fatal(err)
					}
					lives = append(lives, status.TTL()-time.Since(entry.Created()))
				}
				return lives
			},
			Spoil: func() {
				for _, bucket := range []string{"herald_state", "herald_state_silences"} {
					kv, err := js.KeyValue(t.Context(), bucket)
					if err != nil {
						t.Fatal(err)
					}
					for _, key := range kvKeys(t, kv) {
						if _, err := kv.Put(t.Context(), key, []byte("{{{")); err != nil {
							t.Fatal(err)
						}
					}
				}
			},
		}
	})
}

func openRedis(t *testing.T, url string, log *slog.Logger) *dedupe.Redis {
	t.Helper()
	r, err := dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{URL: url, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func keys(t *testing.T, c *redis.Client) []string {
	t.Helper()
	found, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func kvKeys(t *testing.T, kv jetstream.KeyValue) []string {
	t.Helper()
	list, err := kv.ListKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for key := range list.Keys() {
		found = append(found, key)
	}
	return found
}

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// eventually waits until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// journal is a log that a test can read while it is written.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func (j *journal) count(text string) int { return strings.Count(j.String(), text) }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

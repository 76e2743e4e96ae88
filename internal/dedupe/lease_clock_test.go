package dedupe

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/heraldbridge/herald/internal/redistest"
)

// slow answers each request later.
type slow struct{ by time.Duration }

func (s slow) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		<-time.After(s.by)
		return err
	}
}

func (s slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A lease counts from before the request that asked for it: by its answer, some of what Redis granted is over already.
func TestLeaseCountsFromBeforeTheRequest(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	r, err := OpenRedis(t.Context(), RedisOptions{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	const by = time.Second
	r.client.Load().AddHook(slow{by})
	l := &lease{redis: r, name: "watch/host-a", key: r.key("watch/host-a", "lease"), token: "mine"}
	for range 2 { // taken, and renewed
		if got, err := l.take(t.Context()); !got || err != nil {
			t.Fatalf("taken: %v, %v", got, err)
		}
		if left := l.left(); left > leaseLife-by {
			t.Errorf("%s are left of %s after an answer that took %s", left, leaseLife, by)
		}
	}
}

package dedupe_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/redistest"
)

const leaseLife = dedupe.LeaseLife

// openHasty opens a store whose leases are fast.
func openHasty(t *testing.T, url string, log *slog.Logger) *dedupe.Redis {
	t.Helper()
	r := openRedis(t, url, log)
	r.Hasten()
	return r
}

func acquire(t *testing.T, r *dedupe.Redis, name string) (context.Context, func()) {
	t.Helper()
	owned, release, err := r.Acquire(t.Context(), name, nil)
	must(t, err)
	t.Cleanup(release)
	return owned, release
}

// blocked sees that a lease is not given for a while.
func blocked(t *testing.T, r *dedupe.Redis, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	if _, release, err := r.Acquire(ctx, name, nil); err == nil {
		release()
		t.Fatalf("lease %s has two owners", name)
	}
}

func TestLeaseHasOneOwner(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	a, b := openHasty(t, srv.URL(), nil), openHasty(t, srv.URL(), nil)
	owned, release := acquire(t, a, "connection-host-a")
	acquire(t, b, "connection-host-b") // another name is free
	blocked(t, b, "connection-host-a")
	blocked(t, a, "connection-host-a") // also within one process
	if owned.Err() != nil {
		t.Fatalf("the owner lost it: %v", context.Cause(owned))
	}
	release()
	release()
	if !errors.Is(owned.Err(), context.Canceled) || errors.Is(context.Cause(owned), dedupe.ErrLeaseLost) {
		t.Errorf("after the release: %v, cause %v", owned.Err(), context.Cause(owned))
	}
	start := time.Now()
	acquire(t, b, "connection-host-a")
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("a released lease was taken after %s", took)
	}
}

func TestLeaseIsNeverOwnedTwice(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	var owners, turns atomic.Int32
	var group sync.WaitGroup
	for range 6 {
		r := openHasty(t, srv.URL(), nil)
		group.Go(func() {
			owned, release, err := r.Acquire(t.Context(), "sink-orders", nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			if n := owners.Add(1); n != 1 || owned.Err() != nil {
				t.Errorf("%d owners at once, %v", n, owned.Err())
			}
			turns.Add(1)
			owners.Add(-1)
		})
	}
	group.Wait()
	if turns.Load() != 6 {
		t.Errorf("%d of 6 had a turn", turns.Load())
	}
}

func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	a, b := openHasty(t, srv.URL(), nil), openHasty(t, srv.URL(), nil)
	owned, _ := acquire(t, a, "connection-host-a")
	ctx, cancel := context.WithTimeout(t.Context(), leaseLife+time.Second)
	defer cancel()
	if _, release, err := b.Acquire(ctx, "connection-host-a", nil); err == nil {
		release()
		t.Fatal("a lease that is renewed was taken")
	}
	if owned.Err() != nil {
		t.Errorf("a lease that is renewed is lost: %v", context.Cause(owned))
	}
}

func TestLeaseOutlivesTheContextThatAskedForIt(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	r := openHasty(t, srv.URL(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	owned, release, err := r.Acquire(ctx, "sink-orders", nil)
	must(t, err)
	defer release()
	cancel()
	if owned.Err() != nil {
		t.Error("the ownership ended with the context, so that nothing can be brought to an end")
	}
	blocked(t, openHasty(t, srv.URL(), nil), "sink-orders")
	if _, _, err := r.Acquire(ctx, "sink-orders", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("asking with an ended context: %v", err)
	}
}

// An owner that dies renews nothing and releases nothing.
func TestLeaseOfADeadOwnerIsTakenInTime(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	dead, alive := openHasty(t, srv.URL(), nil), openHasty(t, srv.URL(), nil)
	owned, _ := acquire(t, dead, "connection-host-a")
	must(t, dead.Close())
	start := time.Now()
	acquire(t, alive, "connection-host-a")
	if took := time.Since(start); took > leaseLife+3*time.Second {
		t.Errorf("the lease of a dead owner was taken after %s", took)
	}
	if owned.Err() == nil {
		t.Error("the dead owner still believes in its lease after another has it")
	}
}

func TestLeaseIsLostWhenRedisStops(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	var said journal
	r := openHasty(t, srv.URL(), said.logger())
	owned, release := acquire(t, r, "connection-host-a")
	stopped := time.Now()
	srv.Stop()
	select {
	case <-owned.Done():
	case <-time.After(patience):
		t.Fatal("the lease is not lost")
	}
	if lasted := time.Since(stopped); lasted > leaseLife+time.Second/2 || lasted < leaseLife-1500*time.Millisecond {
		t.Errorf("it lasted %s after Redis was gone, want what was granted, at most %s", lasted, leaseLife)
	}
	if !errors.Is(context.Cause(owned), dedupe.ErrLeaseLost) {
		t.Errorf("the cause is %v", context.Cause(owned))
	}
	eventually(t, "a line about the loss", func() bool { return said.count("a lease is lost") == 1 })
	release()
	srv.Restart()
	acquire(t, r, "connection-host-a")
}

// A Redis that was emptied has no lease; its owner takes it anew unless another
// was faster.
func TestLeaseAfterRedisWasEmptied(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	plain := srv.Client()
	r := openHasty(t, srv.URL(), nil)
	owned, _ := acquire(t, r, "a")
	must(t, plain.FlushAll(t.Context()).Err())
	eventually(t, "the lease is back", func() bool {
		n, err := plain.Exists(t.Context(), "herald:{a}:lease").Result()
		return err == nil && n == 1
	})
	if owned.Err() != nil {
		t.Fatalf("the owner lost what nobody else wanted: %v", context.Cause(owned))
	}
	must(t, plain.Set(t.Context(), "herald:{a}:lease", "another", leaseLife).Err())
	select {
	case <-owned.Done():
	case <-time.After(3 * time.Second):
		t.Fatal("the owner does not see that another has the lease")
	}
	if !errors.Is(context.Cause(owned), dedupe.ErrLeaseLost) {
		t.Errorf("the cause is %v", context.Cause(owned))
	}
}

func TestSoleOwnsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	owned, release, err := dedupe.Sole{}.Acquire(ctx, "anything", nil)
	must(t, err)
	cancel()
	if owned.Err() != nil {
		t.Error("the ownership ended with the context that asked for it")
	}
	release()
	if owned.Err() == nil {
		t.Error("the ownership outlives its release")
	}
	if _, _, err := (dedupe.Sole{}).Acquire(ctx, "anything", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("asking with an ended context: %v", err)
	}
}

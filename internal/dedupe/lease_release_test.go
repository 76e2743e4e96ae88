package dedupe_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/redistest"
)

// Who lost a lease and gives it back late leaves that of the next owner alone.
func TestReleaseLeavesTheNextOwnerAlone(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	plain := srv.Client()
	owned, release := acquire(t, openHasty(t, srv.URL(), nil), "a")
	must(t, plain.Set(t.Context(), "herald:{a}:lease", "another", time.Hour).Err())
	select {
	case <-owned.Done():
	case <-time.After(patience):
		t.Fatal("the owner does not see that another has the lease")
	}
	release()
	if holder, err := plain.Get(t.Context(), "herald:{a}:lease").Result(); err != nil || holder != "another" {
		t.Errorf("after the release the lease is %q: %v", holder, err)
	}
}

func name(i int) string { return fmt.Sprintf("watch/host-%d", i) }

// What is too much for one is asked back, the youngest first and no more than that: what was held for long stays.
func TestHandOverTakesTheYoungest(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	const n = 32
	one := openHasty(t, srv.URL(), nil)
	left := make(chan int, n)
	for i := range n {
		_, release, err := one.Acquire(t.Context(), name(i), func() { left <- i })
		must(t, err)
		t.Cleanup(release)
	}
	other := openHasty(t, srv.URL(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	for i := range n {
		go func() {
			if _, release, err := other.Acquire(ctx, name(i), nil); err == nil {
				release()
			}
			done <- struct{}{}
		}()
	}
	// Nobody who is asked leaves, so each beat asks for more until the share is reached, and no further.
	var asked []int
	for len(asked) < n/2 {
		select {
		case i := <-left:
			asked = append(asked, i)
		case <-time.After(patience):
			t.Fatalf("only %d of %d were asked to leave", len(asked), n/2)
		}
	}
	quiet := time.NewTimer(2 * time.Second)
	defer quiet.Stop()
	select {
	case i := <-left:
		t.Errorf("number %d was asked too, and the share is %d", i, n/2)
	case <-quiet.C:
	}
	for at, i := range asked {
		if want := n - 1 - at; i != want {
			t.Fatalf("asked to leave: %v, want the youngest first", asked)
		}
	}
	cancel()
	for range n {
		<-done
	}
}

package watch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// rotating is a fake Envoy whose token changes. A call bears the token of the moment in which it began, and a hold whose
// token was revoked is refused at its end.
type rotating struct {
	*far
	mu    sync.Mutex
	gives int // token that the source gives
	used  int // token of the newest call
	taken int // oldest that Envoy takes
}

func (r *rotating) bear() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = r.gives
	return r.used
}

func (r *rotating) judge(token int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.taken {
		return refusal(envoy.CodeUnauthenticated, false, 0)
	}
	return nil
}

func (r *rotating) changed(context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gives != r.used
}

// rotate gives a new token and revokes all before it; without the new one, the source has only revoked ones.
func (r *rotating) rotate(given bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken++
	if given {
		r.gives = r.taken
	}
}

func (r *rotating) Status(ctx context.Context, q envoy.StatusRequest) (*envoy.Status, error) {
	token := r.bear()
	if err := r.judge(token); err != nil {
		return nil, err
	}
	s, err := r.far.Status(ctx, q)
	if refused := r.judge(token); err == nil && refused != nil {
		return nil, refused
	}
	return s, err
}

func (r *rotating) Look(ctx context.Context, withAgent bool) (*envoy.Look, error) {
	if err := r.judge(r.bear()); err != nil {
		return nil, err
	}
	return r.far.Look(ctx, withAgent)
}

func (r *rotating) List(ctx context.Context) (*envoy.List, error) {
	if err := r.judge(r.bear()); err != nil {
		return nil, err
	}
	return r.far.List(ctx)
}

// A token that is rotated under a hold, again and again, while looks go out with the new one: the refusal of the hold
// says nothing about the token in use.
func TestTokenRotatedInMidHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &rotating{far: newFar()}
		b := start(t, r, func(o *Options) { o.Connections[0].TokenChanged = r.changed })
		defer b.stop()
		b.pass(30 * time.Second)
		r.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		for i := range 20 {
			r.rotate(true)
			b.pass(time.Duration(7+i) * time.Second)
		}
		r.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.pass(time.Minute)
		b.wantStates(pid(1), "processing:revision verifying:revision")
		if n := len(b.store.noticed(events.NoticeParked)); n != 0 {
			t.Errorf("parked %d times, though there always was a good token", n)
		}
		r.rotate(false)
		b.pass(2 * time.Minute)
		if n := len(b.store.noticed(events.NoticeParked)); n != 1 {
			t.Errorf("%d notices of a token that is revoked", n)
		}
	})
}

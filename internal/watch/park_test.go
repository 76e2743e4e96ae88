package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// token is a token source that a test changes.
type token struct {
	mu     sync.Mutex
	bad    bool // Envoy does not take it
	fresh  bool // the source has another one
	always bool // every reading gives another one
}

func (k *token) changed(context.Context) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	yes := k.fresh || k.always
	if k.fresh {
		k.fresh, k.bad = false, false
	}
	return yes
}

func (k *token) set(bad, fresh, always bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bad, k.fresh, k.always = bad, fresh, always
}

func TestUnauthenticated(t *testing.T) {
	setup := func(t *testing.T) (*far, *bench, *token) {
		f, k := newFar(), &token{}
		refuse := func() error {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.bad {
				return refusal(envoy.CodeUnauthenticated, false, 0)
			}
			return nil
		}
		f.onLook = func(int) error { return refuse() }
		f.onList = func(int) error { return refuse() }
		f.onStatus = func(int, envoy.StatusRequest) error { return refuse() }
		b := start(t, f, func(o *Options) { o.Connections[0].TokenChanged = k.changed })
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		return f, b, k
	}
	t.Run("rotated: no notice", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, b, k := setup(t)
			defer b.stop()
			k.set(true, true, false)
			b.pass(2 * time.Minute)
			f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
			b.pass(time.Minute)
			b.wantStates(pid(1), "processing:revision verifying:revision")
			if n := b.store.noticed(events.NoticeParked); len(n) != 0 {
				t.Errorf("parked: %+v", n[0].Notice)
			}
		})
	})
	t.Run("revoked: parked, tried seldom, resumed", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, b, k := setup(t)
			defer b.stop()
			k.set(true, false, false)
			b.pass(2 * time.Minute)
			if s := b.w.Status()[0]; s.Parked != ParkToken {
				t.Fatalf("status: %+v", s)
			}
			f.forgetCalls()
			b.pass(12 * time.Hour)
			got := gaps(f.made(""))
			if n := len(got); n < 8 || n > 20 || got[n-1] != time.Hour {
				t.Errorf("trials at %v", got)
			}
			if n := len(b.store.noticed(events.NoticeParked)); n != 1 {
				t.Errorf("%d notices of parking", n)
			}
			if n := len(b.store.noticed(events.NoticeBlind)); n != 0 {
				t.Errorf("%d notices of blindness beside", n)
			}
			f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
			k.set(true, true, false) // the source has another token: no need to wait for the trial
			b.pass(time.Minute)
			b.wantStates(pid(1), "processing:revision verifying:revision")
			if n := len(b.store.noticed(events.NoticeResumed)); n != 1 {
				t.Errorf("%d notices of resuming", n)
			}
			if s := b.w.Status()[0]; s.Parked != "" {
				t.Errorf("status: %+v", s)
			}
		})
	})
	t.Run("a source that always changes does not become a storm", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f, b, k := setup(t)
			defer b.stop()
			k.set(true, false, true)
			b.pass(2 * time.Minute)
			f.forgetCalls()
			b.pass(time.Hour)
			if n := len(f.made("")); n > 250 {
				t.Errorf("%d refused calls in an hour", n)
			}
		})
	})
}

// Envoy limits failing authentications by address, so all connections of the process share one budget for them.
func TestFailingAuthenticationsShareOneBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var fars []*far
		var bad atomic.Bool
		b := start(t, newFar(), func(o *Options) {
			o.Connections = nil
			for n := range 30 {
				f := newFar()
				f.onLook = func(int) error {
					if bad.Load() {
						return refusal(envoy.CodeUnauthenticated, false, 0)
					}
					return nil
				}
				fars = append(fars, f)
				o.Connections = append(o.Connections, Connection{Name: fmt.Sprintf("host-%d", n), Reader: f})
			}
		})
		defer b.stop()
		b.pass(time.Minute)
		bad.Store(true)
		b.pass(2 * time.Minute) // each has found out
		for _, f := range fars {
			f.forgetCalls()
		}
		b.pass(10 * time.Minute)
		var all []time.Time
		for _, f := range fars {
			for _, a := range f.made("") {
				all = append(all, a.at)
			}
		}
		if len(all) < 30 {
			t.Fatalf("%d trials", len(all))
		}
		for i, x := range all {
			for j, y := range all {
				if i != j && x.Sub(y).Abs() < authEvery {
					t.Fatalf("two trials within %s", x.Sub(y).Abs())
				}
			}
		}
	})
}

func TestParkedByServiceAndByRefusalOfAllTools(t *testing.T) {
	for _, c := range []struct {
		name string
		code envoy.Code
		want ParkReason
	}{
		{"service", envoy.CodeServiceNotEnabled, ParkService},
		{"all three tools", envoy.CodeNotAllowed, ParkNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := watching(t, f)
				defer b.stop()
				refuse := true
				f.with(func() {
					f.onLook = func(int) error {
						if refuse {
							return refusal(c.code, false, 0)
						}
						return nil
					}
					f.onList = f.onLook
					f.onStatus = func(n int, _ envoy.StatusRequest) error { return f.onLook(n) }
				})
				b.pass(10 * time.Minute)
				if s := b.w.Status()[0]; s.Parked != c.want {
					t.Fatalf("status: %+v", s)
				}
				n := b.store.noticed(events.NoticeParked)
				if len(n) != 1 || n[0].Notice.Code != string(c.code) || n[0].Notice.Support.RequestID != "req_9" {
					t.Errorf("notices: %+v", n)
				}
				f.forgetCalls()
				b.pass(2 * time.Hour)
				if n := len(f.made("")); n < 6 || n > 9 {
					t.Errorf("%d trials in two hours, want one every quarter", n)
				}
				f.with(func() { refuse = false })
				f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
				b.pass(16 * time.Minute)
				if len(b.store.noticed(events.NoticeResumed)) != 1 {
					t.Error("resuming was not told once")
				}
			})
		})
	}
}

func TestClientUpdateParksEveryConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, g := newFar(), newFar()
		b := start(t, f, func(o *Options) { o.Connections = append(o.Connections, Connection{Name: "host-b", Reader: g}) })
		defer b.stop()
		b.pass(time.Minute)
		if err := b.w.Halted(); err != nil {
			t.Errorf("halted from the start: %v", err)
		}
		old := true
		f.with(func() {
			f.onLook = func(int) error {
				if old {
					return refusal(envoy.CodeClientUpdateRequired, false, 0)
				}
				return nil
			}
		})
		b.pass(2 * time.Minute)
		for _, s := range b.w.Status() {
			if s.Parked != ParkClientUpdate {
				t.Errorf("%s: %+v", s.Name, s)
			}
		}
		if n := len(b.store.noticed(events.NoticeParked)); n != 2 {
			t.Errorf("%d notices", n)
		}
		if !errors.Is(b.w.Halted(), ErrHalted) {
			t.Error("a refused version is not told to the process")
		}
		f.with(func() { old = false })
		b.pass(2 * time.Hour)
		if err := b.w.Halted(); err != nil {
			t.Errorf("still halted: %v", err)
		}
		for _, s := range b.w.Status() {
			if s.Parked != "" {
				t.Errorf("%s is still parked", s.Name)
			}
		}
	})
}

package watch

import (
	"errors"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

func refusal(code envoy.Code, retryable bool, after time.Duration) error {
	return &envoy.Error{Code: code, Retryable: retryable, After: after, Meta: envoy.Meta{RequestID: "req_9"}}
}

// gaps are the times between calls.
func gaps(calls []asked) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(calls); i++ {
		out = append(out, calls[i].at.Sub(calls[i-1].at))
	}
	return out
}

// watching is a purchase that is being held when the trouble begins.
func watching(t *testing.T, f *far, edit ...func(*Options)) *bench {
	b := start(t, f, edit...)
	b.pass(30 * time.Second)
	f.put(operated(1, events.StateProcessing))
	b.pass(2 * time.Minute)
	return b
}

func TestRateLimitClosesTheBudgetOfTheToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, g := newFar(), newFar()
		b := start(t, f, func(o *Options) {
			o.Connections = []Connection{
				{Name: "host-a", Reader: f, BudgetKey: "one"}, {Name: "host-b", Reader: g, BudgetKey: "one"},
				{Name: "host-c", Reader: newFar(), BudgetKey: "two"},
			}
		})
		defer b.stop()
		b.pass(time.Minute)
		limited := time.Time{}
		f.with(func() {
			f.onLook = func(int) error {
				if !limited.IsZero() {
					return nil
				}
				limited = time.Now()
				return refusal(envoy.CodeRateLimited, true, 40*time.Second)
			}
		})
		b.pass(70 * time.Second)
		if limited.IsZero() {
			t.Fatal("no look in a minute")
		}
		b.pass(3 * time.Minute)
		for name, far := range map[string]*far{"the limited connection": f, "another with the same token": g} {
			for _, a := range far.made("") {
				if d := a.at.Sub(limited); d > 0 && d < 40*time.Second {
					t.Errorf("%s called %s after the limit", name, d)
				}
			}
		}
		if s := b.w.Status(); s[0].Share != 20 || s[1].Share != 20 || s[2].Share != 40 {
			t.Errorf("shares: %d %d %d", s[0].Share, s[1].Share, s[2].Share)
		}
		b.pass(15 * time.Minute)
		if s := b.w.Status(); s[0].Share != 40 {
			t.Errorf("the share is %d after a quarter of an hour", s[0].Share)
		}
	})
}

func TestUnavailable(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		min, max time.Duration // of the first gap
		last     time.Duration // gaps grow to at least this
	}{
		{"retryable waits as told", refusal(envoy.CodeUnavailable, true, 20*time.Second), 20 * time.Second, 24 * time.Second, 20 * time.Second},
		{"not retryable: a minute, doubling", refusal(envoy.CodeUnavailable, false, time.Second), time.Minute, 62 * time.Second, 10 * time.Minute},
		{"a word of tomorrow, not retryable", refusal("OUT_OF_TEA", false, 0), time.Minute, 62 * time.Second, 10 * time.Minute},
		{"not allowed: a quarter of an hour, doubling", refusal(envoy.CodeNotAllowed, false, 0), 15 * time.Minute, 16 * time.Minute, 6 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := watching(t, f)
				defer b.stop()
				f.with(func() { f.onStatus = func(int, envoy.StatusRequest) error { return c.err } })
				f.forgetCalls()
				f.edit(pid(1), func(*envoy.Purchase) {}) // ends the hold that is open
				b.pass(24 * time.Hour)
				got := gaps(f.made(envoy.ToolStatus))
				if len(got) < 3 || got[0] < c.min || got[0] > c.max {
					t.Fatalf("gaps between reads: %v", got[:min(5, len(got))])
				}
				if last := got[len(got)-1]; last < c.last || last > c.last+c.last/5+time.Minute {
					t.Errorf("the last gap is %s, want about %s", last, c.last)
				}
				if b.w.Status()[0].Parked != "" {
					t.Error("parked, though two tools work")
				}
			})
		})
	}
}

func TestNotFound(t *testing.T) {
	t.Run("seen before: a notice after three replies, and never dropped", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFar()
			b := watching(t, f)
			defer b.stop()
			f.with(func() {
				f.active = ""
				f.onStatus = func(int, envoy.StatusRequest) error { return refusal(envoy.CodeNotFound, false, 0) }
			})
			b.pass(time.Minute)
			f.forgetCalls()
			b.pass(5 * time.Minute)
			n := b.store.noticed(events.NoticeNotFound)
			if len(n) != 1 || n[0].Notice.PurchaseID != pid(1) {
				t.Fatalf("notices: %+v", n)
			}
			for _, d := range gaps(f.made(envoy.ToolStatus)) {
				if d < time.Minute {
					t.Errorf("asked again after %s", d)
				}
			}
			f.forgetCalls()
			b.pass(48 * time.Hour)
			if n := len(f.made(envoy.ToolStatus)); n < 6 || n > 9 {
				t.Errorf("%d reads in two days, want one every six hours", n)
			}
			f.with(func() { f.onStatus = nil })
			f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
			b.pass(7 * time.Hour)
			b.wantStates(pid(1), "processing:revision completed:revision")
		})
	})
	t.Run("registered and never seen: ten minutes by id", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFar()
			b := start(t, f)
			defer b.stop()
			b.pass(30 * time.Second)
			if err := b.w.Register(t.Context(), "host-a", pid(9)); err != nil {
				t.Fatal(err)
			}
			b.pass(9 * time.Minute)
			if n := len(b.store.noticed(events.NoticeNotFound)); n != 0 {
				t.Error("given up too soon")
			}
			b.pass(3 * time.Minute)
			if n := len(b.store.noticed(events.NoticeNotFound)); n != 1 {
				t.Errorf("%d notices", n)
			}
			if refs := b.store.set("host-a").Refs; len(refs) != 0 {
				t.Errorf("still watched: %+v", refs)
			}
			if n := len(b.store.noticed(events.NoticeBlind)); n != 0 {
				t.Error("a purchase that does not exist yet counts as one that is not seen")
			}
		})
	})
}

func TestBadInputIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := watching(t, f)
		defer b.stop()
		f.with(func() {
			f.onStatus = func(int, envoy.StatusRequest) error {
				return &envoy.Error{Code: envoy.CodeInvalidInput, Fields: []string{"/wait_seconds"}}
			}
		})
		b.pass(time.Minute)
		f.forgetCalls()
		b.pass(5 * time.Hour)
		if n := len(f.made(envoy.ToolStatus)); n != 0 {
			t.Errorf("repeated %d times", n)
		}
		n := b.store.noticed(events.NoticeBadInput)
		if len(n) != 1 || len(n[0].Notice.Fields) != 1 || n[0].Notice.Fields[0] != "/wait_seconds" {
			t.Errorf("notices: %+v", n)
		}
		// It is still seen by looks, so nothing is lost.
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "verifying" })
		b.pass(7 * time.Hour)
		b.wantStates(pid(1), "processing:revision verifying:revision")
	})
}

func TestForeignReplies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := watching(t, f)
		defer b.stop()
		f.with(func() { f.rewrite = func(s *envoy.Status) { s.Purchase.PurchaseID = pid(66) } })
		b.pass(4 * time.Minute)
		if n := len(b.store.noticed(events.NoticeForeign)); n != 1 {
			t.Errorf("%d notices", n)
		}
		if n := counter(t, b.w.metrics.foreign); n < 3 {
			t.Errorf("%v foreign replies counted", n)
		}
		b.wantStates(pid(66), "")
		b.wantStates(pid(1), "processing:revision")
	})
}

func TestB29_HostileIDsAreNotPublished(t *testing.T) {
	for _, id := range []string{"a.b", "a b", "*", ">", "x\r\nPUB y 0", "ü", "", "pur_" + string(make([]byte, 300))} {
		bubble(t, func(t *testing.T) {
			f := newFar()
			b := start(t, f)
			defer b.stop()
			b.pass(30 * time.Second)
			f.with(func() {
				p := card(1, events.StateProcessing)
				p.PurchaseID = id
				f.byID[id], f.active = &p, id
				f.list = []envoy.ListItem{{PurchaseID: id, State: "failed", CreatedAt: time.Now()}}
				f.heldMny.Items = []envoy.HeldItem{{PurchaseID: id, State: "held"}}
				if id == "" {
					f.active = ""
				}
			})
			b.pass(10 * time.Minute)
			if n := len(b.store.purchases("")); n != 0 {
				t.Errorf("%q: %d events", id, n)
			}
			if n := len(f.made(envoy.ToolStatus)); n != 0 {
				t.Errorf("%q went into %d requests", id, n)
			}
		})
	}
}

func TestBlindAndSeeingAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		blow func(*far)
		heal func(*far)
	}{
		{"outage", func(f *far) {
			out := &envoy.Outage{Kind: envoy.OutageDial, Err: errors.New("refused")}
			f.onLook = func(int) error { return out }
			f.onList = f.onLook
			f.onStatus = func(int, envoy.StatusRequest) error { return out }
		}, func(f *far) { f.onLook, f.onList, f.onStatus = nil, nil, nil }},
		{"looks that do not know", func(f *far) { f.unknown = true }, func(f *far) { f.unknown = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := start(t, f)
				defer b.stop()
				b.pass(30 * time.Second)
				f.put(card(1, events.StateProcessing))
				b.pass(3 * time.Minute)
				f.with(func() { c.blow(f) })
				b.pass(4*time.Minute + 50*time.Second)
				if n := len(b.store.noticed(events.NoticeBlind)); n != 0 {
					t.Error("alarm too soon")
				}
				b.pass(time.Minute)
				if n := len(b.store.noticed(events.NoticeBlind)); n != 1 {
					t.Fatalf("%d notices of blindness", n)
				}
				if s := b.w.Status()[0]; !s.Blind || counter(t, b.w.metrics.blind) != 1 {
					t.Errorf("status: %+v", s)
				}
				b.pass(time.Hour)
				f.with(func() { c.heal(f) })
				b.pass(3 * time.Minute)
				if n, m := len(b.store.noticed(events.NoticeBlind)), len(b.store.noticed(events.NoticeSeeing)); n != 1 || m != 1 {
					t.Errorf("%d notices of blindness, %d of seeing", n, m)
				}
				if s := b.w.Status()[0]; s.Blind || counter(t, b.w.metrics.blind) != 0 {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
}

// A connection that shows nothing is blind too, though no purchase is known.
func TestBlindWithoutAnyPurchase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		f.unknown = true
		b := start(t, f)
		defer b.stop()
		b.pass(6 * time.Minute)
		if n := len(b.store.noticed(events.NoticeBlind)); n != 1 {
			t.Errorf("%d notices of blindness", n)
		}
	})
}

func TestOutagesGrowAndAHoldThatEndsIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := watching(t, f)
		defer b.stop()
		f.with(func() {
			f.onStatus = func(int, envoy.StatusRequest) error {
				return &envoy.Outage{Kind: envoy.OutageStatus, Status: 504}
			}
		})
		b.pass(time.Minute)
		f.forgetCalls()
		b.pass(20 * time.Minute)
		if n := len(f.made(envoy.ToolStatus)); n < 20 || n > 80 {
			t.Errorf("%d tries in twenty minutes of outage", n)
		}
	})
}

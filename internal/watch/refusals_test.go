package watch

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// The wait that Envoy asks for, plus up to a fifth of it, different for each; without one, half a minute.
func TestRateLimitIsSpreadByAFifth(t *testing.T) {
	for told, least := range map[time.Duration]time.Duration{50 * time.Second: 50 * time.Second, 0: 30 * time.Second} {
		bubble(t, func(t *testing.T) {
			const n = 20
			b := start(t, newFar(), func(o *Options) {
				o.Connections = nil
				for i := range n {
					f := newFar()
					f.onLook = func(int) error { return refusal(envoy.CodeRateLimited, true, told) }
					o.Connections = append(o.Connections, Connection{Name: fmt.Sprintf("host-%d", i), Reader: f})
				}
			})
			defer b.stop()
			began := time.Now()
			shortest, longest := time.Hour, time.Duration(0)
			for closed := 0; closed < n; {
				if b.pass(100 * time.Millisecond); time.Since(began) > 10*time.Second {
					t.Fatalf("%d budgets are closed", closed)
				}
				closed = 0
				for _, s := range b.w.Status() {
					if left := time.Until(s.ClosedUntil); left > 0 {
						closed++
						shortest, longest = min(shortest, left), max(longest, left)
					}
				}
			}
			if longest > least*6/5 || longest < least || longest < least+least/50 {
				t.Errorf("told to wait %s: the longest waits %s", told, longest)
			}
			b.pass(least - 5*time.Second) // the first of them began five seconds before, at the most
			for _, s := range b.w.Status() {
				if s.ClosedUntil.IsZero() && time.Since(began) < least {
					t.Errorf("told to wait %s: %s is open after %s", told, s.Name, time.Since(began))
				}
			}
		})
	}
}

// A refusal that may be repeated and names no wait is not repeated at once.
func TestRetryWithoutAWaitIsNoStorm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := watching(t, f)
		defer b.stop()
		f.with(func() {
			f.onStatus = func(int, envoy.StatusRequest) error { return refusal(envoy.CodeUnavailable, true, 0) }
		})
		f.forgetCalls()
		f.edit(pid(1), func(*envoy.Purchase) {}) // ends the hold that is open
		b.pass(30 * time.Minute)
		if n := len(f.made(envoy.ToolStatus)); n < 20 || n > 120 {
			t.Errorf("%d tries in half an hour", n)
		}
	})
}

// Looks and lists keep the waits of their own refusals.
func TestLooksAndListsKeepTheirWaits(t *testing.T) {
	for _, c := range []struct {
		name        string
		err         error
		first, last time.Duration
	}{
		{"retryable waits as told", refusal(envoy.CodeUnavailable, true, 8*time.Minute), 8 * time.Minute, 8 * time.Minute},
		{"not retryable", refusal(envoy.CodeUnavailable, false, 0), time.Minute, 10 * time.Minute},
		{"not allowed", refusal(envoy.CodeNotAllowed, false, 0), 15 * time.Minute, 6 * time.Hour},
	} {
		for _, tool := range []envoy.Tool{envoy.ToolAccount, envoy.ToolList} {
			t.Run(c.name+"/"+string(tool), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFar()
					b := start(t, f)
					defer b.stop()
					b.pass(30 * time.Second)
					f.put(card(1, events.StateProcessing)) // wants a look every few seconds
					refuse := func(int) error { return c.err }
					f.with(func() {
						if tool == envoy.ToolAccount {
							f.onLook = refuse
						} else {
							f.onList = refuse
						}
					})
					b.pass(6 * time.Minute) // a list is due every five
					f.forgetCalls()
					b.pass(48 * time.Hour)
					got := gaps(f.made(tool))
					if len(got) < 3 {
						t.Fatalf("gaps: %v", got)
					}
					for _, d := range got {
						if d < c.first {
							t.Fatalf("asked again after %s: %v", d, got[:min(8, len(got))])
						}
					}
					if last := got[len(got)-1]; last < c.last || last > c.last*6/5+time.Minute {
						t.Errorf("the last gap is %s, want about %s", last, c.last)
					}
				})
			})
		}
	}
}

// A tool that works in between was not refused: only all three together park the connection.
func TestToolsRefusedInTurnDoNotPark(t *testing.T) {
	tools := []envoy.Tool{envoy.ToolStatus, envoy.ToolAccount, envoy.ToolList}
	for i, well := range tools {
		t.Run(string(well), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := watching(t, f)
				defer b.stop()
				refused := map[envoy.Tool]bool{well: true}
				fault := func(tool envoy.Tool) error {
					if refused[tool] {
						return refusal(envoy.CodeNotAllowed, false, 0)
					}
					return nil
				}
				f.with(func() {
					f.onStatus = func(int, envoy.StatusRequest) error { return fault(envoy.ToolStatus) }
					f.onLook = func(int) error { return fault(envoy.ToolAccount) }
					f.onList = func(int) error { return fault(envoy.ToolList) }
				})
				b.pass(16 * time.Minute)
				f.with(func() { refused[well] = false })
				b.pass(45 * time.Minute) // it was refused twice at the most: asked again after half an hour
				f.with(func() { refused[tools[(i+1)%3]], refused[tools[(i+2)%3]] = true, true })
				b.pass(time.Hour)
				if s := b.w.Status()[0]; s.Parked != "" {
					t.Errorf("parked: %+v", s)
				}
			})
		})
	}
}

// The trials of a refused token: after five minutes, then twice as long each time, up to an hour.
func TestTrialsOfARefusedTokenDouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(time.Minute)
		f.with(func() { f.onLook = func(int) error { return refusal(envoy.CodeUnauthenticated, false, 0) } })
		b.pass(70 * time.Second)
		if s := b.w.Status()[0]; s.Parked != ParkToken {
			t.Fatalf("status: %+v", s)
		}
		since := b.w.Status()[0].ParkedSince
		f.forgetCalls()
		b.pass(4 * time.Hour)
		want := 5 * time.Minute
		for i, a := range f.made("") {
			if d := a.at.Sub(since); d < want || d > want+2*time.Second {
				t.Errorf("trial %d after %s, want %s", i+1, d, want)
			}
			since, want = a.at, min(2*want, time.Hour)
		}
		if want != time.Hour {
			t.Errorf("the wait grew to %s only", want)
		}
	})
}

// A trial that fails for another reason than the park is made again soon, but not at once.
func TestTrialsDuringAnOutageAreNoStorm(t *testing.T) {
	for _, code := range []envoy.Code{envoy.CodeUnauthenticated, envoy.CodeServiceNotEnabled} {
		t.Run(string(code), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := start(t, f)
				defer b.stop()
				b.pass(time.Minute)
				f.with(func() { f.onLook = func(int) error { return refusal(code, false, 0) } })
				b.pass(2 * time.Minute)
				if s := b.w.Status()[0]; s.Parked == "" {
					t.Fatalf("status: %+v", s)
				}
				f.with(func() { f.onLook = func(int) error { return &envoy.Outage{Kind: envoy.OutageDial} } })
				b.pass(20 * time.Minute)
				f.forgetCalls()
				b.pass(time.Hour)
				if n := len(f.made("")); n < 40 || n > 300 {
					t.Errorf("%d trials in an hour of outage", n)
				}
				f.with(func() { f.onLook = nil })
				b.pass(2 * time.Minute)
				if n := len(b.store.noticed(events.NoticeResumed)); n != 1 {
					t.Errorf("%d notices of resuming", n)
				}
			})
		})
	}
}

// Three replies that a purchase seen before does not exist, a minute apart, are told; two are not.
func TestNotFoundIsToldAfterThreeRepliesAMinuteApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := watching(t, f)
		defer b.stop()
		told := []int{} // notices before each of the replies
		var asked []time.Time
		f.with(func() {
			f.active = ""
			f.onStatus = func(int, envoy.StatusRequest) error {
				told, asked = append(told, len(b.store.noticed(events.NoticeNotFound))), append(asked, time.Now())
				return refusal(envoy.CodeNotFound, false, 0)
			}
		})
		b.pass(10 * time.Minute)
		n := b.store.noticed(events.NoticeNotFound)
		if len(asked) != 3 || told[2] != 0 || len(n) != 1 || n[0].Notice.Count != 3 {
			t.Fatalf("asked at %v, notices before: %v, after: %d", asked, told, len(n))
		}
		for i, at := range asked[1:] {
			if d := at.Sub(asked[i]); d < time.Minute || d > 90*time.Second {
				t.Errorf("asked again after %s, want a minute", d)
			}
		}
	})
}

// A ready reply is told once a day, and again on the next.
func TestReadyRepliesAreToldOnceADay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		for n := 1; n <= 3; n++ {
			f.put(card(n, events.StateWaitingForUser))
			b.pass(2 * time.Minute)
			f.edit(pid(n), func(p *envoy.Purchase) { p.State = "ready" })
			b.pass(time.Minute)
			f.edit(pid(n), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
			b.pass(24 * time.Hour)
		}
		if n := len(b.store.noticed(events.NoticeReadyReply)); n != 3 {
			t.Errorf("%d notices on three days", n)
		}
	})
}

// Notices that cannot be stored do not fill the memory: the oldest are lost.
func TestNoticesThatCannotBeStoredAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, newFar())
		defer b.stop()
		b.pass(30 * time.Second)
		b.store.with(func() { b.store.noBus = true })
		waiting := 0
		err := b.w.inTerm(t.Context(), "host-a", func(ctx context.Context, m *term, now time.Time) error {
			for n := range 2 * noticeLimit {
				m.say(ctx, events.NoticeForeign, now, events.Notice{Count: int64(n)})
			}
			waiting = len(m.notices.queue)
			return nil
		})
		if err != nil || waiting > noticeLimit {
			t.Errorf("%d notices wait: %v", waiting, err)
		}
		b.store.with(func() { b.store.noBus = false })
		b.pass(time.Minute)
		told := b.store.noticed(events.NoticeForeign)
		if n := len(told); n < noticeLimit || told[n-1].Notice.Count != 2*noticeLimit-1 {
			t.Errorf("%d notices were stored, and the newest is not among them", n)
		}
	})
}

// overtaken has another owner ahead at each publish.
type overtaken struct{ *store }

func (overtaken) Publish(context.Context, events.Event, uint64) (uint64, error) {
	return 0, events.ErrNewer
}

// Who finds another owner ahead lets it be for a while before it asks for the lease again.
func TestOvertakenOwnerWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &asking{leases: newLeases()}
		f := newFar()
		f.put(card(1, events.StateProcessing))
		b := start(t, f, func(o *Options) {
			o.Leases, o.Publisher = l, overtaken{o.Publisher.(*store)}
			o.Policy.RequestsPerMinute = 6000 // nothing else may slow it down
		})
		defer b.stop()
		last := time.Time{}
		for range 600 {
			before := l.times()
			b.pass(100 * time.Millisecond)
			if l.times() == before {
				continue
			}
			if d := time.Since(last); d < 4*time.Second {
				t.Fatalf("asked for again after %s", d)
			}
			last = time.Now()
		}
		if n := l.times(); n < 4 {
			t.Errorf("asked for %d times in a minute", n)
		}
	})
}

// A seat that is taken anew begins with nothing, and one that wants nothing any more lets the others go.
func TestSeatsAtABudget(t *testing.T) {
	bs := budgets{perMinute: 60, byKey: map[string]*budget{}}
	b := bs.get("token")
	one, two := newSeat(), newSeat()
	b.join(one, t0)
	b.take(one, wish{since: t0}, t0)
	b.pass(one, t0)
	b.leave(one, t0.Add(30*time.Second))
	now := t0.Add(time.Minute)
	b.join(one, now)
	if ok, _ := b.take(one, wish{since: now}, now); ok {
		t.Error("a new owner has what the one before saved")
	}
	b.join(two, now)
	later := now.Add(time.Second + time.Millisecond)
	b.take(two, wish{class: classDiscover, since: now}, now)
	b.take(one, wish{class: classFirst, since: now}, now)
	for len(two.wake) > 0 {
		<-two.wake
	}
	b.pass(one, later)
	if len(two.wake) == 0 {
		t.Error("the other was not woken")
	}
	if ok, _ := b.take(two, wish{class: classDiscover, since: now}, later); !ok {
		t.Error("the other waits for one that wants nothing")
	}
}

// Two replies about another purchase are no news yet, and neither are any number with good ones between.
func TestForeignRepliesAreToldAtTheThirdInARow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := watching(t, f)
		defer b.stop()
		replies, wrong := 0, func(n int) bool { return n%3 != 0 }
		f.with(func() {
			f.rewrite = func(s *envoy.Status) {
				if replies++; wrong(replies) {
					s.Purchase.PurchaseID = pid(66)
				}
			}
		})
		b.pass(time.Hour)
		if n := counter(t, b.w.metrics.foreign); n < 20 {
			t.Errorf("%v foreign replies counted", n)
		}
		if n := len(b.store.noticed(events.NoticeForeign)); n != 0 {
			t.Errorf("%d notices, and never three in a row", n)
		}
		f.with(func() { replies, wrong = 0, func(n int) bool { return n <= 3 } })
		b.pass(10 * time.Minute)
		if n := b.store.noticed(events.NoticeForeign); len(n) != 1 || n[0].Notice.Count != 3 {
			t.Errorf("%d notices of three in a row", len(n))
		}
	})
}

// Trials of refused tokens are five seconds apart over all connections, also where the budget of a token makes its own late.
func TestLateTrialsAreSpacedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var fars []*far
		b := start(t, newFar(), func(o *Options) {
			o.Connections, o.Policy.RequestsPerMinute = nil, 1 // they begin together, and their budgets let them go together
			for n := range 8 {
				f := newFar()
				f.onLook = func(int) error { return refusal(envoy.CodeUnauthenticated, false, 0) }
				f.onList = f.onLook
				fars = append(fars, f)
				o.Connections = append(o.Connections, Connection{
					Name: fmt.Sprintf("host-%d", n), Reader: f, TokenChanged: func(context.Context) bool { return true },
				})
			}
		})
		defer b.stop()
		b.pass(70 * time.Second) // each has found out
		for _, f := range fars {
			f.forgetCalls()
		}
		b.pass(30 * time.Minute)
		var all []time.Time
		for i, f := range fars {
			made := f.made("")
			if len(made) == 0 {
				t.Errorf("host-%d has no turn in half an hour", i)
			}
			for _, a := range made {
				all = append(all, a.at)
			}
		}
		slices.SortFunc(all, time.Time.Compare)
		if len(all) < 100 {
			t.Errorf("%d trials", len(all))
		}
		for i := 1; i < len(all); i++ {
			if d := all[i].Sub(all[i-1]); d < authEvery {
				t.Fatalf("two trials within %s", d)
			}
		}
	})
}

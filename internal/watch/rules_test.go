package watch

import (
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

func TestChangesArePublishedOnceInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(time.Minute)
		f.put(operated(1, events.StateWaitingForUser))
		b.pass(2 * time.Minute)
		for _, s := range []events.State{events.StateProcessing, events.StateVerifying, events.StateCompleted} {
			f.edit(pid(1), func(p *envoy.Purchase) {
				p.State = string(s)
				if s == events.StateCompleted {
					p.Money.Status = "debited"
				}
			})
			b.pass(20 * time.Second)
		}
		b.pass(time.Hour)
		b.wantStates(pid(1), "waiting_for_user:revision processing:revision verifying:revision completed:revision")
		list := b.store.purchases(pid(1))
		for i, e := range list[1:] {
			if p := e.Purchase.Previous; p == nil || p.ID != list[i].ID {
				t.Errorf("%s does not name the event before it: %+v", e.ID, p)
			}
		}
		if c := b.store.cursor(pid(1)); c.EventID != list[3].ID || c.Sequence == 0 {
			t.Errorf("cursor is %+v", c)
		}
		if refs := b.store.set("host-a").Refs; len(refs) != 0 {
			t.Errorf("a settled purchase is still in the set: %+v", refs)
		}
		f.forgetCalls()
		b.pass(time.Hour)
		if n := len(f.made(envoy.ToolStatus)); n != 0 {
			t.Errorf("a settled purchase was read %d times", n)
		}
	})
}

func TestFirstContactIsABaseline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		month := time.Now().Add(-30 * 24 * time.Hour)
		old := func(n int, s events.State, created time.Time) {
			p := card(n, s)
			p.CreatedAt = created
			if s == events.StateCompleted {
				p.Money.Status = "debited"
			}
			f.put(p)
		}
		old(1, events.StateCompleted, month)
		old(2, events.StateFailed, month)
		old(3, events.StateCompleted, time.Now().Add(-time.Hour))
		old(4, events.StateFailed, time.Now().Add(-time.Hour)) // nothing held: settled
		old(5, events.StateCancelled, time.Now().Add(-24*time.Hour))
		f.byID[pid(5)].Money.Status = "refund_pending"
		old(6, events.StateCompleted, month) // held money
		f.list = f.list[:5]
		f.heldMny.Items = []envoy.HeldItem{{PurchaseID: pid(6), State: "held", Exact: true}}
		f.put(card(7, events.StateProcessing)) // active
		f.put(card(8, events.StateNeedsDetails))
		b := start(t, f)
		defer b.stop()
		b.pass(5 * time.Minute)
		for n, want := range map[int]string{
			1: "", 2: "", 3: "", 4: "", 5: "cancelled:baseline", 6: "completed:baseline", 7: "processing:baseline",
			8: "needs_details:baseline",
		} {
			b.wantStates(pid(n), want)
		}
		if s := b.store.set("host-a"); !s.Baselined {
			t.Error("first contact is not remembered")
		}
		for _, a := range f.made(envoy.ToolStatus) {
			for _, n := range []int{1, 2, 3} {
				if a.req.Purchase == pid(n) {
					t.Errorf("purchase %d, long over, was read", n)
				}
			}
		}
		// What ends after first contact is told, also when it came and went between two looks.
		old(9, events.StateCompleted, time.Now())
		b.pass(6 * time.Minute)
		b.wantStates(pid(9), "completed:revision")
	})
}

// What was learned of a ready reply outlives a restart: the purchase is not held, and the day's notice is not said again.
func TestReadyReplyIsRememberedOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		f.put(card(1, events.StateWaitingForUser))
		b.pass(2 * time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "ready" })
		b.pass(time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State = "waiting_for_user" })
		b.pass(time.Minute)
		b.stop()
		b.restart(f)
		defer b.stop()
		f.forgetCalls()
		b.pass(5 * time.Minute)
		for _, a := range f.made(envoy.ToolStatus) {
			t.Errorf("it was ready once, and is read again: %+v", a)
		}
		f.put(card(2, events.StateWaitingForUser))
		b.pass(2 * time.Minute)
		f.edit(pid(2), func(p *envoy.Purchase) { p.State = "ready" })
		b.pass(time.Minute)
		if n := len(b.store.noticed(events.NoticeReadyReply)); n != 1 {
			t.Errorf("%d notices on one day, want 1", n)
		}
	})
}

// Whose purchases are this connection's is known after a restart before any look says so.
func TestOwnAgentIsRememberedOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(time.Minute)
		b.stop()
		f.onLook = func(int) error { return refusal(envoy.CodeNotAllowed, false, 0) }
		b.restart(f)
		defer b.stop()
		b.pass(20 * time.Second)
		p := operated(1, events.StateCompleted)
		p.Money.Status, p.Agent.AgentID = "debited", "agent-of-others"
		f.put(p)
		if err := b.w.Register(t.Context(), "host-a", pid(1)); err != nil {
			t.Fatal(err)
		}
		b.pass(20 * time.Minute)
		b.wantStates(pid(1), "")
	})
}

func TestWhosePurchase(t *testing.T) {
	for _, c := range []struct {
		name   string
		agent  string
		others bool
		want   string
	}{
		{"mine", me, false, "processing:revision"},
		{"unknown", "", false, "processing:revision"},
		{"another host's", "agent-of-others", false, ""},
		{"another host's, wanted", "agent-of-others", true, "processing:revision"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFar()
				b := start(t, f, func(o *Options) { o.Policy.Others = c.others })
				defer b.stop()
				b.pass(30 * time.Second)
				p := operated(1, events.StateProcessing)
				p.Agent.AgentID = c.agent
				f.put(p)
				f.with(func() { f.byID[pid(1)].Agent.AgentID = c.agent })
				b.pass(5 * time.Minute)
				b.wantStates(pid(1), c.want)
				if c.want == "" && len(f.made(envoy.ToolStatus)) > 0 {
					t.Error("another host's purchase was read")
				}
			})
		})
	}
}

func TestReadyReplyIsStrippedCountedAndToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		for n := 1; n <= 2; n++ {
			f.put(card(n, events.StateWaitingForUser))
			b.pass(2 * time.Minute) // a look finds it, a hold begins
			f.edit(pid(n), func(p *envoy.Purchase) { p.State = "ready" })
			b.pass(time.Second)
			f.forgetCalls()
			b.pass(3 * time.Minute)
			b.wantStates(pid(n), "waiting_for_user:revision ready:revision")
			for _, a := range f.made(envoy.ToolStatus) {
				t.Errorf("ready, and read again: %+v", a)
			}
			f.edit(pid(n), func(p *envoy.Purchase) { p.State = "waiting_for_user" })
			b.pass(3 * time.Minute)
			for _, a := range f.made(envoy.ToolStatus) {
				t.Errorf("it was ready once, and is held again: %+v", a)
			}
			f.edit(pid(n), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
			b.pass(3 * time.Minute)
			b.wantStates(pid(n), "waiting_for_user:revision ready:revision waiting_for_user:revision completed:revision")
		}
		if n := len(b.store.noticed(events.NoticeReadyReply)); n != 1 {
			t.Errorf("%d notices on one day, want 1", n)
		}
		if n := counter(t, b.w.metrics.readyReplies.WithLabelValues("waiting_for_user")); n != 2 {
			t.Errorf("%v ready replies counted, want 2", n)
		}
	})
}

// A hold that the table does not have any more is ended by us: its reply could carry a card.
func TestHoldEndsWhenALookForbidsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f, func(o *Options) { o.Policy.DiscoverEvery = 10 * time.Second })
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(card(1, events.StateWaitingForUser))
		b.pass(70 * time.Second)
		for from := len(f.made(envoy.ToolStatus)); len(f.made(envoy.ToolStatus)) == from; {
			b.pass(time.Second) // until a new hold begins, which lasts for half a minute at least
		}
		f.mu.Lock()
		p := *f.byID[pid(1)]
		p.Revision, p.State = 2, "processing"
		f.byID[pid(1)] = &p // without waking holds: the replica they hang on lags
		f.mu.Unlock()
		b.pass(12 * time.Second)
		if h := b.w.Status()[0].Holds; h != 0 {
			t.Errorf("%d holds are open in a look cell", h)
		}
		if n := counter(t, b.w.metrics.calls.WithLabelValues("get_purchase_status", "cancelled")); n != 1 {
			t.Errorf("%v holds were ended by us, want 1", n)
		}
		b.wantStates(pid(1), "waiting_for_user:revision processing:revision")
	})
}

func TestNextIsFollowedAsItCame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		args := `{ "purchase":"` + pid(1) + `", "after_revision":0,"wait_seconds":45 }`
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.next[pid(1)] = envoy.Next{Action: "call_tool", Tool: ptr("get_purchase_status"), Args: []byte(args), AfterSeconds: ptr(int64(4))}
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		var followed []asked
		for _, a := range f.made(envoy.ToolStatus) {
			if a.req.Args != nil {
				followed = append(followed, a)
			}
		}
		if len(followed) == 0 {
			t.Fatal("next was not followed")
		}
		for _, a := range followed {
			if string(a.req.Args) != args || a.req.AfterRevision == nil || *a.req.AfterRevision != 0 {
				t.Errorf("sent %s, want %s", a.req.Args, args)
			}
		}
		all := f.made(envoy.ToolStatus)
		for i, a := range all[1:] {
			if a.req.Args != nil && a.at.Sub(all[i].at) < 4*time.Second {
				t.Errorf("after %s, before the time that next names", a.at.Sub(all[i].at))
			}
		}
	})
}

func TestNextOfAnotherPurchaseIsANewWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		two := operated(2, events.StateVerifying)
		f.put(two)
		f.with(func() {
			f.list = f.list[:1]
			f.next[pid(1)] = envoy.Next{Tool: ptr("get_purchase_status"), Args: []byte(`{"purchase":"` + pid(2) + `"}`)}
		})
		b.pass(3 * time.Minute)
		b.wantStates(pid(2), "verifying:revision")
		for _, a := range f.made(envoy.ToolStatus) {
			if a.req.Purchase == pid(1) && a.req.Args != nil {
				t.Errorf("another purchase's arguments went out for this one: %s", a.req.Args)
			}
		}
	})
}

func TestLowerRevisions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		p := operated(1, events.StateVerifying)
		p.Revision = 7
		f.put(p)
		b.pass(2 * time.Minute)
		// Once, it is a replica that lags.
		lag := 1
		f.with(func() {
			f.rewrite = func(s *envoy.Status) {
				if lag > 0 {
					lag--
					s.Purchase.Revision, s.Purchase.State = 6, "processing"
				}
			}
		})
		b.pass(5 * time.Minute)
		b.wantStates(pid(1), "verifying:revision")
		if n := counter(t, b.w.metrics.lower); n != 1 {
			t.Errorf("%v lower replies counted, want 1", n)
		}
		// Again and again: the far side was restored.
		f.with(func() { lag, f.active = 1<<30, "" })
		b.pass(10 * time.Minute)
		b.wantStates(pid(1), "verifying:revision processing:reset")
		last := b.store.purchases(pid(1))[1]
		if r := last.Purchase.Reading; r.Epoch != 1 || r.Revision != 6 {
			t.Errorf("the new epoch is at %+v", r)
		}
		if n := b.store.noticed(events.NoticeReset); len(n) != 1 || n[0].Notice.PurchaseID != pid(1) {
			t.Errorf("notices of the reset: %+v", n)
		}
	})
}

func TestOverdueIsToldOncePerReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		f.skew = 7 * time.Hour // Envoy's clock counts, not ours
		b := start(t, f)
		b.pass(30 * time.Second)
		p := card(1, events.StateWaitingForUser)
		p.Approval.DecideBy = ptr(time.Now().Add(f.skew + 10*time.Minute))
		f.put(p)
		b.pass(9*time.Minute + 30*time.Second)
		b.wantStates(pid(1), "waiting_for_user:revision")
		b.pass(time.Hour)
		b.wantStates(pid(1), "waiting_for_user:revision waiting_for_user:reading:overdue")
		b.stop()
		b.restart(f)
		b.pass(time.Hour)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Approval.State = "failed", ptr("expired") })
		b.pass(time.Hour)
		b.stop()
		b.wantStates(pid(1), "waiting_for_user:revision waiting_for_user:reading:overdue failed:revision")
	})
}

// A deadline that Envoy moves on before it passes is not overdue.
func TestDeadlineThatMovesIsNotOverdue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		f.with(func() {
			f.rewrite = func(s *envoy.Status) { s.Next.By = ptr(s.ServerTime.Add(5 * time.Minute)) }
		})
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(3 * time.Hour)
		b.wantStates(pid(1), "processing:revision")
	})
}

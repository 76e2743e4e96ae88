package events

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFollow(t *testing.T) {
	last := Reading{Revision: 4, Situation: SituationConfirming, Money: MoneyUnknown, Unsettled: true}
	c := Cursor{Position: Position{Epoch: 2, Revision: 4, N: 3}, Last: last, EventID: EventID(purchaseA, Position{2, 4, 3})}
	other := last
	other.Situation = SituationNeedsSupport
	higher, lower := last, last
	higher.Revision, lower.Revision = 9, 3
	for name, w := range map[string]struct {
		known bool
		r     Reading
		step  Step
		at    Position
		cause Cause
	}{
		"not known":     {false, last, StepNew, Position{0, 4, 0}, CauseRevision},
		"same":          {true, last, StepSame, c.Position, ""},
		"other reading": {true, other, StepNew, Position{2, 4, 4}, CauseReading},
		"higher":        {true, higher, StepNew, Position{2, 9, 0}, CauseRevision},
		"lower":         {true, lower, StepLower, c.Position, ""},
	} {
		step, at, cause := Follow(c, w.known, w.r)
		if step != w.step || at != w.at || cause != w.cause {
			t.Errorf("%s: %s %+v %q", name, step, at, cause)
		}
	}
	if at := NewEpoch(c, lower); at != (Position{3, 3, 0}) {
		t.Errorf("new epoch at %+v", at)
	}
}

// TestFollowEachPartOfAReading: a change of any part is news.
func TestFollowEachPartOfAReading(t *testing.T) {
	r := Reading{Revision: 1, Situation: SituationStopped, Money: MoneyNotCharged, Terminal: true}
	c := Cursor{Position: Position{Revision: 1}, Last: r, EventID: "x"}
	for name, change := range map[string]func(*Reading){
		"situation": func(r *Reading) { r.Situation = SituationNeedsSupport },
		"money":     func(r *Reading) { r.Money = MoneyUnknown },
		"unsettled": func(r *Reading) { r.Unsettled = true },
		"terminal":  func(r *Reading) { r.Terminal = false },
	} {
		n := r
		change(&n)
		if step, at, cause := Follow(c, true, n); step != StepNew || at.N != 1 || cause != CauseReading {
			t.Errorf("%s: %s %+v %s", name, step, at, cause)
		}
	}
}

func TestCompare(t *testing.T) {
	ordered := []Position{{}, {0, 0, 1}, {0, 1, 0}, {0, 1, 7}, {0, 9, 0}, {1, 0, 0}, {1, 0, 2}, {2, 0, 0}}
	for i, a := range ordered {
		for k, b := range ordered {
			want := 0
			if i < k {
				want = -1
			} else if i > k {
				want = 1
			}
			if got := Compare(a, b); got != want {
				t.Errorf("%+v, %+v: %d", a, b, got)
			}
		}
	}
}

// TestCursorWalk follows a purchase through random readings: the position only
// rises, each published reading is the same when read again, and the chain of
// previous ids has no hole.
func TestCursorWalk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var c Cursor
		var prev *Event
		for seq := uint64(1); seq < 12; seq++ {
			s, f := drawSnapshot(rt), drawFacts(rt)
			s.PurchaseID, s.Revision = purchaseA, rapid.Int64Range(0, 4).Draw(rt, "small revision")
			j := Judge(s, f)
			step, p, cause := Follow(c, prev != nil, ReadingOf(s, j))
			if step == StepLower && rapid.Bool().Draw(rt, "restored") {
				step, p, cause = StepNew, NewEpoch(c, ReadingOf(s, j)), CauseReset
			}
			if step != StepNew {
				continue
			}
			if prev != nil && Compare(p, c.Position) <= 0 {
				rt.Fatalf("%+v after %+v", p, c.Position)
			}
			e := New(s, f, j, p, cause, prev, c, Options{})
			if prev != nil && e.Purchase.Previous.ID != prev.ID || prev == nil && e.Purchase.Previous != nil {
				rt.Fatalf("previous of %s is %+v", e.ID, e.Purchase.Previous)
			}
			c = c.Advanced(e, seq, at(int(seq)), false)
			if again, _, _ := Follow(c, true, ReadingOf(s, j)); again != StepSame {
				rt.Fatalf("read again: %s", again)
			}
			prev = &e
		}
	})
}

func TestCursorAdvanced(t *testing.T) {
	first := sampleConfirming()
	c := Cursor{}.Advanced(first, 7, at(1), true)
	if c.Sequence != 7 || c.EventID != first.ID || c.Position != first.Position() || c.State != StateVerifying ||
		!c.PassedApproval || c.Last != first.Reading() || !c.Published.Equal(at(1)) || c.ChainRoot != first.Subject {
		t.Fatalf("%+v", c)
	}
	earlier := first
	p := *first.Purchase
	p.Reading.Revision = 1
	earlier.Purchase = &p
	if got := c.Advanced(earlier, 8, at(2), false); got != c {
		t.Errorf("went back to %+v", got)
	}
	if got := c.Advanced(sampleNotice(), 8, at(2), false); got != c {
		t.Errorf("a notice moved it to %+v", got)
	}
	if got := c.Advanced(first, 9, at(2), false); !got.PassedApproval {
		t.Error("forgot that approval was passed")
	}
}

// TestOverdueIsSaidOncePerReading: neither the overdue event itself nor a sign
// of life asks for a second one; a new reading does.
func TestOverdueIsSaidOncePerReading(t *testing.T) {
	e := sampleConfirming()
	c := Cursor{}.Advanced(e, 1, at(6), true)
	late := NewOverdue(e, DeadlineNext, at(20))
	if late.ID != e.ID+"-overdue" || late.Type != TypeOverdue || !late.Time.Equal(at(20)) ||
		late.Purchase.Previous.ID != e.ID || late.Purchase.Overdue.Deadline != DeadlineNext {
		t.Fatalf("%+v", late)
	}
	if cause := late.Purchase.Reading.Cause; cause == CauseBaseline || cause == CauseStill {
		t.Errorf("cause %s would be passed on to nobody", cause)
	}
	c = c.Advanced(late, 2, at(21), true)
	if c.OverdueFor != e.ID || c.EventID != late.ID || Compare(c.Position, e.Position()) != 0 {
		t.Fatalf("%+v", c)
	}
	alive := Still(late, Position{e.Position().Epoch, e.Position().Revision, e.Position().N + 1})
	if alive.Type != TypeChanged || alive.Purchase.Overdue != nil || alive.Purchase.Reading.Cause != CauseStill ||
		alive.Purchase.Previous.ID != late.ID || !alive.Time.Equal(e.Time) {
		t.Fatalf("%+v", alive)
	}
	if late.Purchase.Overdue == nil || e.Purchase.Overdue != nil {
		t.Error("an event that follows changed the one before")
	}
	c = c.Advanced(alive, 3, at(30), true)
	if c.OverdueFor != alive.ID {
		t.Errorf("overdue of the still event was said: %q", c.OverdueFor)
	}
	if again := NewOverdue(late, DeadlineNext, at(20)); again.ID != late.ID {
		t.Errorf("overdue of an overdue is %s", again.ID)
	}
	moved := e
	p := *e.Purchase
	p.Reading.Revision++
	moved.ID, moved.Purchase = EventID(e.Subject, Position{0, p.Reading.Revision, 0}), &p
	if c = c.Advanced(moved, 4, at(31), true); c.OverdueFor == moved.ID {
		t.Error("a new reading has its own overdue")
	}
}

func TestDeadlines(t *testing.T) {
	approved, closed := "approved", true
	early, mid, late := at(10), at(20), at(30)
	for name, w := range map[string]struct {
		p    Purchase
		now  time.Time
		due  string
		next string
	}{
		"none known":         {Purchase{}, late, "", ""},
		"to come":            {Purchase{Deadlines: Deadlines{NextBy: &mid, ApprovalBy: &early}}, at(5), "", DeadlineApproval},
		"earliest passed":    {Purchase{Deadlines: Deadlines{NextBy: &mid, ApprovalBy: &early}}, at(25), DeadlineApproval, ""},
		"at the moment":      {Purchase{Deadlines: Deadlines{UserActionBy: &mid}}, mid, DeadlineUserAction, ""},
		"one of each":        {Purchase{Deadlines: Deadlines{FundingExpires: &early, SpendingExpires: &late}}, mid, DeadlineFunding, DeadlineSpending},
		"approval decided":   {Purchase{Approval: Approval{State: approved}, Deadlines: Deadlines{ApprovalBy: &early}}, mid, "", ""},
		"spending closed":    {Purchase{PaymentReady: PaymentReady{Closed: &closed}, Deadlines: Deadlines{SpendingExpires: &early}}, mid, "", ""},
		"settled":            {Purchase{Terminal: true, Deadlines: Deadlines{NextBy: &early}}, mid, "", ""},
		"ended and unproven": {Purchase{Terminal: true, Unsettled: true, Deadlines: Deadlines{NextBy: &early, ApprovalBy: &early}}, mid, DeadlineNext, ""},
	} {
		e := Event{Purchase: &w.p}
		name1, _, ok1 := DueDeadline(e, w.now)
		name2, _, ok2 := NextDeadline(e, w.now)
		if name1 != w.due || ok1 != (w.due != "") || name2 != w.next || ok2 != (w.next != "") {
			t.Errorf("%s: due %q, next %q", name, name1, name2)
		}
	}
	if _, _, ok := DueDeadline(sampleNotice(), late); ok {
		t.Error("a notice has no deadline")
	}
}

package watch

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// full is a purchase with every field set to something of its own.
func full() envoy.Purchase {
	at := time.Date(2026, 11, 3, 1, 2, 3, 0, time.UTC)
	return envoy.Purchase{
		PurchaseID: pid(1), IdempotencyKey: "canary-key-of-the-agent", Revision: 3, Terminal: true, State: "completed",
		UserTask: ptr("approve"), ReasonCode: ptr("USER_DECLINED"), StatusText: "status", Rail: ptr("otu_card"),
		RailReason: ptr("RAIL_OTU_PREFERRED"), CheckoutBy: ptr("agent"),
		Merchant: envoy.Merchant{Name: "shop", URL: "https://shop.example.test/path"},
		Amount:   envoy.Amount{Minor: 9007199254740993, Currency: "INR", Display: "lots"}, Description: ptr("things"),
		Details:      envoy.Details{Complete: true, Missing: []string{"address"}},
		Question:     &envoy.Question{ID: "q1", Kind: "text", Prompt: "which?", AskedAt: at},
		Approval:     envoy.Approval{State: ptr("approved"), Method: ptr("passkey"), DecideBy: &at},
		PaymentReady: envoy.Payment{Available: true, Kind: ptr("card"), ExpiresAt: &at, Closed: ptr(false)},
		Money: envoy.Money{
			Status: "debited", Paid: &envoy.Amount{Minor: 9007199254740993, Currency: "INR", Display: "paid"}, MerchantOrderRef: ptr("ORD-1"),
		},
		Receipt: &envoy.Receipt{
			MerchantOrderRef: ptr("ORD-2"), Paid: envoy.Amount{Minor: 5, Currency: "INR", Display: "five"},
			Card: &envoy.Card{Network: "rupay", Last4: "4242"}, CompletedAt: at,
		},
		Chain:     envoy.Chain{Supersedes: ptr(pid(2)), SupersededBy: ptr(pid(3))},
		Agent:     envoy.Agent{AgentID: "agent", DisplayName: "Agent", Verification: "cimd"},
		CreatedAt: at, UpdatedAt: at.Add(time.Second),
		Funding: &envoy.Funding{Amount: envoy.Amount{Minor: 7, Currency: "INR", Display: "seven"}, ExpiresAt: &at},
	}
}

// Every field of the snapshot is filled from the purchase, and none with the idempotency key.
func TestProjectFillsEveryFieldAndNothingElse(t *testing.T) {
	s := project(full())
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not filled", v.Type().Field(i).Name)
		}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "canary") {
		t.Errorf("the key is in the snapshot: %s", raw)
	}
}

func TestB22_LargeNumbersPassDigitForDigit(t *testing.T) {
	s := project(full())
	f := events.Facts{Connection: "host-a"}
	j := events.Judge(s, f)
	e := events.New(s, f, j, events.Position{Revision: 3}, events.CauseRevision, nil, events.Cursor{}, events.Options{})
	raw, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), "9007199254740993"); n != 2 || strings.Contains(string(raw), "9007199254740992") {
		t.Errorf("%d times in %s", n, raw)
	}
}

func TestB23_ZeroNullAndMissingStayApart(t *testing.T) {
	p := full()
	p.Money.Paid, p.Funding, p.PaymentReady.Closed, p.Receipt, p.Question = nil, nil, nil, nil, nil
	s := project(p)
	if s.Money.Paid != nil || s.Funding != nil || s.PaymentReady.Closed != nil || s.Receipt != nil || s.Question != nil {
		t.Errorf("nothing became something: %+v", s)
	}
	p.Money.Paid, p.PaymentReady.Closed = &envoy.Amount{Currency: "INR"}, ptr(false)
	s = project(p)
	if s.Money.Paid == nil || s.Money.Paid.Minor != 0 || s.PaymentReady.Closed == nil || *s.PaymentReady.Closed {
		t.Errorf("zero or false became nothing: %+v", s)
	}
}

// A snapshot does not share memory with the reply it came from.
func TestProjectCopies(t *testing.T) {
	p := full()
	s := project(p)
	*p.PaymentReady.Closed, p.Details.Missing[0], *p.Approval.DecideBy, p.Money.Paid.Minor = true, "x", time.Time{}, 1
	if *s.PaymentReady.Closed || s.DetailsMissing[0] == "x" || s.Approval.DecideBy.IsZero() || s.Money.Paid.Minor == 1 {
		t.Error("the snapshot changed with the reply")
	}
}

func TestFollowable(t *testing.T) {
	tool := ptr("get_purchase_status")
	args := `{"purchase":"` + pid(1) + `","after_revision":0,"wait_seconds":45}`
	for _, c := range []struct {
		name string
		next envoy.Next
		want bool
	}{
		{"a hold", envoy.Next{Tool: tool, Args: []byte(args), AfterSeconds: ptr(int64(3))}, true},
		{"no tool", envoy.Next{Args: []byte(args)}, false},
		{"a tool that acts", envoy.Next{Tool: ptr("cancel_purchase"), Args: []byte(args)}, false},
		{"no args", envoy.Next{Tool: tool}, false},
		{"args without a purchase", envoy.Next{Tool: tool, Args: []byte(`{"wait_seconds":45}`)}, false},
		{"args with more in them", envoy.Next{Tool: tool, Args: []byte(`{"purchase":"` + pid(1) + `","answer":"x"}`)}, false},
		{"no JSON", envoy.Next{Tool: tool, Args: []byte(`{`)}, false},
	} {
		f, ok := followable(c.next)
		if ok != c.want {
			t.Errorf("%s: %v", c.name, ok)
		}
		if ok && (string(f.args) != args || f.after == nil || *f.after != 0 || f.wait != 45*time.Second || f.delay != 3*time.Second) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

func TestResumeTakesTheFurther(t *testing.T) {
	event := func(rev, n int64) *events.Event {
		s := events.Snapshot{PurchaseID: pid(1), Revision: rev, State: events.StateVerifying}
		f := events.Facts{Connection: "host-a"}
		e := events.New(s, f, events.Judge(s, f), events.Position{Revision: rev, N: n}, events.CauseRevision, nil, events.Cursor{}, events.Options{})
		return &e
	}
	cursor := func(rev, n int64) events.Cursor {
		return events.Cursor{}.Advanced(*event(rev, n), 5, t0, false)
	}
	overdue := events.NewOverdue(*event(4, 0), events.DeadlineNext, t0)
	for _, c := range []struct {
		name     string
		cursor   events.Cursor
		known    bool
		last     *events.Event
		seq      uint64
		want     events.Position
		sequence uint64
		overdue  bool
		ok       bool
	}{
		{"nothing known", events.Cursor{}, false, nil, 0, events.Position{}, 0, false, false},
		{"cursor alone: the message aged out", cursor(4, 1), true, nil, 0, events.Position{Revision: 4, N: 1}, 0, false, true},
		{"message alone: the store was emptied", events.Cursor{}, false, event(4, 1), 9, events.Position{Revision: 4, N: 1}, 9, false, true},
		{"the message is further: the cursor was not written", cursor(3, 0), true, event(4, 0), 9, events.Position{Revision: 4}, 9, false, true},
		{"the cursor is further: the stream was restored", cursor(5, 0), true, event(4, 0), 9, events.Position{Revision: 5}, 9, false, true},
		{"equal", cursor(4, 0), true, event(4, 0), 9, events.Position{Revision: 4}, 9, false, true},
		{"equal, and overdue was told", cursor(4, 0), true, &overdue, 9, events.Position{Revision: 4}, 9, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := resume(c.cursor, c.known, c.last, c.seq)
			if ok != c.ok || got.Position != c.want || got.Sequence != c.sequence {
				t.Errorf("%v, %+v at %d", ok, got.Position, got.Sequence)
			}
			if told := got.OverdueFor != "" && got.OverdueFor == events.ReadingID(got.EventID); told != c.overdue {
				t.Errorf("overdue told: %v", told)
			}
		})
	}
}

// What nobody watched proves nothing about approval.
func TestPassedApproval(t *testing.T) {
	for _, c := range []struct {
		name   string
		known  bool
		passed bool
		seen   int64 // revision published last
		s      events.Snapshot
		want   bool
	}{
		{"from the beginning", false, false, 0, events.Snapshot{State: "needs_details"}, false},
		{"first seen later, on a card", false, false, 0, events.Snapshot{State: "waiting_for_user", Rail: "otu_card", Revision: 3, UpdatedAt: t0}, true},
		{"first seen unchanged since its creation", false, false, 0, events.Snapshot{State: "waiting_for_user", Rail: "otu_card", Revision: 1, CreatedAt: t0, UpdatedAt: t0}, false},
		{"a gift card whose link is open", false, false, 0, events.Snapshot{State: "waiting_for_user", UserTask: "pay_link", Rail: "gift_card", Revision: 3, UpdatedAt: t0}, false},
		{"a gift card that waits for something else", false, false, 0, events.Snapshot{State: "waiting_for_user", UserTask: "approve", Rail: "gift_card", Revision: 3, UpdatedAt: t0}, true},
		{"a link that is open after a gap", true, false, 1, events.Snapshot{State: "waiting_for_user", UserTask: "pay_link", Rail: "gift_card", Revision: 3}, false},
		{"a gift card that waits again after a gap", true, false, 1, events.Snapshot{State: "waiting_for_user", UserTask: "approve", Rail: "gift_card", Revision: 3}, true},
		{"first seen ended", false, false, 0, events.Snapshot{State: "failed", Rail: "gift_card", Revision: 3}, true},
		{"ended, no gap", true, false, 2, events.Snapshot{State: "failed", Rail: "otu_card", Revision: 3}, false},
		{"ended after a gap", true, false, 1, events.Snapshot{State: "cancelled", Rail: "gift_card", Revision: 3}, true},
		{"a gap on a card", true, false, 1, events.Snapshot{State: "waiting_for_user", Rail: "otu_card", Revision: 3}, true},
		{"processing before any rail", true, false, 1, events.Snapshot{State: "processing", Revision: 2}, false},
		{"processing", true, false, 1, events.Snapshot{State: "processing", Rail: "otu_card", Revision: 2}, true},
		{"ready", true, false, 1, events.Snapshot{State: "ready", Revision: 2}, true},
		{"approved", true, false, 1, events.Snapshot{State: "waiting_for_user", Approval: events.Approval{State: "approved"}, Revision: 2}, true},
		{"once passed, always", true, true, 2, events.Snapshot{State: "failed", Rail: "otu_card", Revision: 3}, true},
	} {
		p := &purchase{known: c.known}
		p.cursor.Revision, p.cursor.PassedApproval = c.seen, c.passed
		if got := p.passedApproval(c.s); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

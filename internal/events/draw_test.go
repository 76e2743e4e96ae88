package events

import (
	"time"

	"pgregory.net/rapid"
)

// Ids of made-up purchases.
const (
	purchaseA = "pur_0123456789abcdef0123456789abcdef"
	purchaseB = "pur_00000000000000000000000000000001"
)

// at is a moment of the tests.
func at(minutes int) time.Time { return sampleTime(minutes) }

// words draws a word of a list, or any text at all.
func drawWord(rt *rapid.T, name string, list ...string) string {
	return rapid.OneOf(rapid.SampledFrom(list), rapid.String()).Draw(rt, name)
}

func drawTime(rt *rapid.T, name string) *time.Time {
	if rapid.Bool().Draw(rt, name+" missing") {
		return nil
	}
	t := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(rt, name), 0)
	return &t
}

func drawBool(rt *rapid.T, name string) *bool {
	return rapid.Ptr(rapid.Bool(), true).Draw(rt, name)
}

func drawAmount(rt *rapid.T, name string) Amount {
	return Amount{Minor: rapid.Int64Min(0).Draw(rt, name), Currency: drawWord(rt, name+" currency", "INR"),
		Display: rapid.OneOf(rapid.String(), rapid.Just("₹2,499.00")).Draw(rt, name+" display")}
}

// drawSnapshot draws a snapshot with any words and texts.
func drawSnapshot(rt *rapid.T) Snapshot {
	stateWords := make([]string, len(states))
	for i, s := range states {
		stateWords[i] = string(s)
	}
	s := Snapshot{
		PurchaseID:     rapid.StringMatching(`pur_[a-f0-9]{32}`).Draw(rt, "id"),
		Revision:       rapid.Int64Min(0).Draw(rt, "revision"),
		Terminal:       rapid.Bool().Draw(rt, "terminal"),
		State:          State(drawWord(rt, "state", stateWords...)),
		UserTask:       drawWord(rt, "task", "", "approve", "pay_link"),
		ReasonCode:     drawWord(rt, "reason", "", "USER_DECLINED", "ORDER_OUT_OF_STOCK"),
		StatusText:     rapid.String().Draw(rt, "status text"),
		Rail:           drawWord(rt, "rail", rails...),
		CheckoutBy:     drawWord(rt, "checkout", "", "agent", "envoy"),
		Merchant:       Merchant{Name: rapid.String().Draw(rt, "name"), URL: drawWord(rt, "url", "https://shop.example.test/a?sig=b", "https://u:p@shop.example.test")},
		Amount:         drawAmount(rt, "amount"),
		Description:    rapid.String().Draw(rt, "description"),
		DetailsMissing: rapid.SliceOfN(rapid.String(), 0, 40).Draw(rt, "missing"),
		Approval:       Approval{State: drawWord(rt, "approval", "", "approved", "denied"), DecideBy: drawTime(rt, "decide by")},
		PaymentReady:   PaymentReady{Available: rapid.Bool().Draw(rt, "available"), Kind: drawWord(rt, "kind", "", "card"), ExpiresAt: drawTime(rt, "expires"), Closed: drawBool(rt, "closed")},
		Money:          MoneyStatus{Status: drawWord(rt, "status", statuses...), MerchantOrderRef: rapid.String().Draw(rt, "ref")},
		Chain:          Chain{Supersedes: drawWord(rt, "supersedes", "", purchaseB)},
		Agent:          Agent{ID: rapid.String().Draw(rt, "agent"), DisplayName: rapid.String().Draw(rt, "display name"), Verification: drawWord(rt, "verification", "origin")},
	}
	if t := drawTime(rt, "updated"); t != nil {
		s.UpdatedAt = *t
	}
	if rapid.Bool().Draw(rt, "paid") {
		paid := drawAmount(rt, "paid sum")
		s.Money.Paid = &paid
	}
	if rapid.Bool().Draw(rt, "question") {
		s.Question = &Question{ID: rapid.String().Draw(rt, "question id"), Kind: drawWord(rt, "question kind", "otp"), Prompt: rapid.String().Draw(rt, "prompt")}
	}
	if rapid.Bool().Draw(rt, "receipt") {
		s.Receipt = &Receipt{Paid: drawAmount(rt, "receipt sum"), CardLast4: drawWord(rt, "last4", "0042"), MerchantOrderRef: rapid.String().Draw(rt, "receipt ref")}
	}
	if rapid.Bool().Draw(rt, "funding") {
		s.Funding = &Funding{Amount: drawAmount(rt, "funding sum"), ExpiresAt: drawTime(rt, "funding expires")}
	}
	return s
}

// drawFacts draws what a watcher may know.
func drawFacts(rt *rapid.T) Facts {
	f := Facts{
		Source:         rapid.SampledFrom([]Source{SourceStatus, SourceLook, SourceMCP}).Draw(rt, "source"),
		Connection:     rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(rt, "connection"),
		Stopped:        rapid.Bool().Draw(rt, "stopped"),
		PassedApproval: rapid.Bool().Draw(rt, "passed"),
		Held:           HeldAnswer{Available: rapid.Bool().Draw(rt, "held available"), Truncated: drawBool(rt, "truncated")},
		NextBy:         drawTime(rt, "next by"),
		UserActionText: rapid.String().Draw(rt, "action"),
		UserActionTask: drawWord(rt, "action task", "", "resolve_active_purchase"),
		Support:        Support{Ref: drawWord(rt, "support ref", "", "EV-72Z0SF"), RequestID: rapid.String().Draw(rt, "request id")},
		TraceParent:    drawWord(rt, "traceparent", "", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
	}
	if t := drawTime(rt, "server time"); t != nil {
		f.ServerTime = *t
	}
	if rapid.Bool().Draw(rt, "entry") {
		sum := drawAmount(rt, "held sum")
		f.Held.Entry = &Held{State: drawWord(rt, "entry state", entries[1:]...), Amount: &sum, Since: drawTime(rt, "since")}
	}
	if f.Source == SourceMCP {
		f.GivenSituation = Situation(drawWord(rt, "given situation", "", "confirming", "stopped", "done", "needs_support"))
		f.GivenMoney = Money(drawWord(rt, "given money", "", "unknown", "charged", "refunded"))
	}
	return f
}

// drawEvent draws an event as the watcher would make it.
func drawEvent(rt *rapid.T, opts Options) Event {
	s, f := drawSnapshot(rt), drawFacts(rt)
	j := Judge(s, f)
	_, p, cause := Follow(Cursor{}, false, ReadingOf(s, j))
	return New(s, f, j, p, cause, nil, Cursor{}, opts)
}

package events

import "time"

// sampleConnection is the connection of every sample.
const sampleConnection = "sample-host"

// Samples are synthetic events of the kinds that Herald sends, with personal
// fields. Templates and expressions are tried against them. They are the same
// at every call and share nothing with each other.
func Samples() []Event {
	return []Event{
		sampleWaiting(), samplePayLink(), sampleReady(), sampleConfirming(), sampleNeedsSupport(),
		sampleDone(), sampleRefunded(), sampleNotProven(), sampleOverdue(), sampleNotice(),
	}
}

// sampleTime is a moment in the life of the samples.
func sampleTime(minutes int) time.Time {
	return time.Date(2026, time.September, 29, 12, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
}

// sampleSnapshot is a purchase just begun; each sample changes what it shows.
func sampleSnapshot(digit string) Snapshot {
	return Snapshot{
		PurchaseID:      "pur_" + digit + "b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c",
		Revision:        1,
		State:           StateProcessing,
		StatusText:      "Envoy is preparing this purchase.",
		Rail:            "otu_card",
		RailReason:      "RAIL_OTU_PREFERRED",
		CheckoutBy:      checkoutByAgent,
		Merchant:        Merchant{Name: "Example Store", URL: "https://shop.example.test/headphones"},
		Amount:          Amount{Minor: 249900, Currency: "INR", Display: "₹2,499.00"},
		Description:     "Headphones",
		DetailsComplete: true,
		Money:           MoneyStatus{Status: statusNotStarted},
		Agent:           Agent{ID: "origin:https://host.example.test", DisplayName: "Synthetic Host", Verification: "origin"},
		CreatedAt:       sampleTime(0),
		UpdatedAt:       sampleTime(1),
	}
}

// sampleFacts is a status reply about a purchase whose approval was seen.
func sampleFacts() Facts {
	no := false
	return Facts{
		Source:         SourceStatus,
		Connection:     sampleConnection,
		PassedApproval: true,
		Held:           HeldAnswer{Available: true, Truncated: &no},
		ServerTime:     sampleTime(1),
		Support:        Support{RequestID: "req_synthetic", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"},
	}
}

// sampleEvent judges and builds, as the watcher does, as the event after prev.
func sampleEvent(s Snapshot, f Facts, prev *Event) Event {
	j := Judge(s, f)
	var c Cursor
	if prev != nil {
		c = c.Advanced(*prev, 1, sampleTime(1), f.PassedApproval)
	}
	_, at, cause := Follow(c, prev != nil, ReadingOf(s, j))
	return New(s, f, j, at, cause, prev, c, Options{Personal: true})
}

func sampleWaiting() Event {
	s, f := sampleSnapshot("1"), sampleFacts()
	f.PassedApproval = false
	s.State, s.UserTask, s.Rail, s.RailReason, s.CheckoutBy = StateWaitingForUser, "approve", "", "", ""
	s.StatusText = "Waiting for approval in the Envoy app."
	by := sampleTime(15)
	s.Approval = Approval{State: "pending", Method: "passkey", DecideBy: &by}
	f.UserActionTask, f.UserActionText, f.UserActionBy = "approve", "Approve this purchase in the Envoy app.", &by
	return sampleEvent(s, f, nil)
}

func samplePayLink() Event {
	s, f := sampleSnapshot("2"), sampleFacts()
	f.PassedApproval = false
	s.State, s.UserTask, s.Rail, s.RailReason = StateWaitingForUser, "pay_link", railGiftCard, "RAIL_GIFT_CARD_CARDLESS"
	s.StatusText = "Pay for the gift card to continue."
	expires := sampleTime(20)
	s.Approval.DecideBy = &expires
	s.Funding = &Funding{Amount: Amount{Minor: 237400, Currency: "INR", Display: "₹2,374.00"}, ExpiresAt: &expires}
	f.UserActionTask, f.UserActionText, f.UserActionBy = "pay_link", "Pay ₹2,374.00 for the gift card with the link.", &expires
	return sampleEvent(s, f, nil)
}

func sampleReady() Event {
	s := sampleSnapshot("3")
	s.State, s.Approval = StateReady, Approval{State: approvalApproved, Method: "passkey"}
	s.StatusText = "The card is ready for this purchase."
	expires, open := sampleTime(31), false
	s.PaymentReady = PaymentReady{Available: true, Kind: "card", ExpiresAt: &expires, Closed: &open}
	return sampleEvent(s, sampleFacts(), nil)
}

// sampleVerifying is a purchase that the agent reported as paid.
func sampleVerifying(digit string) (Snapshot, Facts) {
	s, f := sampleSnapshot(digit), sampleFacts()
	s.Revision, s.State, s.UpdatedAt = 4, StateVerifying, sampleTime(6)
	s.Approval = Approval{State: approvalApproved, Method: "passkey"}
	s.StatusText = "Envoy is confirming whether the payment went through."
	closed := true
	s.PaymentReady.Closed = &closed
	f.ServerTime = sampleTime(6)
	by, begun := sampleTime(20), sampleTime(2)
	f.NextBy = &by
	f.Held.Entry = &Held{State: heldStateHeld, Amount: &Amount{Minor: 249900, Currency: "INR", Display: "₹2,499.00"}, Exact: true, Since: &begun}
	return s, f
}

func sampleConfirming() Event {
	before := sampleSnapshot("4")
	before.State, before.Revision = StateReady, 3
	prev := sampleEvent(before, sampleFacts(), nil)
	s, f := sampleVerifying("4")
	return sampleEvent(s, f, &prev)
}

func sampleNeedsSupport() Event {
	s, f := sampleVerifying("5")
	prev := sampleEvent(s, f, nil)
	f.Stopped, f.ServerTime, f.NextBy = true, sampleTime(40), nil
	return sampleEvent(s, f, &prev)
}

func sampleDone() Event {
	s := sampleSnapshot("6")
	s.Revision, s.Terminal, s.State, s.UpdatedAt = 6, true, StateCompleted, sampleTime(9)
	s.StatusText = "This purchase is complete."
	s.Approval = Approval{State: approvalApproved, Method: "passkey"}
	s.Money = MoneyStatus{Status: statusDebited, Paid: &s.Amount, MerchantOrderRef: "EX-20931"}
	s.Receipt = &Receipt{Paid: s.Amount, CardNetwork: "rupay", CardLast4: "0042", MerchantOrderRef: "EX-20931", CompletedAt: sampleTime(9)}
	return sampleEvent(s, sampleFacts(), nil)
}

// sampleEnded is a purchase that failed at the merchant.
func sampleEnded(digit string) Snapshot {
	s := sampleSnapshot(digit)
	s.Revision, s.Terminal, s.State, s.UpdatedAt = 7, true, StateFailed, sampleTime(12)
	s.ReasonCode = "ORDER_OUT_OF_STOCK"
	s.StatusText = "The merchant had no stock left."
	s.Approval = Approval{State: approvalApproved, Method: "passkey"}
	return s
}

func sampleRefunded() Event {
	s := sampleEnded("7")
	s.Money = MoneyStatus{Status: statusRefunded, Paid: &s.Amount}
	return sampleEvent(s, sampleFacts(), nil)
}

func sampleNotProven() Event {
	f := sampleFacts()
	f.Held = HeldAnswer{}
	return sampleEvent(sampleEnded("8"), f, nil)
}

func sampleOverdue() Event {
	last := sampleWaiting()
	name, at, _ := DueDeadline(last, sampleTime(16))
	return NewOverdue(last, name, at)
}

func sampleNotice() Event {
	return NewNotice(sampleConnection, NoticeParked, sampleTime(3), Notice{
		Text: "Envoy refuses the token of this connection. Sign the agent host in again; the token source is read again when it changes.",
		Code: "UNAUTHENTICATED",
	})
}

package events

// The rules that can decide the money, beside those that decide the situation
// too: the closed set of Judgement.MoneyBasis.
const (
	BasisNotStarted       = "not_started"       // Envoy recorded no payment, and the state does not ask for more proof
	BasisDebited          = "debited"           // Envoy recorded the payment
	BasisRefundPending    = "refund_pending"    // Envoy recorded a refund on its way
	BasisRefunded         = "refunded"          // Envoy recorded a refund
	BasisMerchantCollects = "merchant_collects" // the merchant collects on delivery
	BasisUnknownStatus    = "unknown_status"    // Envoy does not know, or says a word that the contract does not name
	BasisHeld             = "held"              // the account shows money set aside for the purchase
	BasisReturning        = "returning"         // the account shows its money on the way back
	BasisHeldUnreadable   = "held_unreadable"   // the account shows an entry in a state that nobody can read
	BasisReady            = "ready"             // a ready handout is paid from money set aside
	BasisVerifying        = "verifying"         // nobody knows yet whether the payment went through
	BasisNeverApproved    = "never_approved"    // ended, and it never passed approval
	BasisNothingHeld      = "nothing_held"      // ended, and the account shows all open card money and none for it
	BasisOutsideTable     = "outside_table"     // the contract publishes no such pair of situation and money
)

// MoneyBases lists the closed set of Judgement.MoneyBasis.
func MoneyBases() []string {
	return []string{BasisNotStarted, BasisDebited, BasisRefundPending, BasisRefunded, BasisMerchantCollects,
		BasisUnknownStatus, BasisHeld, BasisReturning, BasisHeldUnreadable, BasisReady, BasisVerifying,
		BasisNeverApproved, BasisNothingHeld, BasisMoneyNotProven, BasisOutsideTable, BasisInconsistent,
		BasisUnknownState, BasisGiven}
}

// The words of money.status, held_purchases and the rest that decide money.
const (
	statusNotStarted       = "not_started"
	statusDebited          = "debited"
	statusRefundPending    = "refund_pending"
	statusRefunded         = "refunded"
	statusMerchantCollects = "merchant_collects"

	heldStateHeld      = "held"
	heldStateReturning = "returning"

	approvalApproved = "approved"
	approvalDenied   = "denied"
	approvalExpired  = "expired"

	railGiftCard = "gift_card"
)

// published tells whether the contract publishes money m for situation s.
// MoneyUnknown is Herald's own fallback everywhere and is not asked here for.
func published(s Situation, m Money) bool {
	switch s {
	case SituationNeedsDetails, SituationWaitingForUser:
		return m == MoneyNotCharged
	case SituationNeedsAnswer, SituationNeedsSupport:
		return m.named()
	case SituationWorking:
		return m == MoneyNotCharged || m == MoneySetAside
	case SituationReady:
		return m == MoneySetAside
	case SituationConfirming:
		return m == MoneyUnknown || m == MoneySetAside || m == MoneyRefunding
	case SituationDone:
		return m == MoneyCharged || m == MoneyNotCharged
	case SituationStopped:
		return m == MoneyNotCharged || m == MoneyRefunded
	case SituationUnknown:
		return m == MoneyUnknown
	default:
		return false
	}
}

// named tells whether the contract names the word.
func (m Money) named() bool {
	switch m {
	case MoneyNotCharged, MoneySetAside, MoneyCharged, MoneyRefunding, MoneyRefunded, MoneyUnknown:
		return true
	default:
		return false
	}
}

// moneyOf works out the money of a purchase, state by state, and names the rule.
func moneyOf(s Snapshot, f Facts) (Money, string) {
	switch s.State {
	case StateNeedsDetails, StateNeedsAnswer, StateWaitingForUser, StateProcessing:
		return moneyOpen(s, f)
	case StateReady:
		return MoneySetAside, BasisReady
	case StateVerifying:
		return moneyVerifying(s, f)
	case StateCompleted:
		if s.Money.Status == statusNotStarted {
			// A gift card is paid outside of Envoy's record; this is no claim about charges.
			return MoneyNotCharged, BasisNotStarted
		}
		return recorded(s.Money.Status)
	case StateFailed, StateCancelled, StateSuperseded:
		return moneyEnded(s, f)
	default:
		return MoneyUnknown, BasisUnknownState
	}
}

// moneyOpen is the money before and during payment: an entry among the account's
// held purchases says more than a payment that has not started.
func moneyOpen(s Snapshot, f Facts) (Money, string) {
	if f.Held.Entry != nil {
		return held(*f.Held.Entry)
	}
	if s.Money.Status == statusNotStarted {
		return MoneyNotCharged, BasisNotStarted
	}
	return recorded(s.Money.Status)
}

// moneyVerifying never says charged or not charged: that is what is being found out.
func moneyVerifying(s Snapshot, f Facts) (Money, string) {
	switch s.Money.Status {
	case statusRefundPending:
		return MoneyRefunding, BasisRefundPending
	case statusRefunded:
		return MoneyRefunding, BasisRefunded
	}
	if f.Held.Entry != nil {
		return held(*f.Held.Entry)
	}
	return MoneyUnknown, BasisVerifying
}

// moneyEnded is the money of a purchase that ended without completing. Card
// money that the account still shows open outweighs every word of ending well,
// and a payment that never started needs proof before it is called not charged.
func moneyEnded(s Snapshot, f Facts) (Money, string) {
	switch s.Money.Status {
	case statusDebited, statusRefundPending:
		return recorded(s.Money.Status)
	}
	if f.Held.Entry != nil {
		return held(*f.Held.Entry)
	}
	if s.Money.Status != statusNotStarted {
		return recorded(s.Money.Status)
	}
	switch {
	case neverApproved(s, f):
		return MoneyNotCharged, BasisNeverApproved
	case nothingHeld(s, f.Held):
		return MoneyNotCharged, BasisNothingHeld
	default:
		return MoneyUnknown, BasisMoneyNotProven
	}
}

// recorded translates Envoy's own record of the money. A payment that has not
// started is no record; the states decide about it.
func recorded(status string) (Money, string) {
	switch status {
	case statusDebited:
		return MoneyCharged, BasisDebited
	case statusRefundPending:
		return MoneyRefunding, BasisRefundPending
	case statusRefunded:
		return MoneyRefunded, BasisRefunded
	case statusMerchantCollects:
		return MoneyNotCharged, BasisMerchantCollects
	default:
		return MoneyUnknown, BasisUnknownStatus
	}
}

// held translates an entry of the account's held purchases.
func held(h Held) (Money, string) {
	switch h.State {
	case heldStateHeld:
		return MoneySetAside, BasisHeld
	case heldStateReturning:
		return MoneyRefunding, BasisReturning
	default:
		return MoneyUnknown, BasisHeldUnreadable
	}
}

// neverApproved is the first proof of not charged: nobody ever agreed to pay.
// A snapshot that itself shows a checkout contradicts it.
func neverApproved(s Snapshot, f Facts) bool {
	return !f.PassedApproval && s.Approval.State != approvalApproved && !checkedOut(s)
}

// checkedOut tells whether a snapshot shows by itself that payment was tried or
// could have been, whatever our history saw.
func checkedOut(s Snapshot) bool {
	switch s.ReasonCode {
	case "ORDER_OUTCOME_UNKNOWN", "ORDER_CARD_DECLINED", "ORDER_CARD_NOT_ACCEPTED", "ORDER_OTP_FAILED",
		"ORDER_CARD_EXPIRED_UNUSED", "ORDER_CHECKOUT_FAILED", "ORDER_CHECKOUT_BLOCKED":
		return true
	}
	return s.PaymentReady.Available || s.PaymentReady.Kind != ""
}

// nothingHeld is the second proof of not charged: the account shows all open
// card money, and none of it is for this purchase. It says nothing about gift
// cards, which are not paid by card money, nor about rails of tomorrow.
func nothingHeld(s Snapshot, h HeldAnswer) bool {
	switch s.Rail {
	case "", "otu_card", "operated_checkout", "elixir_marketplace":
	default:
		return false
	}
	return h.Available && h.Truncated != nil && !*h.Truncated && h.Entry == nil
}

package envoysim

import "math/rand/v2"

// Quirks are the probabilities, each 0 to 1, of what the contract allows and no page announces. The zero value is a
// friendly Envoy, for tests that turn on one thing at a time; DefaultQuirks is a lifelike one.
type Quirks struct {
	// Per transition of a simulated life.

	SkipToReady    float64 // waiting_for_user to ready in one visible step
	NewAttempt     float64 // verifying back to ready with a new attempt
	EnvoyTakesOver float64 // ready to processing, with checkout_by turned to envoy
	RouteFlip      float64 // checkout_by changes, either way, in processing
	StopChecking   float64 // verifying: next turns to stop without a revision
	LostSuccessor  float64 // a superseded purchase names no successor
	MoneyUnknown   float64 // an ended purchase says money unknown for a while
	MoneyHidden    float64 // a failed purchase says not_started while money is still set aside
	RevisionJump   float64 // the revision grows by more than one
	DirtyText      float64 // links and card-like digits in free text
	Skew           float64 // get_account and get_purchase_status a revision apart, for a moment

	// Per reply.

	HideActive          float64 // get_account leaves active_purchase out and names it unavailable
	HoldsUnavailable    float64 // held_purchases cannot be read
	HoldsTruncated      float64 // held_purchases may be incomplete
	ListLag             float64 // list_purchases shows the state before the last change
	RefusedWithPurchase float64 // ok false, with a purchase
	EarlyReply          float64 // a hold ends before its time without a change
	AsksDetails         float64 // start_purchase begins in needs_details
}

// DefaultQuirks are the probabilities that demos and random walks use. They are high, so that a short run meets each; no
// page says how often Envoy does any of it.
func DefaultQuirks() Quirks {
	return Quirks{
		SkipToReady: 0.1, NewAttempt: 0.1, EnvoyTakesOver: 0.08, RouteFlip: 0.08, StopChecking: 0.2,
		LostSuccessor: 0.2, MoneyUnknown: 0.15, MoneyHidden: 0.4, RevisionJump: 0.1, DirtyText: 0.15, Skew: 0.15,
		HideActive: 0.03, HoldsUnavailable: 0.05, HoldsTruncated: 0.05, ListLag: 0.2, RefusedWithPurchase: 0.01,
		EarlyReply: 0.02, AsksDetails: 0.1,
	}
}

func chance(r *rand.Rand, p float64) bool { return p > 0 && r.Float64() < p }

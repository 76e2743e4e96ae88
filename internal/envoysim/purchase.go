package envoysim

import "time"

// Purchase is the truth about one purchase: what a correct reply would show. Zero values stand for null.
// Pointers inside are never changed in place, only replaced.
type Purchase struct {
	ID       string
	Key      string // idempotency key
	User     string
	Agent    AgentIdentity
	Revision int

	State      State
	UserTask   UserTask
	ReasonCode string
	StatusText string

	Rail       Rail
	RailReason string
	CheckoutBy Route

	MerchantName string
	MerchantURL  string
	Amount       int64 // paise
	Description  string
	Missing      []string
	Question     *Question
	FollowUp     *FollowUp

	Approval Approval
	Handout  Handout
	Money    Money
	Receipt  *Receipt
	Funding  *Funding

	Supersedes   string
	SupersededBy string

	// Deadline is next.by of a held state; zero: none known.
	Deadline time.Time
	// Stop makes `next` of a verifying purchase say stop, without a tool. It can change without a revision.
	Stop bool
	// StartedByRead says that a ready status read set off the gift-card checkout.
	StartedByRead bool

	Created time.Time
	Updated time.Time
}

// AgentIdentity names the host that made a purchase.
type AgentIdentity struct {
	ID           string
	DisplayName  string
	Verification string // cimd, origin or unverified
}

// Question is the one open question of a purchase.
type Question struct {
	ID      string
	Kind    string // address, user_request, text or otp
	Prompt  string
	AskedAt time.Time
}

// FollowUp is the optional request for feedback on a completed purchase.
type FollowUp struct {
	ID     string
	Prompt string
}

// Approval is the authorisation evidence.
type Approval struct {
	State    string // pending, approved, denied, expired; empty: no evidence
	Method   string // passkey or otp
	DecideBy time.Time
}

// Handout is the payment_ready block. Whether details are available follows from state and route.
type Handout struct {
	ExpiresAt time.Time
	// Closed is sent only when it is set.
	Closed *bool
}

// Money is what replies say. The ledger holds what is so.
type Money struct {
	Status   MoneyStatus
	Paid     *int64 // paise
	OrderRef string
}

// Receipt exists on a completed purchase only.
type Receipt struct {
	Paid        int64
	OrderRef    string
	CardLast4   string // empty: no card
	CompletedAt time.Time
}

// Funding is the payment link, there only while the user's task is pay_link.
type Funding struct {
	URL       string
	Amount    int64
	ExpiresAt time.Time
}

// clone copies what a caller could otherwise reach into.
func (p Purchase) clone() Purchase {
	if p.Question != nil {
		q := *p.Question
		p.Question = &q
	}
	if p.FollowUp != nil {
		f := *p.FollowUp
		p.FollowUp = &f
	}
	if p.Receipt != nil {
		r := *p.Receipt
		p.Receipt = &r
	}
	if p.Funding != nil {
		f := *p.Funding
		p.Funding = &f
	}
	if p.Handout.Closed != nil {
		c := *p.Handout.Closed
		p.Handout.Closed = &c
	}
	if p.Money.Paid != nil {
		m := *p.Money.Paid
		p.Money.Paid = &m
	}
	p.Missing = append([]string(nil), p.Missing...)
	return p
}

// releases reports whether a status read of the purchase carries payment details.
func (p *Purchase) releases() bool { return p.State == Ready && p.CheckoutBy == ByAgent }

package events

import "time"

// State is the lifecycle word of a purchase as Envoy gives it. The set is
// open: a word of tomorrow is kept as it came if it is [A-Za-z0-9_]{1,64}.
type State string

// The states that contract envoy@2026-10 publishes.
const (
	StateNeedsDetails   State = "needs_details"
	StateNeedsAnswer    State = "needs_answer"
	StateWaitingForUser State = "waiting_for_user"
	StateProcessing     State = "processing"
	StateReady          State = "ready"
	StateVerifying      State = "verifying"
	StateCompleted      State = "completed"
	StateFailed         State = "failed"
	StateCancelled      State = "cancelled"
	StateSuperseded     State = "superseded"
)

// Amount is a sum of money. Minor counts the currency's smallest unit (paise
// for INR).
type Amount struct {
	Minor    int64  `json:"minor"`
	Currency string `json:"currency"`
	Display  string `json:"display"`
}

// Merchant is the shop. URL is cut to scheme and host unless the personal
// field merchant.url is allowed.
type Merchant struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
}

// Question is what Envoy asks the user. Prompt is personal.
type Question struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Prompt  string    `json:"prompt,omitempty"`
	AskedAt time.Time `json:"asked_at,omitzero"`
}

// Approval is the state of the user's consent.
type Approval struct {
	State    string     `json:"state,omitempty"`
	Method   string     `json:"method,omitempty"`
	DecideBy *time.Time `json:"decide_by,omitempty"`
}

// PaymentReady tells whether a card or voucher may be released, never which.
// Closed is nil where Envoy does not send it: absent is not false.
type PaymentReady struct {
	Available bool       `json:"available"`
	Kind      string     `json:"kind,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Closed    *bool      `json:"closed,omitempty"`
}

// MoneyStatus is Envoy's own record of the money of a purchase.
// MerchantOrderRef is personal.
type MoneyStatus struct {
	Status           string  `json:"status"`
	Paid             *Amount `json:"paid"`
	MerchantOrderRef string  `json:"merchant_order_ref,omitempty"`
}

// Receipt is present on completed purchases. CardLast4 and MerchantOrderRef
// are personal.
type Receipt struct {
	Paid             Amount    `json:"paid"`
	CardNetwork      string    `json:"card_network,omitempty"`
	CardLast4        string    `json:"card_last4,omitempty"`
	MerchantOrderRef string    `json:"merchant_order_ref,omitempty"`
	CompletedAt      time.Time `json:"completed_at,omitzero"`
}

// Chain links a purchase with the one it replaced and the one that replaced it.
type Chain struct {
	Supersedes   string `json:"supersedes,omitempty"`
	SupersededBy string `json:"superseded_by,omitempty"`
}

// Agent is the host that made the purchase.
type Agent struct {
	ID           string `json:"agent_id"`
	DisplayName  string `json:"display_name"`
	Verification string `json:"verification"`
}

// Funding is what the user pays for a gift card. The link itself is never here.
type Funding struct {
	Amount    Amount     `json:"amount"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// Snapshot is a purchase as Envoy showed it, field by field from the
// allow-list. It has no room for payment details, links, answers or keys.
// Empty strings stand for null.
type Snapshot struct {
	PurchaseID      string
	Revision        int64
	Terminal        bool
	State           State
	UserTask        string
	ReasonCode      string
	StatusText      string
	Rail            string
	RailReason      string
	CheckoutBy      string
	Merchant        Merchant
	Amount          Amount
	Description     string // personal
	DetailsComplete bool
	DetailsMissing  []string
	Question        *Question
	Approval        Approval
	PaymentReady    PaymentReady
	Money           MoneyStatus
	Receipt         *Receipt
	Chain           Chain
	Agent           Agent
	Funding         *Funding
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

// Held is one entry of the account's held_purchases: money of a card that is
// set aside for a purchase or on its way back. Amount is nil when Envoy cannot
// say how much.
type Held struct {
	State  string     `json:"state"` // held, returning, unknown or a word of tomorrow
	Amount *Amount    `json:"amount,omitempty"`
	Exact  bool       `json:"exact"`
	Since  *time.Time `json:"since,omitempty"`
}

// HeldAnswer is what the newest look said about held money. The zero value
// means that no look has answered yet, which proves nothing.
type HeldAnswer struct {
	Available bool  // the section was read in full
	Truncated *bool // nil: Envoy does not know, which is not false
	Entry     *Held // the entry of the purchase in question, if any
}

// Source names the reply that a reading came from.
type Source string

// Sources of readings.
const (
	SourceStatus Source = "status"
	SourceLook   Source = "look"
	SourceMCP    Source = "mcp"
)

// Facts is what the watcher knows beside the snapshot itself.
type Facts struct {
	Source     Source
	Connection string
	// Stopped: the newest status reply about this purchase said next.action stop.
	Stopped bool
	// PassedApproval: our own history saw it approved, processing, ready or
	// verifying. Set it as well where that history does not reach back to before
	// approval: what nobody watched proves nothing.
	PassedApproval bool
	Held           HeldAnswer
	// ServerTime is Envoy's clock in the reply, zero if it gave none.
	ServerTime time.Time
	// NextBy is next.by of the newest status reply; nil: none known.
	NextBy *time.Time
	// UserActionTask, UserActionText and UserActionBy come from user_action.
	UserActionTask string
	UserActionText string
	UserActionBy   *time.Time
	Support        Support
	// GivenSituation and GivenMoney are the words of an MCP reply; they stand as
	// given. Empty over HTTP.
	GivenSituation Situation
	GivenMoney     Money
	// ChainRoot is the oldest known purchase of the chain of supersedings; empty: the purchase itself.
	ChainRoot string
	// TraceParent is the W3C trace context of the read, if traced.
	TraceParent string
}

// Support is what Envoy's support asks for.
type Support struct {
	Ref       string `json:"ref,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	TraceID   string `json:"trace_id,omitempty"`
}

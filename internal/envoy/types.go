package envoy

import (
	"encoding/json"
	"time"
)

// Tool is one of the three tools that Herald may call. There is no other way
// to name a tool, so nothing here can buy, pay, answer or cancel.
type Tool string

// The constant set of tools. All three only observe.
const (
	ToolStatus  Tool = "get_purchase_status"
	ToolList    Tool = "list_purchases"
	ToolAccount Tool = "get_account"
)

// Amount is a sum in the currency's smallest unit (contract: Amount).
type Amount struct {
	Minor    int64  `json:"minor"`
	Currency string `json:"currency"`
	Display  string `json:"display"`
}

// Merchant is the shop of a purchase.
type Merchant struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Purchase is the snapshot of contract envoy@2026-10, less what must never be
// held: links (funding.url, approval.approval_url) and the follow-up have no field. Optional
// members are pointers, so that absent, null and zero stay apart.
type Purchase struct {
	PurchaseID     string    `json:"purchase_id"`
	IdempotencyKey string    `json:"idempotency_key"` // only ever hashed
	Revision       int64     `json:"revision"`
	Terminal       bool      `json:"terminal"`
	State          string    `json:"state"`
	UserTask       *string   `json:"user_task"`
	ReasonCode     *string   `json:"reason_code"`
	StatusText     string    `json:"status_text"`
	Rail           *string   `json:"rail"`
	RailReason     *string   `json:"rail_reason"`
	CheckoutBy     *string   `json:"checkout_by"`
	Merchant       Merchant  `json:"merchant"`
	Amount         Amount    `json:"amount"`
	Description    *string   `json:"description"`
	Details        Details   `json:"details"`
	Question       *Question `json:"question"`
	Approval       Approval  `json:"approval"`
	PaymentReady   Payment   `json:"payment_ready"`
	Money          Money     `json:"money"`
	Receipt        *Receipt  `json:"receipt"`
	Chain          Chain     `json:"chain"`
	Agent          Agent     `json:"agent"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
	Funding        *Funding  `json:"funding"`
}

// Details tells which details Envoy still needs.
type Details struct {
	Complete bool     `json:"complete"`
	Missing  []string `json:"missing"`
}

// Question is the open question to the user.
type Question struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Prompt  string    `json:"prompt"`
	AskedAt time.Time `json:"asked_at"`
}

// Approval is the consent of the user.
type Approval struct {
	State    *string    `json:"state"`
	Method   *string    `json:"method"`
	DecideBy *time.Time `json:"decide_by"`
}

// Payment tells whether payment details may be released. The details
// themselves have no type in this package.
type Payment struct {
	Available bool       `json:"available"`
	Kind      *string    `json:"kind"`
	ExpiresAt *time.Time `json:"expires_at"`
	Closed    *bool      `json:"closed"`
}

// Money is Envoy's record of the money.
type Money struct {
	Status           string  `json:"status"`
	Paid             *Amount `json:"paid"`
	MerchantOrderRef *string `json:"merchant_order_ref"`
}

// Receipt is present on completed purchases.
type Receipt struct {
	MerchantOrderRef *string   `json:"merchant_order_ref"`
	Paid             Amount    `json:"paid"`
	Card             *Card     `json:"card"`
	CompletedAt      time.Time `json:"completed_at"`
}

// Card is the summary on a receipt: the network and four digits, no more.
type Card struct {
	Network string `json:"network"`
	Last4   string `json:"last4"`
}

// Chain links purchases that replaced each other.
type Chain struct {
	Supersedes   *string `json:"supersedes"`
	SupersededBy *string `json:"superseded_by"`
}

// Agent is the host that made the purchase.
type Agent struct {
	AgentID      string `json:"agent_id"`
	DisplayName  string `json:"display_name"`
	Verification string `json:"verification"`
}

// Funding is what the user pays for a gift card, without the link.
type Funding struct {
	Amount    Amount     `json:"amount"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// Next is what Envoy tells the agent to do. Args are opaque bytes: they are
// sent back as they came or not at all, and are kept only where Tool is
// get_purchase_status ([ParseArgs] reads them). The instruction is never decoded.
type Next struct {
	Action       string          `json:"action"`
	Tool         *string         `json:"tool"`
	Args         json.RawMessage `json:"args"`
	AfterSeconds *int64          `json:"after_seconds"`
	By           *time.Time      `json:"by"`
}

// UserAction is the task of the user, without the link.
type UserAction struct {
	Task    string     `json:"task"`
	By      *time.Time `json:"by"`
	Message string     `json:"message"`
}

// Meta is the part of the envelope that every reply has.
type Meta struct {
	RequestID  string
	TraceID    string
	ServerTime time.Time
	// Unknown counts the fields that the contract does not name; they were dropped.
	Unknown int
}

// Status is a reply of get_purchase_status with ok true. Ready replies were
// decoded without their payment details.
type Status struct {
	Meta
	Purchase   Purchase
	Next       Next
	UserAction *UserAction
}

// Look is a reply of get_account. Account sections other than these four have
// no field.
type Look struct {
	Meta
	// Active is the answer about the active purchase.
	Active ActiveAnswer
	// Purchase is set when Active is Shown.
	Purchase *Purchase
	// Held is nil when the section is missing or null.
	Held *HeldPurchases
	// AgentID is set where the agent section was asked for.
	AgentID string
}

// ActiveAnswer is what a look said about the active purchase.
type ActiveAnswer string

// The three answers of a look. Only ActiveNone proves that there is none.
const (
	ActiveShown    ActiveAnswer = "shown"
	ActiveNone     ActiveAnswer = "none"      // the key is there and null, and active_purchase is not in unavailable
	ActiveNotKnown ActiveAnswer = "not_known" // anything else
)

// HeldPurchases is the open card money of all purchases of the account.
type HeldPurchases struct {
	Available bool       `json:"available"`
	Reason    *string    `json:"reason"`
	Items     []HeldItem `json:"items"`
	Truncated *bool      `json:"truncated"` // null is not false
}

// HeldItem is the open money of one purchase.
type HeldItem struct {
	PurchaseID string     `json:"purchase_id"`
	Amount     *Amount    `json:"amount"`
	Exact      bool       `json:"exact"`
	State      string     `json:"state"`
	Since      *time.Time `json:"since"`
}

// List is a reply of list_purchases. It may lag, and carries no revision.
type List struct {
	Meta
	Items     []ListItem
	Truncated bool
}

// ListItem is one purchase of a list.
type ListItem struct {
	PurchaseID string    `json:"purchase_id"`
	State      string    `json:"state"`
	Merchant   Merchant  `json:"merchant"`
	Amount     Amount    `json:"amount"`
	CheckoutBy *string   `json:"checkout_by"`
	CreatedAt  time.Time `json:"created_at"`
}

package envoysim

import "net/http"

// Contract is the revision of the Envoy contract that the simulator acts out.
const Contract = "envoy@2026-10"

// State is a purchase's lifecycle state, as the contract spells it.
type State string

// The ten lifecycle states.
const (
	NeedsDetails   State = "needs_details"
	NeedsAnswer    State = "needs_answer"
	WaitingForUser State = "waiting_for_user"
	Processing     State = "processing"
	Ready          State = "ready"
	Verifying      State = "verifying"
	Completed      State = "completed"
	Failed         State = "failed"
	Cancelled      State = "cancelled"
	Superseded     State = "superseded"
)

// Terminal reports whether the lifecycle ends in the state. Money may still be open.
func (s State) Terminal() bool {
	switch s {
	case Completed, Failed, Cancelled, Superseded:
		return true
	default:
		return false
	}
}

// Held reports whether a status read may be held in the state until something changes.
func (s State) Held() bool {
	switch s {
	case WaitingForUser, Processing, Verifying:
		return true
	default:
		return false
	}
}

// Asks reports whether an open question belongs to the state.
func (s State) Asks() bool { return s == NeedsDetails || s == NeedsAnswer }

// Rail is the way a purchase is paid. Empty until Envoy selected one.
type Rail string

// The four rails.
const (
	OTUCard           Rail = "otu_card"
	OperatedCheckout  Rail = "operated_checkout"
	ElixirMarketplace Rail = "elixir_marketplace"
	GiftCard          Rail = "gift_card"
)

// Route says who completes the merchant checkout. Empty until a rail is selected.
type Route string

// The two checkout routes.
const (
	ByAgent Route = "agent"
	ByEnvoy Route = "envoy"
)

// UserTask is what the user has to do while a purchase is waiting_for_user.
type UserTask string

// The four user tasks.
const (
	Approve  UserTask = "approve"
	EnterOTP UserTask = "enter_otp"
	AddMoney UserTask = "add_money"
	PayLink  UserTask = "pay_link"
)

// MoneyStatus is what a reply says about money. It may lag behind the ledger.
type MoneyStatus string

// The money states a reply may carry.
const (
	NotStarted       MoneyStatus = "not_started"
	MoneyUnknown     MoneyStatus = "unknown"
	MoneyDebited     MoneyStatus = "debited"
	RefundPending    MoneyStatus = "refund_pending"
	MoneyRefunded    MoneyStatus = "refunded"
	MerchantCollects MoneyStatus = "merchant_collects"
)

// ErrorCode is a contract error code. Its HTTP status is fixed.
type ErrorCode string

// Every error code of the contract.
const (
	InvalidInput         ErrorCode = "INVALID_INPUT"
	Unauthenticated      ErrorCode = "UNAUTHENTICATED"
	NotAllowed           ErrorCode = "NOT_ALLOWED"
	ServiceNotEnabled    ErrorCode = "SERVICE_NOT_ENABLED"
	NotFound             ErrorCode = "NOT_FOUND"
	IdempotencyConflict  ErrorCode = "IDEMPOTENCY_CONFLICT"
	ActivePurchaseExists ErrorCode = "ACTIVE_PURCHASE_EXISTS"
	StateConflict        ErrorCode = "STATE_CONFLICT"
	NoRail               ErrorCode = "NO_RAIL"
	RateLimited          ErrorCode = "RATE_LIMITED"
	Unavailable          ErrorCode = "UNAVAILABLE"
	ClientUpdateRequired ErrorCode = "CLIENT_UPDATE_REQUIRED"
)

// HTTPStatus is the status that the contract pairs with the code. Zero for a word that is no code.
func (c ErrorCode) HTTPStatus() int {
	switch c {
	case InvalidInput:
		return http.StatusBadRequest
	case Unauthenticated:
		return http.StatusUnauthorized
	case NotAllowed, ServiceNotEnabled:
		return http.StatusForbidden
	case NotFound:
		return http.StatusNotFound
	case IdempotencyConflict, ActivePurchaseExists, StateConflict:
		return http.StatusConflict
	case NoRail:
		return http.StatusUnprocessableEntity
	case RateLimited:
		return http.StatusTooManyRequests
	case Unavailable:
		return http.StatusServiceUnavailable
	case ClientUpdateRequired:
		return http.StatusUpgradeRequired
	default:
		return 0
	}
}

// The names of the thirteen tools, the two deprecated ones included.
const (
	toolAccount        = "get_account"
	toolTransactions   = "list_transactions"
	toolPurchases      = "list_purchases"
	toolStart          = "start_purchase"
	toolStatus         = "get_purchase_status"
	toolAnswer         = "answer_purchase_question"
	toolSubmit         = "submit_answer"
	toolReport         = "report_checkout_result"
	toolStep           = "report_checkout_step"
	toolCancel         = "cancel_purchase"
	toolGiftMerchants  = "list_gift_card_merchants"
	toolMerchants      = "get_merchants"
	toolSearchProducts = "search_products"
)

// Tools lists the tools that the simulator serves.
func Tools() []string {
	return []string{
		toolAccount, toolTransactions, toolPurchases, toolStart, toolStatus, toolAnswer, toolSubmit,
		toolReport, toolStep, toolCancel, toolGiftMerchants, toolMerchants, toolSearchProducts,
	}
}

// Package events is Herald's vocabulary: what a purchase looked like (Snapshot),
// what that means (Situation, Money, Judge), and how it is said (Event, a
// CloudEvents document). It is pure: no clock, no network, no log, and nothing
// of ours is imported, so watcher, notifier and every subscriber share one
// meaning. What is not named in this package cannot leave the process.
package events

import "time"

// Situation is where a purchase stands, in words that an operator acts on.
type Situation string

// The situations. They are worked out once, by Judge, and carried on the event.
const (
	SituationNeedsDetails   Situation = "needs_details"
	SituationNeedsAnswer    Situation = "needs_answer"
	SituationWaitingForUser Situation = "waiting_for_user"
	SituationWorking        Situation = "working"
	SituationReady          Situation = "ready"
	SituationConfirming     Situation = "confirming"
	SituationDone           Situation = "done"
	SituationStopped        Situation = "stopped"
	SituationNeedsSupport   Situation = "needs_support"
	SituationUnknown        Situation = "unknown"
)

// Money says whether money moved.
type Money string

// The words for money of contract envoy@2026-10.
const (
	MoneyNotCharged Money = "not_charged"
	MoneySetAside   Money = "set_aside"
	MoneyCharged    Money = "charged"
	MoneyRefunding  Money = "refunding"
	MoneyRefunded   Money = "refunded"
	MoneyUnknown    Money = "unknown"
)

// Judgement is what Judge makes of a snapshot and the facts beside it. Each
// word comes with the rule that decided it.
type Judgement struct {
	Situation      Situation
	SituationBasis string
	Certain        bool
	Money          Money
	MoneyBasis     string
	Unsettled      bool
	Terminal       bool
	Inconsistent   bool
	WaitingOn      string // user, agent, envoy, nobody
	AgentReport    string // on verifying of the agent route: paid, failed, or empty
	ReasonClass    string // user, policy, order, unknown, or empty without a reason
}

// Settled reports whether nothing about the purchase is open any more; it
// ends every dwell, reminder and wait.
func (j Judgement) Settled() bool { return j.Terminal && !j.Unsettled }

// Cause says why a reading was published.
type Cause string

// Causes of a reading.
const (
	CauseRevision Cause = "revision" // Envoy's revision rose
	CauseReading  Cause = "reading"  // same revision, other meaning
	CauseBaseline Cause = "baseline" // first contact with the connection
	CauseStill    Cause = "still"    // unchanged and unsettled: keeps state and timers alive
	CauseReset    Cause = "reset"    // the far side was restored, a new epoch began
)

// Type is the CloudEvents type.
type Type string

// The event types.
const (
	TypeChanged Type = "money.envoy.purchase.changed.v1"
	TypeOverdue Type = "money.envoy.purchase.overdue.v1"
	TypeNotice  Type = "money.envoy.connection.notice.v1"
)

// NoticeKind is the closed set of things that a connection or sink may report.
type NoticeKind string

// Kinds of notice.
const (
	NoticeParked      NoticeKind = "parked"
	NoticeResumed     NoticeKind = "resumed"
	NoticeNotFound    NoticeKind = "not_found"
	NoticeBlind       NoticeKind = "blind"
	NoticeSeeing      NoticeKind = "seeing"
	NoticeReadyReply  NoticeKind = "ready_reply"
	NoticeReset       NoticeKind = "reset"
	NoticeGaveUp      NoticeKind = "gave_up"
	NoticeBadInput    NoticeKind = "bad_input"
	NoticeForeign     NoticeKind = "foreign_reply"
	NoticeSinkPaused  NoticeKind = "sink_paused"
	NoticeSinkResumed NoticeKind = "sink_resumed"
	NoticeAgedOut     NoticeKind = "aged_out"
)

// Position orders the readings of one purchase: epoch, then revision, then n,
// the count of readings at one revision from 0.
type Position struct {
	Epoch    int64 `json:"epoch"`
	Revision int64 `json:"revision"`
	N        int64 `json:"n"`
}

// Reading is what Herald says of a purchase at a Position.
type Reading struct {
	Revision  int64     `json:"revision"`
	Situation Situation `json:"situation"`
	Money     Money     `json:"money"`
	Unsettled bool      `json:"unsettled"`
	Terminal  bool      `json:"terminal"`
}

// ReadingInfo is data.reading of an event.
type ReadingInfo struct {
	Revision int64    `json:"revision"`
	Epoch    int64    `json:"epoch"`
	N        int64    `json:"n"`
	Cause    Cause    `json:"cause"`
	Changed  []string `json:"changed"` // names of the data fields that changed since previous, sorted
}

// Previous names the event before this one of the same purchase, by which a
// consumer proves that no published event is missing.
type Previous struct {
	ID        string    `json:"id"`
	Revision  int64     `json:"revision"`
	State     State     `json:"state"`
	Situation Situation `json:"situation"`
}

// Deadlines are the known moments at which something runs out; nil: none known.
type Deadlines struct {
	NextBy          *time.Time `json:"next_by,omitempty"`
	UserActionBy    *time.Time `json:"user_action_by,omitempty"`
	ApprovalBy      *time.Time `json:"approval_by,omitempty"`
	FundingExpires  *time.Time `json:"funding_expires_at,omitempty"`
	SpendingExpires *time.Time `json:"spending_expires_at,omitempty"`
}

// Overdue names the deadline that passed without a change.
type Overdue struct {
	Deadline string    `json:"deadline"` // the JSON name in Deadlines
	At       time.Time `json:"at"`
}

// Purchase is data of purchase events: the whole current state, so that the
// last message of a subject is all that anybody needs.
type Purchase struct {
	Connection      string       `json:"connection"`
	Reading         ReadingInfo  `json:"reading"`
	Previous        *Previous    `json:"previous"`
	Situation       Situation    `json:"situation"`
	SituationSince  time.Time    `json:"situation_since,omitzero"`
	SituationBasis  string       `json:"situation_basis"`
	Certain         bool         `json:"certain"`
	Money           Money        `json:"money"`
	MoneyBasis      string       `json:"money_basis"`
	MoneyStatus     MoneyStatus  `json:"money_status"`
	Unsettled       bool         `json:"unsettled"`
	Terminal        bool         `json:"terminal"`
	Inconsistent    bool         `json:"inconsistent,omitempty"`
	SourceOfReading Source       `json:"source_of_reading"`
	State           State        `json:"state"`
	UserTask        string       `json:"user_task,omitempty"`
	ReasonCode      string       `json:"reason_code,omitempty"`
	ReasonClass     string       `json:"reason_class,omitempty"`
	Rail            string       `json:"rail,omitempty"`
	RailReason      string       `json:"rail_reason,omitempty"`
	CheckoutBy      string       `json:"checkout_by,omitempty"`
	Merchant        Merchant     `json:"merchant"`
	Amount          Amount       `json:"amount"`
	Description     string       `json:"description,omitempty"`
	DetailsMissing  []string     `json:"details_missing,omitempty"`
	Question        *Question    `json:"question,omitempty"`
	Approval        Approval     `json:"approval"`
	PaymentReady    PaymentReady `json:"payment_ready"`
	SpendingClosed  *bool        `json:"spending_closed,omitempty"`
	Receipt         *Receipt     `json:"receipt,omitempty"`
	Chain           Chain        `json:"chain"`
	ChainRoot       string       `json:"chain_root"`
	Agent           Agent        `json:"agent"`
	Funding         *Funding     `json:"funding,omitempty"`
	Held            *Held        `json:"held,omitempty"`
	Deadlines       Deadlines    `json:"deadlines"`
	Overdue         *Overdue     `json:"overdue,omitempty"` // only on overdue events
	Say             string       `json:"say"`               // the only text meant for buyers
	WaitingOn       string       `json:"waiting_on"`
	AgentReport     string       `json:"agent_report,omitempty"`
	Support         Support      `json:"support"`
	Masked          int          `json:"masked,omitempty"` // pieces of free text masked by the scrubber
	CreatedAt       time.Time    `json:"created_at,omitzero"`
	UpdatedAt       time.Time    `json:"updated_at,omitzero"`
}

// Notice is data of connection notices.
type Notice struct {
	Connection string     `json:"connection"`
	Kind       NoticeKind `json:"kind"`
	PurchaseID string     `json:"purchase_id,omitempty"`
	Sink       string     `json:"sink,omitempty"`
	Text       string     `json:"text"`             // written by us: what happened and what to do
	Code       string     `json:"code,omitempty"`   // Envoy's error.code or another word from a closed set
	Fields     []string   `json:"fields,omitempty"` // error.fields[].path
	Count      int64      `json:"count,omitempty"`  // how many, where it counts
	Support    Support    `json:"support,omitzero"` // of the reply that caused it
}

// Event is a CloudEvents 1.0 document. Exactly one of Purchase and Notice is
// set, by Type; it is the document's data member.
type Event struct {
	ID          string
	Source      string // /connections/<name>
	Type        Type
	Subject     string // purchase id; empty on notices
	Time        time.Time
	TraceParent string // W3C trace context, an extension attribute
	Purchase    *Purchase
	Notice      *Notice
}

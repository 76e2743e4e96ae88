package envoysim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// word is a string whose empty value is null on the wire.
type word string

// MarshalJSON writes null for the empty word.
func (w word) MarshalJSON() ([]byte, error) {
	if w == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(w))
}

// stamp is a time whose zero value is null on the wire.
type stamp time.Time

// MarshalJSON writes RFC 3339 in UTC with milliseconds, or null.
func (t stamp) MarshalJSON() ([]byte, error) {
	at := time.Time(t)
	if at.IsZero() {
		return []byte("null"), nil
	}
	return at.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z"`), nil
}

type wireMoney struct {
	Minor    int64  `json:"minor"`
	Currency string `json:"currency"`
	Display  string `json:"display"`
}

func rupees(minor int64) wireMoney {
	return wireMoney{Minor: minor, Currency: "INR", Display: display(minor)}
}

func rupeesOrNull(minor *int64) *wireMoney {
	if minor == nil {
		return nil
	}
	m := rupees(*minor)
	return &m
}

// display groups the Indian way: the last three digits, then pairs.
func display(minor int64) string {
	whole := strconv.FormatInt(minor/100, 10)
	head, tail := "", whole
	if len(whole) > 3 {
		head, tail = whole[:len(whole)-3], ","+whole[len(whole)-3:]
	}
	for len(head) > 2 {
		head, tail = head[:len(head)-2], ","+head[len(head)-2:]+tail
	}
	return fmt.Sprintf("₹%s%s.%02d", head, tail, minor%100)
}

type wireMerchant struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type wireAgent struct {
	ID           string `json:"agent_id"`
	DisplayName  string `json:"display_name"`
	Verification string `json:"verification"`
}

func (a AgentIdentity) wire() wireAgent {
	if a.Verification == "" {
		a.Verification = "unverified"
	}
	return wireAgent(a)
}

type wirePurchase struct {
	PurchaseID     string        `json:"purchase_id"`
	Service        string        `json:"service"`
	IdempotencyKey string        `json:"idempotency_key"`
	Revision       int           `json:"revision"`
	Terminal       bool          `json:"terminal"`
	State          State         `json:"state"`
	UserTask       word          `json:"user_task"`
	ReasonCode     word          `json:"reason_code"`
	StatusText     string        `json:"status_text"`
	Rail           word          `json:"rail"`
	RailReason     word          `json:"rail_reason"`
	CheckoutBy     word          `json:"checkout_by"`
	Merchant       wireMerchant  `json:"merchant"`
	Amount         wireMoney     `json:"amount"`
	Description    word          `json:"description"`
	Details        wireDetails   `json:"details"`
	Question       *wireQuestion `json:"question"`
	FollowUp       *wireFollowUp `json:"follow_up"`
	Approval       wireApproval  `json:"approval"`
	PaymentReady   wireReady     `json:"payment_ready"`
	Money          wireState     `json:"money"`
	Receipt        *wireReceipt  `json:"receipt"`
	Chain          wireChain     `json:"chain"`
	Agent          wireAgent     `json:"agent"`
	CreatedAt      stamp         `json:"created_at"`
	UpdatedAt      stamp         `json:"updated_at"`
	Funding        *wireFunding  `json:"funding,omitempty"`
}

type wireDetails struct {
	Complete bool     `json:"complete"`
	Missing  []string `json:"missing"`
}

type wireQuestion struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Prompt  string `json:"prompt"`
	AskedAt stamp  `json:"asked_at"`
}

type wireFollowUp struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Prompt string `json:"prompt"`
}

type wireApproval struct {
	State       word  `json:"state"`
	Method      word  `json:"method"`
	DecideBy    stamp `json:"decide_by"`
	ApprovalURL word  `json:"approval_url"` // the contract says: always null
}

type wireReady struct {
	Available bool  `json:"available"`
	Kind      word  `json:"kind"`
	ExpiresAt stamp `json:"expires_at"`
	Closed    *bool `json:"closed,omitempty"`
}

type wireState struct {
	Status   MoneyStatus `json:"status"`
	Paid     *wireMoney  `json:"paid"`
	OrderRef word        `json:"merchant_order_ref"`
}

type wireReceipt struct {
	OrderRef    word      `json:"merchant_order_ref"`
	Paid        wireMoney `json:"paid"`
	Card        *wireCard `json:"card"`
	CompletedAt stamp     `json:"completed_at"`
}

type wireCard struct {
	Network string `json:"network"`
	Last4   string `json:"last4"`
}

type wireChain struct {
	Supersedes   word `json:"supersedes"`
	SupersededBy word `json:"superseded_by"`
}

type wireFunding struct {
	URL       string    `json:"url"`
	Amount    wireMoney `json:"amount"`
	ExpiresAt stamp     `json:"expires_at"`
}

// wire is the snapshot as it goes out. It shares nothing with p that could change later.
func (p *Purchase) wire() *wirePurchase {
	w := &wirePurchase{
		PurchaseID: p.ID, Service: "purchase", IdempotencyKey: p.Key, Revision: p.Revision,
		Terminal: p.State.Terminal(), State: p.State, UserTask: word(p.UserTask), ReasonCode: word(p.ReasonCode),
		StatusText: p.StatusText, Rail: word(p.Rail), RailReason: word(p.RailReason), CheckoutBy: word(p.CheckoutBy),
		Merchant: wireMerchant{p.MerchantName, p.MerchantURL}, Amount: rupees(p.Amount),
		Description: word(p.Description),
		Details:     wireDetails{Complete: len(p.Missing) == 0, Missing: append([]string{}, p.Missing...)},
		Approval: wireApproval{
			State: word(p.Approval.State), Method: word(p.Approval.Method), DecideBy: stamp(p.Approval.DecideBy),
		},
		PaymentReady: wireReady{Available: p.releases(), ExpiresAt: stamp(p.Handout.ExpiresAt), Closed: p.Handout.Closed},
		Money:        wireState{Status: p.Money.Status, Paid: rupeesOrNull(p.Money.Paid), OrderRef: word(p.Money.OrderRef)},
		Chain:        wireChain{Supersedes: word(p.Supersedes), SupersededBy: word(p.SupersededBy)},
		Agent:        p.Agent.wire(), CreatedAt: stamp(p.Created), UpdatedAt: stamp(p.Updated),
	}
	if w.PaymentReady.Available {
		w.PaymentReady.Kind = word(p.kind())
	}
	if q := p.Question; q != nil {
		w.Question = &wireQuestion{ID: q.ID, Kind: q.Kind, Prompt: q.Prompt, AskedAt: stamp(q.AskedAt)}
	}
	if f := p.FollowUp; f != nil {
		w.FollowUp = &wireFollowUp{ID: f.ID, Kind: "feedback", Prompt: f.Prompt}
	}
	if r := p.Receipt; r != nil {
		w.Receipt = &wireReceipt{OrderRef: word(r.OrderRef), Paid: rupees(r.Paid), CompletedAt: stamp(r.CompletedAt)}
		if r.CardLast4 != "" {
			w.Receipt.Card = &wireCard{Network: "rupay", Last4: r.CardLast4}
		}
	}
	if f := p.Funding; f != nil {
		w.Funding = &wireFunding{URL: f.URL, Amount: rupees(f.Amount), ExpiresAt: stamp(f.ExpiresAt)}
	}
	return w
}

func (p *Purchase) kind() string {
	if p.Rail == GiftCard {
		return "gift_card"
	}
	return "card"
}

package envoysim

import (
	"context"
	"time"
)

// account is data.account. Pointers to pointers tell a section that is null from one that was not asked for.
type account struct {
	Currency       *string        `json:"currency,omitempty"`
	Balance        *wireMoney     `json:"balance,omitempty"`
	Held           *wireMoney     `json:"held,omitempty"`
	Spendable      *wireMoney     `json:"spendable,omitempty"`
	HeldPurchases  any            `json:"held_purchases,omitempty"`
	LimitsReserved string         `json:"limits_reserved,omitempty"`
	Unavailable    []string       `json:"unavailable,omitempty"`
	Profile        *profile       `json:"profile,omitempty"`
	Addresses      []address      `json:"addresses,omitempty"`
	Limits         []accountLimit `json:"limits,omitempty"`
	Services       []string       `json:"services,omitempty"`
	Active         **wirePurchase `json:"active_purchase,omitempty"`
	Agent          *wireAgent     `json:"agent,omitempty"`
}

type accountData struct {
	Account *account `json:"account"`
}

type heldPurchases struct {
	Available bool       `json:"available"`
	Reason    word       `json:"reason"`
	Items     []heldItem `json:"items"`
	Total     *wireMoney `json:"total"`
	Truncated *bool      `json:"truncated"`
}

type heldItem struct {
	PurchaseID string     `json:"purchase_id"`
	Merchant   word       `json:"merchant"`
	Amount     *wireMoney `json:"amount"`
	Exact      bool       `json:"exact"`
	State      string     `json:"state"`
	Since      stamp      `json:"since"`
}

type profile struct {
	Name   string `json:"name"`
	Mobile string `json:"mobile"`
	Email  string `json:"email"`
}

type address struct {
	ID        string `json:"id"`
	Label     string `json:"label"`
	IsDefault bool   `json:"is_default"`
	Name      word   `json:"name"`
	Phone     word   `json:"phone"`
	Line1     string `json:"line1"`
	Line2     word   `json:"line2"`
	Line3     word   `json:"line3"`
	City      string `json:"city"`
	State     string `json:"state"`
	PinCode   string `json:"pin_code"`
	Country   word   `json:"country"`
	Line      string `json:"line"`
}

type accountLimit struct {
	Channel string    `json:"channel"`
	Period  string    `json:"period"`
	Amount  wireMoney `json:"amount"`
}

func (s *Sim) getAccount(_ context.Context, c *call) *reply {
	include := []string{"balance", "services", "active_purchase", "held_purchases"}
	if asked, ok := c.input["include"].([]any); ok {
		include = include[:0]
		for _, a := range asked {
			if name, ok := a.(string); ok {
				include = append(include, name)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &account{}
	for _, name := range include {
		s.sectionLocked(c, a, name)
	}
	r := s.blankLocked(c.tool)
	r.Data = accountData{a}
	return r
}

func (s *Sim) sectionLocked(c *call, a *account, name string) {
	u := c.tok.user
	switch name {
	case "balance":
		s.balanceLocked(u, a)
	case "limits":
		a.Limits = []accountLimit{{"online", "day", rupees(10_000_000)}, {"online", "transaction", rupees(5_000_000)}}
		a.LimitsReserved = "not_reserved"
	case "services":
		a.Services = []string{"purchase"}
	case "active_purchase":
		s.activeSectionLocked(c, a)
	case "agent":
		w := c.tok.agent.wire()
		a.Agent = &w
	case "profile":
		a.Profile = &profile{u.name, u.phone, u.email}
	case "addresses":
		a.Addresses = []address{u.address()}
	case "held_purchases":
		a.HeldPurchases = s.heldLocked(u)
	}
}

func (u *user) address() address {
	return address{
		ID: "adr_" + u.id, Label: "Home", IsDefault: true, Name: word(u.name), Phone: word(u.phone), Line1: u.house,
		Line2: "MG Road", City: "Bengaluru", State: "Karnataka", PinCode: "560001", Country: "IN",
		Line: u.house + ", MG Road, Bengaluru 560001",
	}
}

func (s *Sim) balanceLocked(u *user, a *account) {
	held := u.heldSum
	inr, balance, set, free := "INR", rupees(max(0, u.balance)), rupees(held), rupees(max(0, u.balance-held))
	a.Currency, a.Balance, a.Held, a.Spendable = &inr, &balance, &set, &free
}

// activeSectionLocked shows the newest open purchase, or null, or nothing at all and says so.
func (s *Sim) activeSectionLocked(c *call, a *account) {
	u := c.tok.user
	if chance(u.rng, s.opts.Quirks.HideActive) {
		a.Unavailable = append(a.Unavailable, "active_purchase")
		return
	}
	now := s.now()
	c.tok.lastLook, c.tok.lastShow = now, ""
	var shown *wirePurchase
	if p := s.lookedAtLocked(u, now); p != nil {
		snapshot, _ := p.shownLocked(toolAccount, now)
		if !snapshot.State.Terminal() {
			shown = snapshot.wire()
			c.tok.lastShow = snapshot.ID
			p.lastSeen[c.tok] = snapshot.State
		}
	}
	a.Active = &shown
}

// lookedAtLocked is the purchase that get_account speaks of: one that has just ended may still be it.
func (s *Sim) lookedAtLocked(u *user, now time.Time) *purchase {
	if p := u.activeLocked(); p != nil {
		return p
	}
	if len(u.all) == 0 {
		return nil
	}
	last := u.all[len(u.all)-1]
	if last.skew.tool == toolAccount && now.Before(last.skew.until) {
		return last
	}
	return nil
}

// maxHeld is the most items of held_purchases in one reply.
const maxHeld = 100

func (s *Sim) heldLocked(u *user) *heldPurchases {
	if chance(u.rng, s.opts.Quirks.HoldsUnavailable) {
		return &heldPurchases{Reason: "upstream_unavailable", Items: []heldItem{}}
	}
	sum, cut := rupees(u.heldSum), len(u.held) > maxHeld
	h := &heldPurchases{Available: true, Items: []heldItem{}, Total: &sum, Truncated: &cut}
	for _, p := range u.held[:min(len(u.held), maxHeld)] {
		h.Items = append(h.Items, p.heldItem())
	}
	if chance(u.rng, s.opts.Quirks.HoldsTruncated) {
		h.truncate(u.rng.IntN(2) == 0)
	}
	return h
}

func (p *purchase) heldItem() heldItem {
	state, amount := "held", rupees(p.ledger.Amount)
	if p.ledger.Status == LedgerRefunding {
		state = "returning"
	}
	return heldItem{
		PurchaseID: p.now.ID, Merchant: word(p.now.MerchantName), Amount: &amount, Exact: true, State: state,
		Since: stamp(p.ledger.Since),
	}
}

// truncate drops the newest item and says that it may be so, or says nothing about it.
func (h *heldPurchases) truncate(said bool) {
	if len(h.Items) > 0 {
		h.Items = h.Items[:len(h.Items)-1]
	}
	h.Total, h.Truncated = nil, nil
	if said {
		h.Truncated = &said
	}
}

package envoysim

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

type listedPurchase struct {
	PurchaseID string       `json:"purchase_id"`
	State      State        `json:"state"`
	Merchant   wireMerchant `json:"merchant"`
	Amount     wireMoney    `json:"amount"`
	CheckoutBy word         `json:"checkout_by"`
	CreatedAt  stamp        `json:"created_at"`
}

type purchaseList struct {
	Purchases []listedPurchase `json:"purchases"`
	Truncated bool             `json:"truncated"`
}

// lag is how long a list may show the state before the last change.
const lag = 10 * time.Second

func (s *Sim) listPurchases(_ context.Context, c *call) *reply {
	limit := 10
	if n, ok := c.num("limit"); ok {
		limit = n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, now := c.tok.user.all, s.now()
	list := purchaseList{Purchases: []listedPurchase{}, Truncated: len(all) > limit}
	for i := len(all) - 1; i >= 0 && len(list.Purchases) < limit; i-- {
		p := all[i]
		shown := &p.now
		if p.prev.Revision >= 0 && now.Sub(p.now.Updated) < s.scaled(lag) && chance(p.draws, s.opts.Quirks.ListLag) {
			shown = &p.prev
		}
		p.lastSeen[c.tok] = shown.State
		list.Purchases = append(list.Purchases, listedPurchase{
			PurchaseID: shown.ID, State: shown.State, Merchant: wireMerchant{shown.MerchantName, shown.MerchantURL},
			Amount: rupees(shown.Amount), CheckoutBy: word(shown.CheckoutBy), CreatedAt: stamp(shown.Created),
		})
	}
	r := s.blankLocked(c.tool)
	r.Data = list
	return r
}

type transaction struct {
	ID         string    `json:"id"`
	OccurredAt stamp     `json:"occurred_at"`
	Amount     wireMoney `json:"amount"`
	Direction  string    `json:"direction"`
	Title      string    `json:"title"`
	Subtitle   word      `json:"subtitle"`
	ByAgent    bool      `json:"by_agent"`
	Kind       string    `json:"kind"`
	Status     string    `json:"status"`
	Card       string    `json:"card"`
}

type transactionList struct {
	Transactions []transaction `json:"transactions"`
	NextCursor   word          `json:"next_cursor"`
}

// book writes a move of money into the user's books.
func (u *user) book(s *Sim, p *purchase, from, to LedgerStatus) {
	t := transaction{
		ID: fmt.Sprintf("txn_%d_%s", len(u.books), p.now.ID[4:]), OccurredAt: stamp(s.now()), Amount: rupees(p.now.Amount),
		Title: orField(cut(p.now.MerchantName, 200), "Purchase"), ByAgent: true, Status: "completed", Card: "envoy",
	}
	if p.now.Rail == GiftCard {
		t.Card = "unknown"
	}
	switch to {
	case LedgerAuthorised:
		return
	case LedgerSetAside:
		t.Direction, t.Kind, t.Status = "none", "card_funded", "pending"
	case LedgerDebited:
		t.Direction, t.Kind = "debit", "purchase"
		if p.now.Rail != GiftCard {
			u.balance -= p.now.Amount
		}
	case LedgerRefunding:
		t.Direction, t.Kind, t.Status = "credit", "refund", "pending"
	case LedgerRefunded:
		t.Direction, t.Kind = "credit", "refund"
	case LedgerNone:
		if from == LedgerAuthorised {
			return
		}
		t.Direction, t.Kind = "credit", "reversal"
	}
	if to == LedgerRefunded && p.wasDebited() && p.now.Rail != GiftCard {
		u.balance += p.now.Amount
	}
	u.books = append(u.books, t)
}

func (p *purchase) wasDebited() bool {
	for _, c := range p.ledger.Changes {
		if c.Status == LedgerDebited {
			return true
		}
	}
	return false
}

func (s *Sim) listTransactions(_ context.Context, c *call) *reply {
	limit := 20
	if n, ok := c.num("limit"); ok {
		limit = n
	}
	from, to := c.str("from"), c.str("to")
	s.mu.Lock()
	defer s.mu.Unlock()
	books := c.tok.user.books
	at := len(books) - 1
	if cursor := c.str("cursor"); cursor != "" {
		n, ok := readCursor(cursor)
		if !ok || n >= len(books) {
			r := s.refuseLocked(c.tool, InvalidInput, false, -1)
			r.Error.Fields = []wireField{{Path: "/cursor", Problem: "is no cursor of this list"}}
			return r
		}
		at = n
	}
	list := transactionList{Transactions: []transaction{}}
	for ; at >= 0 && len(list.Transactions) < limit; at-- {
		day := time.Time(books[at].OccurredAt).UTC().Format(time.DateOnly)
		if (from == "" || day >= from) && (to == "" || day <= to) {
			list.Transactions = append(list.Transactions, books[at])
		}
	}
	if at >= 0 {
		list.NextCursor = word(makeCursor(at))
	}
	r := s.blankLocked(c.tool)
	r.Data = list
	return r
}

func makeCursor(at int) string {
	return base64.RawURLEncoding.EncodeToString([]byte("before:" + strconv.Itoa(at)))
}

func readCursor(cursor string) (int, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, false
	}
	digits, ok := strings.CutPrefix(string(raw), "before:")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

package envoysim

import (
	"slices"
	"time"
)

// LedgerStatus is where the money of a purchase really is.
type LedgerStatus string

// The places money can be in.
const (
	LedgerNone       LedgerStatus = "none"
	LedgerAuthorised LedgerStatus = "authorised"
	LedgerSetAside   LedgerStatus = "set_aside"
	LedgerDebited    LedgerStatus = "debited"
	LedgerRefunding  LedgerStatus = "refunding"
	LedgerRefunded   LedgerStatus = "refunded"
)

// Entry is the truth about the money of one purchase, whatever replies say.
type Entry struct {
	Status     LedgerStatus
	Amount     int64 // paise
	Since      time.Time
	ApprovedBy string // the user who approved; empty: nobody did
	ApprovedAt time.Time
	Changes    []LedgerChange
}

// LedgerChange is one move of money.
type LedgerChange struct {
	Status LedgerStatus
	At     time.Time
}

// open reports whether the money is neither at rest nor gone.
func (e *Entry) open() bool {
	return e.Status == LedgerSetAside || e.Status == LedgerRefunding
}

// Ledger returns the truth about a purchase's money, and whether the purchase exists.
func (s *Sim) Ledger(purchaseID string) (Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.byID[purchaseID]
	if !ok {
		return Entry{}, false
	}
	e := p.ledger
	e.Changes = append([]LedgerChange(nil), e.Changes...)
	return e, true
}

// SetLedger moves the money of a purchase without changing what replies say. It reports whether the purchase exists.
func (s *Sim) SetLedger(purchaseID string, to LedgerStatus) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.byID[purchaseID]
	if ok {
		s.moveMoneyLocked(p, to)
	}
	return ok
}

func (s *Sim) moveMoneyLocked(p *purchase, to LedgerStatus) {
	if p.ledger.Status == to {
		return
	}
	from, now := p.ledger.Status, s.now()
	p.owner.release(p)
	p.ledger.Status, p.ledger.Since, p.ledger.Amount = to, now, p.now.Amount
	p.ledger.Changes = append(p.ledger.Changes, LedgerChange{Status: to, At: now})
	// Only card money is shown as held: a gift card is paid for outside the account.
	if p.ledger.open() && p.now.Rail != GiftCard {
		p.owner.held = append(p.owner.held, p)
		p.owner.heldSum += p.ledger.Amount
	}
	p.owner.book(s, p, from, to)
}

// release takes a purchase off the list of open card money.
func (u *user) release(p *purchase) {
	if i := slices.Index(u.held, p); i >= 0 {
		u.held = slices.Delete(u.held, i, i+1)
		u.heldSum -= p.ledger.Amount
	}
}

// followMoneyLocked moves the ledger as far as a transition proves. Money that was set aside stays so after a
// purchase fails, until something returns it.
func (s *Sim) followMoneyLocked(p *purchase) {
	n := &p.now
	if p.ledger.ApprovedBy == "" && (n.Approval.State == "approved" || p.passedApproval()) {
		p.ledger.ApprovedBy, p.ledger.ApprovedAt = n.User, s.now()
	}
	if to := provenMoney(n, p.ledger.Status, p.ledger.ApprovedBy != ""); to != p.ledger.Status {
		s.moveMoneyLocked(p, to)
	}
}

// passedApproval reports whether the user has just let the purchase go on. The approval block may not say so.
func (p *purchase) passedApproval() bool {
	if p.prev.Revision < 0 || p.prev.State != WaitingForUser {
		return false
	}
	switch p.now.State {
	case Processing, NeedsAnswer, Ready, Verifying, Completed:
		return true
	default:
		return false
	}
}

func provenMoney(n *Purchase, have LedgerStatus, approved bool) LedgerStatus {
	untouched := have == LedgerNone || have == LedgerAuthorised
	switch n.Money.Status {
	case MoneyRefunded:
		return LedgerRefunded
	case RefundPending:
		return LedgerRefunding
	case MoneyDebited:
		return LedgerDebited
	case MerchantCollects:
		return LedgerNone
	case NotStarted, MoneyUnknown:
	}
	switch n.State {
	case Ready, Verifying:
		if !untouched {
			return have
		}
		if n.Rail == GiftCard {
			return LedgerDebited // the user paid for it outside
		}
		return LedgerSetAside
	case Processing, NeedsAnswer:
		if !untouched || !approved {
			return have
		}
		if n.Rail == GiftCard {
			return LedgerDebited
		}
		if n.CheckoutBy == ByEnvoy {
			return LedgerSetAside
		}
		return LedgerAuthorised
	case Failed, Cancelled, Superseded:
		if have == LedgerAuthorised {
			return LedgerNone
		}
	case Completed:
		if n.Money.Status == NotStarted && n.Rail != GiftCard {
			return LedgerNone
		}
	case NeedsDetails, WaitingForUser:
	}
	return have
}

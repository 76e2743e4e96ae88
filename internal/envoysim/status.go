package envoysim

import (
	"context"
	"fmt"
	"time"
)

// GuiltyRead is one get_purchase_status reply that was answered ready, and so may have released payment details.
type GuiltyRead struct {
	At       time.Time
	Token    string
	Revision int
	// Released says that payment details were in the reply.
	Released bool
	// Held says that the request waited; AfterRevision and Wait are its parameters (-1 and 0 if absent).
	Held          bool
	AfterRevision int
	Wait          time.Duration
	// SinceLook is how long ago this token last saw active_purchase; below 0: never.
	SinceLook time.Duration
	// LookShowed is the purchase that look showed; empty: none.
	LookShowed string
	// LastSeen is the state in which this token last saw the purchase; empty: never.
	LastSeen State
}

// GuiltyReads returns, per purchase, the status replies that were answered ready.
func (s *Sim) GuiltyReads() map[string][]GuiltyRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]GuiltyRead{}
	for _, p := range s.order {
		if len(p.guilty) > 0 {
			out[p.now.ID] = append([]GuiltyRead(nil), p.guilty...)
		}
	}
	return out
}

type paymentData struct {
	Details paymentDetails `json:"payment_details"`
}

type paymentDetails struct {
	Kind              string       `json:"kind"`
	Card              *cardDetails `json:"card,omitempty"`
	CheckoutCode      string       `json:"checkout_code,omitempty"`
	CheckoutCodeUntil *stamp       `json:"checkout_code_expires_at,omitempty"`
	AmountLimit       wireMoney    `json:"amount_limit"`
	AttemptID         string       `json:"checkout_attempt_id"`
	ExpiresAt         *stamp       `json:"expires_at,omitempty"`
	Voucher           *voucher     `json:"voucher,omitempty"`
}

type cardDetails struct {
	Number      string `json:"number"`
	ExpiryMonth string `json:"expiry_month"`
	ExpiryYear  string `json:"expiry_year"`
	CVV         string `json:"cvv"`
	Network     string `json:"network"`
}

type voucher struct {
	Brand         string    `json:"brand"`
	Code          string    `json:"code"`
	Pin           string    `json:"pin"`
	Value         wireMoney `json:"value"`
	RedemptionURL string    `json:"redemption_url"`
	Instructions  string    `json:"redemption_instructions"`
	ValidUntil    stamp     `json:"valid_until"`
}

// hold is what a status read was asked to wait for.
type hold struct {
	after int // -1: nothing to wait for
	wait  time.Duration
	early bool // ends before its time, for no reason that the caller can see
}

func (s *Sim) getStatus(ctx context.Context, c *call) *reply {
	h := s.holdOf(c)
	s.mu.Lock()
	p, refused := s.wantedLocked(c)
	if refused != nil {
		s.mu.Unlock()
		return refused
	}
	if h.wait > 0 && chance(p.draws, s.opts.Quirks.EarlyReply) {
		h.early = true
	}
	shown, lapse := p.shownLocked(toolStatus, s.now())
	if !h.worth(shown) {
		defer s.mu.Unlock()
		return s.statusLocked(c, p, shown, h, false)
	}
	s.countHoldLocked(p, c.tok, 1)
	held := s.waitLocked(ctx, p, h, lapse)
	s.countHoldLocked(p, c.tok, -1)
	defer s.mu.Unlock()
	if !held {
		return nil
	}
	if c.tok.revoked {
		return s.refuseLocked(c.tool, Unauthenticated, false, -1)
	}
	shown, _ = p.shownLocked(toolStatus, s.now())
	return s.statusLocked(c, p, shown, h, true)
}

func (s *Sim) holdOf(c *call) hold {
	h := hold{after: -1}
	if n, ok := c.num("after_revision"); ok {
		h.after = n
	}
	if n, ok := c.num("wait_seconds"); ok && h.after >= 0 {
		h.wait = min(time.Duration(n)*time.Second, s.opts.MaxHold)
	}
	if c.fault != nil && c.fault.Kind == FaultImmediate {
		h.wait = 0
	}
	return h
}

// worth reports whether the read is to be held while the purchase is shown so.
func (h hold) worth(shown *Purchase) bool {
	return h.wait > 0 && shown.State.Held() && shown.Revision <= h.after
}

// waitLocked gives the lock away while it waits, and has it again when it returns: true if the hold is over, false if
// the caller is gone.
func (s *Sim) waitLocked(ctx context.Context, p *purchase, h hold, lapse time.Time) bool {
	wait := h.wait
	if h.early {
		wait /= 4
	}
	over, stop := s.clock.NewTimer(wait)
	defer stop()
	for {
		changed := p.nextChangeLocked()
		var caughtUp <-chan time.Time
		stopLapse := func() bool { return true }
		if !lapse.IsZero() {
			caughtUp, stopLapse = s.clock.NewTimer(lapse.Sub(s.now()))
		}
		s.mu.Unlock()
		gone, done := false, false
		select {
		case <-ctx.Done():
			gone = true
		case <-over:
			done = true
		case <-changed:
		case <-caughtUp:
		}
		stopLapse()
		s.mu.Lock()
		if gone || done {
			return !gone
		}
		var shown *Purchase
		if shown, lapse = p.shownLocked(toolStatus, s.now()); !h.worth(shown) {
			return true
		}
	}
}

// wantedLocked finds the purchase a status read is about. Without a reference it is the active one.
func (s *Sim) wantedLocked(c *call) (*purchase, *reply) {
	ref := c.str("purchase")
	if ref == "" {
		if p := c.tok.user.activeLocked(); p != nil {
			return p, nil
		}
		return nil, s.refuseLocked(c.tool, NotFound, false, -1)
	}
	p, ok := s.findLocked(c.tok.user, ref)
	if !ok {
		return nil, s.refuseLocked(c.tool, NotFound, false, -1)
	}
	return p, nil
}

func (s *Sim) statusLocked(c *call, p *purchase, shown *Purchase, h hold, held bool) *reply {
	if chance(p.draws, s.opts.Quirks.RefusedWithPurchase) && shown.State != Ready {
		r := s.refuseLocked(c.tool, Unavailable, true, time.Second)
		next := r.Next
		r.show(shown)
		r.Next, r.UserAction = next, nil
		return r
	}
	r := s.blankLocked(c.tool).show(shown)
	if shown.State == Ready {
		p.guilty = append(p.guilty, s.guiltLocked(c, p, shown, h, held))
	}
	if shown.releases() {
		r.Data = s.releaseLocked(p, shown)
		r.Next.Args = map[string]string{"purchase": shown.ID, "checkout_attempt_id": p.attempt}
	}
	p.lastSeen[c.tok] = shown.State
	return r
}

func (s *Sim) guiltLocked(c *call, p *purchase, shown *Purchase, h hold, held bool) GuiltyRead {
	now := s.now()
	g := GuiltyRead{
		At: now, Token: c.tok.value, Revision: shown.Revision, Released: shown.releases(), Held: held,
		AfterRevision: h.after, Wait: h.wait, SinceLook: -1, LastSeen: p.lastSeen[c.tok],
	}
	if !c.tok.lastLook.IsZero() {
		g.SinceLook, g.LookShowed = now.Sub(c.tok.lastLook), c.tok.lastShow
	}
	return g
}

// releaseLocked issues a new checkout attempt with new secrets. That is what makes a ready read an act.
func (s *Sim) releaseLocked(p *purchase, shown *Purchase) paymentData {
	p.attempt = s.mint.attempt()
	until := stamp(shown.Handout.ExpiresAt)
	d := paymentDetails{Kind: shown.kind(), AmountLimit: rupees(shown.Amount), AttemptID: p.attempt, ExpiresAt: &until}
	if shown.Rail != GiftCard {
		soon := stamp(s.now().Add(5 * time.Minute))
		d.Card = &cardDetails{
			Number: s.mint.cardNumber(), ExpiryMonth: fmt.Sprintf("%02d", 1+p.draws.IntN(12)), ExpiryYear: "2031",
			CVV: s.mint.cvv(), Network: "rupay",
		}
		d.CheckoutCode, d.CheckoutCodeUntil = s.mint.code("checkout"), &soon
		return paymentData{d}
	}
	d.Voucher = &voucher{
		Brand: shown.MerchantName, Code: s.mint.code("voucher"), Pin: s.mint.code("pin"), Value: rupees(shown.Amount),
		RedemptionURL: s.mint.link("redeem"), Instructions: "Enter the code where the merchant asks for a gift card.",
		ValidUntil: stamp(s.now().AddDate(1, 0, 0)),
	}
	s.laterLocked(0, p, func() { s.startedByReadLocked(p) })
	return paymentData{d}
}

// startedByReadLocked is the gift-card checkout that a ready read sets off, visible to everybody.
func (s *Sim) startedByReadLocked(p *purchase) {
	s.changeLocked(p, func(n *Purchase) {
		n.State, n.StartedByRead = Processing, true
		n.StatusText = "Envoy began the gift-card checkout because the code was read."
	})
	s.liveLocked(p)
}

package envoysim

import (
	"context"
)

// byHand tells a scripted purchase that its agent is real after all: the rest of the script does not fit any more.
func (p *purchase) byHand() {
	if p.life == LifeScripted {
		p.life, p.steps = LifeHosted, nil
	}
}

// actLocked changes a purchase for a tool and answers with what it became.
func (s *Sim) actLocked(c *call, p *purchase, fn func(*Purchase)) *reply {
	p.byHand()
	s.changeLocked(p, fn)
	s.liveLocked(p)
	return s.answerLocked(c, p)
}

// answerLocked shows a purchase as it is now. No tool but a status read carries payment details.
func (s *Sim) answerLocked(c *call, p *purchase) *reply {
	p.lastSeen[c.tok] = p.now.State
	return s.blankLocked(c.tool).show(&p.now)
}

func (s *Sim) answerQuestion(_ context.Context, c *call) *reply {
	if _, rated := c.num("rating"); rated && c.str("type") != "feedback" {
		return s.invalid(c, wireField{Path: "/rating", Problem: "belongs to feedback only"})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, said := c.str("idempotency_key"), c.str("type")+"\x00"+c.str("purchase")+"\x00"+c.str("answer")
	before, repeated := c.tok.user.answers[key]
	if repeated && before != said {
		return s.refuseLocked(c.tool, IdempotencyConflict, false, -1)
	}
	var p *purchase
	if c.str("purchase") != "" || c.str("type") != "feedback" {
		var refused *reply
		if p, refused = s.wantedLocked(c); refused != nil {
			return refused
		}
	}
	if c.str("type") == "feedback" {
		return s.feedbackLocked(c, p, key, said, repeated)
	}
	if repeated {
		r := s.answerLocked(c, p)
		r.Replayed = true
		return r
	}
	want := NeedsAnswer
	if c.str("type") == "details" {
		want = NeedsDetails
	}
	id := c.str("question")
	if p.now.State != want || p.now.Question == nil || (id != "" && id != p.now.Question.ID) {
		return s.refuseLocked(c.tool, StateConflict, false, -1)
	}
	c.tok.user.answers[key] = said
	return s.actLocked(c, p, func(n *Purchase) {
		n.State = Processing
		if want == NeedsDetails {
			n.State = WaitingForUser
			if n.Rail == "" {
				n.Rail = OTUCard
			}
		}
	})
}

type feedbackData struct {
	Receipt feedbackReceipt `json:"receipt"`
}

type feedbackReceipt struct {
	FeedbackID string `json:"feedback_id"`
	RecordedAt stamp  `json:"recorded_at"`
}

func (s *Sim) feedbackLocked(c *call, p *purchase, key, said string, repeated bool) *reply {
	r := s.blankLocked(c.tool)
	if p != nil {
		if id := c.str("question"); id != "" && !repeated && (p.now.FollowUp == nil || p.now.FollowUp.ID != id) {
			return s.refuseLocked(c.tool, StateConflict, false, -1)
		}
		if p.now.FollowUp != nil {
			s.amendLocked(p, func(n *Purchase) { n.FollowUp = nil })
		}
		r = s.answerLocked(c, p)
	}
	c.tok.user.answers[key] = said
	r.Replayed = repeated
	r.Data = feedbackData{feedbackReceipt{FeedbackID: "fbk_" + s.mint.hex32(), RecordedAt: stamp(s.now())}}
	return r
}

// failureReason is what a reported failure makes of the purchase's reason.
func failureReason(reported string) string {
	switch reported {
	case "card_not_accepted":
		return "ORDER_CARD_NOT_ACCEPTED"
	case "card_declined":
		return "ORDER_CARD_DECLINED"
	case "otp_failed":
		return "ORDER_OTP_FAILED"
	case "price_changed":
		return "ORDER_PRICE_CHANGED"
	case "out_of_stock":
		return "ORDER_OUT_OF_STOCK"
	case "site_blocked":
		return "ORDER_CHECKOUT_BLOCKED"
	case "site_error":
		return "ORDER_CHECKOUT_FAILED"
	default:
		return "ORDER_OUTCOME_UNKNOWN"
	}
}

func (s *Sim) reportResult(_ context.Context, c *call) *reply {
	failed := c.str("outcome") == "failed"
	if (c.str("failure_reason") != "") != failed {
		return s.invalid(c, wireField{Path: "/failure_reason", Problem: "belongs to a failed outcome, and to each"})
	}
	reason := ""
	if failed {
		reason = failureReason(c.str("failure_reason"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, refused := s.wantedLocked(c)
	if refused != nil {
		return refused
	}
	if p.now.State == Verifying && p.now.ReasonCode == reason && p.now.CheckoutBy == ByAgent {
		r := s.answerLocked(c, p)
		r.Replayed = true
		return r
	}
	attempt := c.str("checkout_attempt_id")
	if p.now.State != Ready || (attempt != "" && attempt != p.attempt) {
		return s.refuseLocked(c.tool, StateConflict, false, -1)
	}
	return s.actLocked(c, p, func(n *Purchase) {
		n.State, n.ReasonCode = Verifying, reason
		if !failed {
			n.Money.OrderRef = c.str("merchant_order_ref")
			if paid, ok := paise(c.str("amount_paid")); ok {
				n.Money.Paid = &paid
			}
		}
	})
}

func (s *Sim) reportStep(_ context.Context, c *call) *reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, refused := s.wantedLocked(c)
	if refused != nil {
		return refused
	}
	attempt := c.str("checkout_attempt_id")
	if p.now.State != Ready || (attempt != "" && attempt != p.attempt) {
		return s.refuseLocked(c.tool, StateConflict, false, -1)
	}
	return s.answerLocked(c, p)
}

func (s *Sim) cancelPurchase(_ context.Context, c *call) *reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, refused := s.wantedLocked(c)
	if refused != nil {
		return refused
	}
	switch p.now.State {
	case Cancelled:
		r := s.answerLocked(c, p)
		r.Replayed = true
		return r
	case Verifying, Completed, Failed, Superseded:
		return s.refuseLocked(c.tool, StateConflict, false, -1)
	case Processing:
		if p.now.CheckoutBy == ByEnvoy {
			return s.refuseLocked(c.tool, StateConflict, false, -1)
		}
	default:
	}
	return s.actLocked(c, p, func(n *Purchase) { n.State, n.ReasonCode = Cancelled, "ORDER_CANCELLED_BY_AGENT" })
}

package envoysim

import (
	"math/rand/v2"
	"time"
)

// option is one way a life may go on, with its weight.
type option struct {
	weight float64
	step   Step
}

func pick(r *rand.Rand, options ...option) Step {
	total := 0.0
	for _, o := range options {
		total += o.weight
	}
	at := r.Float64() * total
	for _, o := range options {
		if at -= o.weight; at < 0 {
			return o.step
		}
	}
	return options[len(options)-1].step
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// nextStep decides how a random life goes on; false: it has come to rest, or waits for its agent.
func (s *Sim) nextStep(p *purchase) (Step, bool) {
	r := p.rng
	switch p.now.State {
	case NeedsDetails:
		if p.life != LifeRandom {
			return Step{}, false
		}
		return Step{After: between(r, 3*time.Second, 20*time.Second), State: WaitingForUser, Rail: p.railOr(OTUCard)}, true
	case NeedsAnswer:
		if p.life != LifeRandom {
			return Step{}, false
		}
		return Step{After: between(r, 3*time.Second, 40*time.Second), State: Processing}, true
	case WaitingForUser:
		return s.fromWaiting(p), true
	case Processing:
		return s.fromProcessing(p), true
	case Ready:
		return s.fromReady(p)
	case Verifying:
		return s.fromVerifying(p), true
	case Completed, Failed, Cancelled, Superseded:
		return s.afterEnd(p)
	}
	return Step{}, false
}

func (p *purchase) railOr(r Rail) Rail {
	if p.now.Rail != "" {
		return p.now.Rail
	}
	return r
}

func (s *Sim) fromWaiting(p *purchase) Step {
	r := p.rng
	soon := between(r, 4*time.Second, time.Minute)
	if p.now.UserTask == AddMoney {
		return pick(r,
			option{8, Step{After: soon, State: WaitingForUser, UserTask: Approve}},
			option{2, Step{After: 15 * time.Minute, State: Failed, Reason: "USER_FUNDS_NOT_ADDED"}})
	}
	if p.now.CheckoutBy == ByAgent && chance(r, s.opts.Quirks.SkipToReady) {
		return Step{After: soon, State: Ready}
	}
	return pick(r,
		option{80, Step{After: soon, State: Processing}},
		option{8, Step{After: soon, State: Failed, Reason: "USER_DECLINED"}},
		option{4, Step{After: soon, State: Cancelled, Reason: "USER_CANCELLED"}},
		option{8, Step{After: 15 * time.Minute, State: Failed, Reason: "USER_APPROVAL_EXPIRED"}})
}

func (s *Sim) fromProcessing(p *purchase) Step {
	r := p.rng
	soon := between(r, time.Second, 15*time.Second)
	if p.now.Rail == "" {
		return Step{After: soon, State: WaitingForUser, Rail: OTUCard}
	}
	if p.now.Rail != GiftCard && chance(r, s.opts.Quirks.RouteFlip) {
		if p.now.CheckoutBy == ByAgent {
			return Step{After: soon, Rail: OperatedCheckout, RailReason: "RAIL_FALLBACK_SITE_BLOCKED"}
		}
		return Step{After: soon, Rail: OTUCard, RailReason: "RAIL_OPERATED_UNAVAILABLE"}
	}
	if p.now.CheckoutBy == ByAgent && !p.now.StartedByRead {
		return pick(r,
			option{92, Step{After: soon, State: Ready}},
			option{8, s.failure(p, soon, "ORDER_ISSUER_UNAVAILABLE")})
	}
	question := QuestionSpec{Kind: "text", Prompt: "The shop offers delivery tomorrow or in three days. Which one?"}
	if r.IntN(2) == 0 {
		question = QuestionSpec{Kind: "otp", Prompt: "Which code did the shop send to sign in?"}
	}
	return pick(r,
		option{12, Step{After: soon, State: NeedsAnswer, Question: &question}},
		option{60, Step{After: 2 * soon, State: Verifying}},
		option{18, s.completion(p, 2*soon)},
		option{4, Step{After: soon, State: WaitingForUser, UserTask: Approve}},
		option{3, s.failure(p, soon, "ORDER_OUT_OF_STOCK")},
		option{3, s.failure(p, soon, "ORDER_CHECKOUT_FAILED")})
}

// fromReady is the agent's part, if the agent is simulated; else only time works on a handout.
func (s *Sim) fromReady(p *purchase) (Step, bool) {
	r := p.rng
	soon := between(r, 3*time.Second, 45*time.Second)
	expire := p.now.Handout.ExpiresAt.Sub(s.momentLocked())
	unused := s.failure(p, time.Duration(float64(max(expire, 0))*s.opts.Speed), "ORDER_CARD_EXPIRED_UNUSED")
	if p.now.Rail != GiftCard && chance(r, s.opts.Quirks.EnvoyTakesOver) {
		return Step{After: soon, State: Processing, Rail: OperatedCheckout, Route: ByEnvoy, RailReason: "RAIL_FALLBACK_SITE_BLOCKED"}, true
	}
	if p.life != LifeRandom {
		return unused, !p.now.Handout.ExpiresAt.IsZero()
	}
	return pick(r,
		option{75, Step{After: soon, State: Verifying, OrderRef: orderRef(r)}},
		option{6, Step{After: soon, State: Verifying, Reason: "ORDER_CARD_DECLINED"}},
		option{6, Step{After: soon, State: Verifying, Reason: "ORDER_CARD_NOT_ACCEPTED"}},
		option{5, Step{After: soon, State: Cancelled, Reason: "ORDER_CANCELLED_BY_AGENT"}},
		option{8, unused}), true
}

func (s *Sim) fromVerifying(p *purchase) Step {
	r := p.rng
	soon := between(r, 3*time.Second, 90*time.Second)
	if !p.now.Stop && chance(r, s.opts.Quirks.StopChecking) {
		yes := true
		return Step{After: soon, Silent: true, Stop: &yes}
	}
	if p.now.CheckoutBy == ByAgent && p.now.Rail == OTUCard && chance(r, s.opts.Quirks.NewAttempt) {
		return Step{After: soon, State: Ready}
	}
	if reason := p.now.ReasonCode; reason != "" {
		return pick(r, option{85, s.failure(p, soon, reason)}, option{15, s.completion(p, soon)})
	}
	return pick(r, option{80, s.completion(p, soon)}, option{20, s.failure(p, soon, "ORDER_OUTCOME_UNKNOWN")})
}

func (s *Sim) completion(p *purchase, after time.Duration) Step {
	st := Step{After: after, State: Completed, Money: MoneyDebited, OrderRef: orderRef(p.rng), FollowUp: p.rng.IntN(3) == 0}
	switch {
	case p.now.Rail == GiftCard && p.rng.IntN(2) == 0:
		st.Money = NotStarted
	case p.now.CheckoutBy == ByEnvoy && p.rng.IntN(10) == 0:
		st.Money = MerchantCollects
	}
	return st
}

// failure ends a purchase. What replies say about the money need not be what became of it.
func (s *Sim) failure(p *purchase, after time.Duration, reason string) Step {
	st := Step{After: after, State: Failed, Reason: reason}
	if p.ledger.Status != LedgerSetAside && p.ledger.Status != LedgerDebited {
		return st
	}
	switch {
	case chance(p.rng, s.opts.Quirks.MoneyHidden):
		st.Ledger = p.ledger.Status
	case chance(p.rng, s.opts.Quirks.MoneyUnknown):
		st.Money = MoneyUnknown
	case p.ledger.Status == LedgerDebited || p.rng.IntN(2) == 0:
		st.Money = RefundPending
	default:
		st.Ledger = LedgerNone
	}
	return st
}

// afterEnd is what becomes of open money once the purchase has ended.
func (s *Sim) afterEnd(p *purchase) (Step, bool) {
	r := p.rng
	later := between(r, 10*time.Second, 2*time.Minute)
	switch {
	case p.now.Money.Status == RefundPending:
		return Step{After: later, Money: MoneyRefunded}, true
	case p.now.Money.Status == MoneyUnknown && p.ledger.Status == LedgerDebited:
		return Step{After: later, Money: MoneyDebited}, true
	case p.now.Money.Status == MoneyUnknown:
		return Step{After: later, Money: RefundPending}, true
	case p.now.State == Completed || !p.ledger.open():
		return Step{}, false
	case p.ledger.Status == LedgerSetAside && r.IntN(3) == 0:
		return Step{After: later, Money: RefundPending}, true
	case p.ledger.Status == LedgerSetAside && r.IntN(2) == 0:
		return Step{After: later, Silent: true, Ledger: LedgerRefunding}, true
	default:
		return Step{After: later, Silent: true, Ledger: LedgerNone}, true
	}
}

func orderRef(r *rand.Rand) string {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
	b := make([]byte, 0, 12)
	for range 3 {
		b = append(b, letters[r.IntN(len(letters))])
	}
	for range 7 {
		b = append(b, byte('0'+r.IntN(10)))
	}
	return string(b)
}

package envoysim

import (
	"fmt"
	"time"
)

// tidyLocked fills in what the new state needs and takes away what it forbids, so that every snapshot keeps the
// contract's invariants. What the caller set stays where the contract allows it.
func (s *Sim) tidyLocked(p *purchase, before, n *Purchase) {
	entered := before.State != n.State
	if n.State == "" {
		n.State = WaitingForUser
	}
	s.tidyBasics(n)
	s.tidyRoute(n)
	s.tidyUser(n)
	s.tidyQuestion(n)
	s.tidyEnd(n)
	if entered || n.StatusText == "" {
		if n.StatusText == before.StatusText {
			n.StatusText = statusText(n)
		}
		if p.rng != nil && p.life != LifeManual && chance(p.rng, s.opts.Quirks.DirtyText) {
			n.StatusText += s.dirt(p)
		}
	}
	if entered {
		n.Stop = n.Stop && n.State == Verifying && !before.Stop
		s.tidyDeadline(before, n)
	}
}

func (s *Sim) tidyBasics(n *Purchase) {
	if n.MerchantName == "" {
		n.MerchantName = "Example Store"
	}
	if n.MerchantURL == "" {
		n.MerchantURL = "https://shop.example.test"
	}
	if n.Agent.ID == "" {
		n.Agent = AgentIdentity{ID: "origin:https://host.example.test", DisplayName: "Simulated host", Verification: "origin"}
	}
	if n.Money.Status == "" {
		n.Money.Status = NotStarted
	}
}

func (s *Sim) tidyRoute(n *Purchase) {
	if n.Rail == "" && n.State == Ready {
		n.Rail = OTUCard
	}
	if n.Rail == "" {
		n.CheckoutBy, n.RailReason = "", ""
		return
	}
	if n.CheckoutBy == "" {
		n.CheckoutBy = ByAgent
		if n.Rail == OperatedCheckout || n.Rail == ElixirMarketplace {
			n.CheckoutBy = ByEnvoy
		}
	}
	if n.RailReason == "" {
		n.RailReason = railReason(n.Rail)
	}
	// Details are for agents only: a ready purchase that Envoy checks out itself does not exist.
	if n.State == Ready {
		n.CheckoutBy = ByAgent
	}
}

func railReason(r Rail) string {
	switch r {
	case OperatedCheckout:
		return "RAIL_AMOUNT_ABOVE_OTU_LIMIT"
	case ElixirMarketplace:
		return "RAIL_ELIXIR_INVENTORY"
	case GiftCard:
		return "RAIL_GIFT_CARD_CARDLESS"
	case OTUCard:
		return "RAIL_OTU_PREFERRED"
	default:
		return ""
	}
}

func (s *Sim) tidyUser(n *Purchase) {
	if n.State != WaitingForUser {
		n.UserTask, n.Funding = "", nil
		if n.Approval.State == "pending" {
			n.Approval.State = ""
		}
		return
	}
	if n.UserTask == "" {
		n.UserTask = Approve
	}
	if n.Approval.DecideBy.IsZero() {
		n.Approval.DecideBy = s.now().Add(s.scaled(15 * time.Minute))
	}
	if n.Approval.State == "" && n.UserTask == Approve {
		n.Approval.State = "pending"
	}
	if n.UserTask != PayLink {
		n.Funding = nil
		return
	}
	if n.Funding == nil {
		n.Funding = &Funding{URL: s.mint.link("pay"), Amount: n.Amount * 97 / 100, ExpiresAt: n.Approval.DecideBy}
	}
}

func (s *Sim) tidyQuestion(n *Purchase) {
	if !n.State.Asks() {
		n.Question, n.Missing = nil, nil
		return
	}
	if n.Question == nil {
		kind, prompt := "text", "The blue one is out of stock. Is the black one all right?"
		if n.State == NeedsDetails {
			kind, prompt = "address", "Where should this order be delivered?"
		}
		n.Question = &Question{Kind: kind, Prompt: prompt}
	}
	q := *n.Question
	if q.ID == "" {
		q.ID = "que_" + s.mint.hex32()
	}
	if q.AskedAt.IsZero() {
		q.AskedAt = s.now()
	}
	n.Question = &q
	if n.State == NeedsDetails && len(n.Missing) == 0 {
		n.Missing = []string{q.Kind}
	}
	if n.State == NeedsAnswer {
		n.Missing = nil
	}
}

func (s *Sim) tidyEnd(n *Purchase) {
	if n.State != Ready && !n.State.Terminal() && n.Handout.Closed == nil {
		n.Handout.ExpiresAt = time.Time{}
	}
	if n.State == Ready && n.Handout.ExpiresAt.IsZero() {
		n.Handout.ExpiresAt = s.now().Add(s.scaled(20 * time.Minute))
	}
	if n.State != Completed {
		n.Receipt, n.FollowUp = nil, nil
		return
	}
	if n.Receipt == nil {
		paid := n.Amount
		if n.Money.Paid != nil {
			paid = *n.Money.Paid
		}
		n.Receipt = &Receipt{Paid: paid, OrderRef: n.Money.OrderRef, CompletedAt: s.now()}
		if n.Rail == OTUCard {
			n.Receipt.CardLast4 = fmt.Sprintf("%04d", n.Amount%10000)
		}
	}
	if n.Money.Paid == nil && n.Money.Status != NotStarted {
		paid := n.Receipt.Paid
		n.Money.Paid = &paid
	}
}

func (s *Sim) tidyDeadline(before, n *Purchase) {
	if !n.Deadline.Equal(before.Deadline) {
		return // set by the caller
	}
	switch n.State {
	case WaitingForUser:
		n.Deadline = n.Approval.DecideBy
	case Processing:
		n.Deadline = s.now().Add(s.scaled(10 * time.Minute))
	case Verifying:
		n.Deadline = s.now().Add(s.scaled(30 * time.Minute))
	default:
		n.Deadline = time.Time{}
	}
}

// dirt is what free text must not carry and sometimes does.
func (s *Sim) dirt(p *purchase) string {
	if p.rng.IntN(2) == 0 {
		return " See " + s.mint.link("help") + " for more."
	}
	return " Card " + s.mint.cardInText() + " was tried."
}

func statusText(n *Purchase) string {
	switch n.State {
	case NeedsDetails:
		return "Envoy needs a detail before this purchase can go on."
	case NeedsAnswer:
		return "Envoy has a question about this order."
	case WaitingForUser:
		return waitingText(n.UserTask)
	case Processing:
		if n.CheckoutBy == ByEnvoy {
			return "Envoy is placing this order on the merchant site."
		}
		return "Envoy is preparing the payment."
	case Ready:
		return "Payment details are ready for this purchase."
	case Verifying:
		return "Envoy is checking whether the payment went through."
	case Completed:
		return "This purchase is complete."
	case Failed:
		return "This purchase could not be completed."
	case Cancelled:
		return "This purchase was cancelled."
	case Superseded:
		return "Another purchase has taken the place of this one."
	default:
		return "This purchase is in a state of its own."
	}
}

func waitingText(t UserTask) string {
	switch t {
	case EnterOTP:
		return "Enter the code in the Envoy app."
	case AddMoney:
		return "Add money in the Envoy app to go on."
	case PayLink:
		return "Pay the gift card's payment link."
	case Approve:
		return "Approve this purchase in the Envoy app."
	default:
		return "Envoy is waiting for you."
	}
}

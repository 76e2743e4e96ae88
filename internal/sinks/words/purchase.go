package words

import (
	"strings"

	"github.com/heraldbridge/herald/internal/events"
)

// purchase says the state of a purchase.
func (w *writer) purchase(p *events.Purchase) {
	phrase := Situation(p.Situation)
	w.m.Title, w.m.Tone = phrase.Title, phrase.Tone
	w.m.Subject = about(p)
	if o := p.Overdue; o != nil {
		w.m.Title = "Overdue: " + w.m.Title
		w.m.Tone = ToneWarn
		w.line("A deadline passed without a change: " + Deadline(o.Deadline) + " ended at " + Moment(o.At, w.loc) + ".")
	}
	for _, s := range situationLines(p) {
		w.line(s)
	}
	w.line(moneyLine(p))
	w.line(reasonLine(p))
	if p.Inconsistent {
		w.line("Envoy's reply contradicted itself, so its money is treated as not known.")
	}
	w.stands(p)
	w.m.Avoid = avoid(p)
	w.m.Next = next(p)
	w.quote("Envoy says", p.Say)
	if p.Question != nil {
		w.quote("Question to the user", p.Question.Prompt)
	}
	w.quote("Description", p.Description)
	w.purchaseFacts(p)
}

// stands says how long an open purchase has been where it is.
func (w *writer) stands(p *events.Purchase) {
	if p.Terminal && !p.Unsettled || p.SituationSince.IsZero() || w.n.Now.IsZero() {
		return
	}
	w.line("It has stood like this for " + Age(w.n.Now.Sub(p.SituationSince)) + ".")
}

// avoid warns wherever money may have moved unseen, whatever the situation.
func avoid(p *events.Purchase) string {
	switch p.Situation {
	case events.SituationConfirming, events.SituationNeedsSupport, events.SituationUnknown:
		return dontRepeat
	case events.SituationNeedsDetails, events.SituationNeedsAnswer, events.SituationWaitingForUser, events.SituationWorking,
		events.SituationReady, events.SituationDone, events.SituationStopped:
	default: // a word of tomorrow
		return dontRepeat
	}
	switch p.Money {
	case events.MoneyNotCharged, events.MoneySetAside, events.MoneyCharged, events.MoneyRefunding, events.MoneyRefunded:
		return ""
	case events.MoneyUnknown:
	}
	return dontRepeat
}

// next is the table's sentence, but for what the table cannot know.
func next(p *events.Purchase) string {
	switch {
	case p.Situation == events.SituationWorking && p.State == events.StateSuperseded:
		return ""
	case p.Situation == events.SituationNeedsSupport && (p.Support.Ref != "" || p.Support.RequestID != ""):
		return strings.Replace(Next(p.Situation), "ask Envoy's support", "ask Envoy's support and give the reference below", 1)
	case p.Unsettled && Next(p.Situation) == "":
		return "Herald keeps watching until the money is settled."
	}
	return Next(p.Situation)
}

func about(p *events.Purchase) string {
	amount, merchant := Amount(p.Amount), name(p.Merchant.Name)
	switch {
	case amount != "" && merchant != "":
		return amount + " at " + merchant
	case merchant != "":
		return merchant
	}
	return amount
}

func situationLines(p *events.Purchase) []string {
	switch {
	case p.Situation == events.SituationNeedsSupport && p.SituationBasis == events.BasisVerifyingStop:
		return []string{"The purchase is not confirmed yet, and Envoy told the agent to stop checking." + showsResult}
	case p.Situation == events.SituationNeedsSupport && notProven(p):
		return []string{"The purchase ended; Herald cannot see whether money is still set aside." + showsResult}
	case p.Situation == events.SituationWorking && p.State == events.StateSuperseded:
		return []string{"Another purchase replaced this one and needs its own approval."}
	case p.Situation == events.SituationWorking && p.CheckoutBy == "envoy":
		return []string{"Envoy is preparing the purchase or placing the order itself."}
	case p.Situation == events.SituationWaitingForUser:
		if task := Task(p.UserTask, p.Rail); task != "" {
			return []string{task}
		}
	}
	lines := []string{Situation(p.Situation).Sentence}
	if p.Situation == events.SituationConfirming {
		switch p.AgentReport {
		case "paid":
			lines = append(lines, "The agent reported the payment as made.")
		case "failed":
			lines = append(lines, "The agent reported that the checkout failed.")
		}
	}
	return lines
}

func notProven(p *events.Purchase) bool {
	return p.SituationBasis == events.BasisMoneyNotProven || p.MoneyBasis == events.BasisMoneyNotProven
}

// moneyLine makes no claim where the event makes none: a gift card is paid
// outside, and an order may be paid on delivery.
func moneyLine(p *events.Purchase) string {
	if p.Situation == events.SituationDone && p.Money == events.MoneyNotCharged {
		if p.MoneyStatus.Status == "merchant_collects" {
			return "It is to be paid on delivery."
		}
		return ""
	}
	if p.Situation == events.SituationNeedsSupport && notProven(p) {
		return ""
	}
	return Money(p.Money).Sentence
}

func reasonLine(p *events.Purchase) string {
	if p.ReasonCode == "" {
		return ""
	}
	said := Reason(p.ReasonCode)
	if said == "" {
		return "Reason given: " + name(p.ReasonCode) + "."
	}
	if p.Situation == events.SituationConfirming {
		return "Reason reported by the agent: " + said
	}
	return "Reason: " + said
}

func moneyValue(p *events.Purchase) string {
	switch {
	case p.Situation == events.SituationDone && p.Money == events.MoneyNotCharged && p.MoneyStatus.Status == "merchant_collects":
		return "to be paid on delivery"
	case p.Situation == events.SituationDone && p.Money == events.MoneyNotCharged:
		return ""
	}
	value := Money(p.Money).Title
	if h := p.Held; h != nil && h.Amount != nil && Amount(*h.Amount) != "" {
		about := "about "
		if h.Exact {
			about = ""
		}
		value += " (" + about + Amount(*h.Amount) + " " + name(h.State) + ")"
	}
	return value
}

func (w *writer) purchaseFacts(p *events.Purchase) {
	w.fact("Merchant", name(p.Merchant.Name))
	w.fact("Amount", Amount(p.Amount))
	w.fact("Money", moneyValue(p))
	if p.MoneyStatus.Paid != nil {
		label := "Recorded amount"
		switch {
		case p.MoneyStatus.Status == "merchant_collects":
			label = "To pay on delivery"
		case p.Money == events.MoneyCharged:
			label = "Paid"
		}
		w.fact(label, Amount(*p.MoneyStatus.Paid))
	}
	w.fact("Waiting on", name(Actor(p.WaitingOn)))
	w.fact("Missing details", name(List(p.DetailsMissing, listItems)))
	since := p.SituationSince
	w.moment("Since", &since)
	if w.n.Kind == KindRemind || w.n.Kind == KindUpdate {
		w.moment("Alarm since", &w.n.Since)
	}
	if p.Held != nil {
		w.moment("Money held since", p.Held.Since)
	}
	d := p.Deadlines
	w.deadline("Next step due", "Next step was due", d.NextBy)
	w.deadline("User's time ends", "User's time ended", d.UserActionBy)
	w.deadline("Approval ends", "Approval ended", d.ApprovalBy)
	w.deadline("Payment link ends", "Payment link ended", d.FundingExpires)
	w.deadline("Paying ends", "Paying ended", d.SpendingExpires)
	if f := p.Funding; f != nil && !p.Terminal {
		w.fact("To pay for the gift card", Amount(f.Amount))
	}
	if before := p.Previous; before != nil && before.Situation != p.Situation {
		w.fact("Before", Situation(before.Situation).Title)
	}
	w.fact("Purchase", name(w.n.Event.Subject))
	w.purchaseMinor(p)
}

// purchaseMinor are the facts of operators.
func (w *writer) purchaseMinor(p *events.Purchase) {
	w.minor("Connection", name(p.Connection))
	w.minor("Agent", name(p.Agent.DisplayName))
	w.minor("Envoy's state", name(string(p.State)))
	w.minor("Reason code", name(p.ReasonCode))
	w.minor("Rail", name(strings.TrimSpace(p.Rail+" "+parenthesis(p.RailReason))))
	w.minor("Checkout by", name(p.CheckoutBy))
	w.minor("Site", name(p.Merchant.URL))
	w.minor("Order reference", name(orderRef(p)))
	if p.Receipt != nil && p.Receipt.CardLast4 != "" {
		w.minor("Card", name(strings.TrimSpace(p.Receipt.CardNetwork+" ending in "+p.Receipt.CardLast4)))
	}
	if p.ChainRoot != w.n.Event.Subject {
		w.minor("First purchase of the chain", name(p.ChainRoot))
	}
	w.support(p.Support)
}

func (w *writer) support(s events.Support) {
	w.minor(factSupport, name(s.Ref))
	w.minor(factRequest, name(s.RequestID))
	w.minor("Trace", name(s.TraceID))
}

func parenthesis(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

func orderRef(p *events.Purchase) string {
	if p.Receipt != nil && p.Receipt.MerchantOrderRef != "" {
		return p.Receipt.MerchantOrderRef
	}
	return p.MoneyStatus.MerchantOrderRef
}

// notice says what a connection or a sink reports.
func (w *writer) notice(n *events.Notice) {
	phrase := Notice(n.Kind)
	w.m.Title, w.m.Tone = phrase.Title, phrase.Tone
	w.m.Subject = name(n.Connection)
	if n.Sink != "" {
		w.m.Subject = name(n.Sink)
	}
	w.line(phrase.Sentence)
	w.quote("Details", n.Text)
	w.fact("Connection", name(n.Connection))
	w.fact("Sink", name(n.Sink))
	w.fact("Purchase", name(n.PurchaseID))
	w.fact("Code", name(n.Code))
	w.fact("Fields", name(List(n.Fields, listItems)))
	if n.Count != 0 {
		w.fact("Count", digits(n.Count))
	}
	w.support(n.Support)
}

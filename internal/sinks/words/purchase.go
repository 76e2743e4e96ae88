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
	w.quote("Envoy says", p.Say)
	if p.Question != nil {
		w.quote("Question to the user", p.Question.Prompt)
	}
	w.quote("Description", p.Description)
	w.purchaseFacts(p)
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
		return []string{"The purchase is not confirmed yet, and Envoy told the agent to stop checking." + dontRepeat}
	case p.Situation == events.SituationNeedsSupport && notProven(p):
		return []string{"The purchase ended; Herald cannot see whether money is still set aside." + dontRepeat}
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
	w.fact("Purchase", name(w.n.Event.Subject))
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
	w.fact("State", name(string(p.State)))
	w.fact("Waiting on", name(p.WaitingOn))
	w.fact("Reason", name(p.ReasonCode))
	w.fact("Missing details", name(List(p.DetailsMissing, listItems)))
	since := p.SituationSince
	if w.n.Kind == KindRemind && !w.n.Since.IsZero() {
		since = w.n.Since
	}
	w.moment("Since", &since)
	d := p.Deadlines
	w.moment("Envoy's time ends", d.NextBy)
	w.moment("User's time ends", d.UserActionBy)
	w.moment("Approval ends", d.ApprovalBy)
	w.moment("Payment link ends", d.FundingExpires)
	w.moment("Paying ends", d.SpendingExpires)
	w.fact("Rail", name(strings.TrimSpace(p.Rail+" "+parenthesis(p.RailReason))))
	w.fact("Checkout by", name(p.CheckoutBy))
	w.fact("Site", name(p.Merchant.URL))
	w.fact("Order reference", name(orderRef(p)))
	if p.Receipt != nil && p.Receipt.CardLast4 != "" {
		w.fact("Card", name(strings.TrimSpace(p.Receipt.CardNetwork+" ending in "+p.Receipt.CardLast4)))
	}
	w.fact("Agent", name(p.Agent.DisplayName))
	w.fact("Connection", name(p.Connection))
	if p.ChainRoot != w.n.Event.Subject {
		w.fact("First purchase of the chain", name(p.ChainRoot))
	}
	w.support(p.Support)
}

func (w *writer) support(s events.Support) {
	w.fact("Support reference", name(s.Ref))
	w.fact("Request", name(s.RequestID))
	w.fact("Trace", name(s.TraceID))
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

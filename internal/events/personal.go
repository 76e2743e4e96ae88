package events

import (
	"net/url"
	"slices"
)

// Names of the personal fields, as sinks ask for them. PersonalMerchantURL
// stands for the path of the address; scheme and host are always there.
const (
	PersonalDescription = "description"
	PersonalPrompt      = "question.prompt"
	PersonalLast4       = "receipt.card.last4"
	PersonalOrderRef    = "merchant_order_ref"
	PersonalMerchantURL = "merchant.url"
)

// PersonalFields lists the names of all personal fields.
func PersonalFields() []string {
	return []string{PersonalDescription, PersonalPrompt, PersonalLast4, PersonalOrderRef, PersonalMerchantURL}
}

// ForSink is e without the personal fields that are not in the list. The rest
// is shared with e; nothing of e is changed.
func ForSink(e Event, personal []string) Event {
	if e.Purchase == nil {
		return e
	}
	p := *e.Purchase
	e.Purchase = &p
	denied := func(name string) bool { return !slices.Contains(personal, name) }
	if denied(PersonalDescription) {
		p.Description = ""
	}
	if p.Question != nil && denied(PersonalPrompt) {
		q := *p.Question
		q.Prompt = ""
		p.Question = &q
	}
	if p.Receipt != nil {
		r := *p.Receipt
		if denied(PersonalLast4) {
			r.CardLast4 = ""
		}
		if denied(PersonalOrderRef) {
			r.MerchantOrderRef = ""
		}
		p.Receipt = &r
	}
	if denied(PersonalOrderRef) {
		p.MoneyStatus.MerchantOrderRef = ""
	}
	if denied(PersonalMerchantURL) {
		p.Merchant.URL = hostOnly(p.Merchant.URL)
	}
	return e
}

// hostOnly cuts an address to scheme and host; what is no address is left out.
func hostOnly(s string) string {
	u, err := url.Parse(s)
	if s == "" || err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

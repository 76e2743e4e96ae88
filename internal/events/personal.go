package events

import (
	"net/url"
	"slices"
	"strings"
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
// is shared with e; nothing of e is changed. Where nothing had to go it is e
// itself, with the same Purchase.
func ForSink(e Event, personal []string) Event {
	if e.Purchase == nil {
		return e
	}
	was := e.Purchase
	// edit gives the copy that may be changed. It is made once there is need.
	edit := func() *Purchase {
		if e.Purchase == was {
			p := *was
			e.Purchase = &p
		}
		return e.Purchase
	}
	denied := func(name, value string) bool { return value != "" && !slices.Contains(personal, name) }
	if denied(PersonalDescription, was.Description) {
		edit().Description = ""
	}
	if q := was.Question; q != nil && denied(PersonalPrompt, q.Prompt) {
		bare := *q
		bare.Prompt = ""
		edit().Question = &bare
	}
	if r := was.Receipt; r != nil {
		bare := *r
		if denied(PersonalLast4, r.CardLast4) {
			bare.CardLast4 = ""
		}
		if denied(PersonalOrderRef, r.MerchantOrderRef) {
			bare.MerchantOrderRef = ""
		}
		if bare.CardLast4 != r.CardLast4 || bare.MerchantOrderRef != r.MerchantOrderRef {
			edit().Receipt = &bare
		}
	}
	if denied(PersonalOrderRef, was.MoneyStatus.MerchantOrderRef) {
		edit().MoneyStatus.MerchantOrderRef = ""
	}
	if host := hostOnly(was.Merchant.URL); host != was.Merchant.URL && denied(PersonalMerchantURL, was.Merchant.URL) {
		edit().Merchant.URL = host
	}
	return e
}

// hostOnly cuts an address to scheme and host; what is no address is left out.
func hostOnly(s string) string {
	if scheme, host, _ := strings.Cut(s, "://"); (scheme == "https" || scheme == "http") && plainHost(host) {
		return s
	}
	u, err := url.Parse(s)
	if s == "" || err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

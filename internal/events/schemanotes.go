package events

// fieldNote is what the schema says of a field, by Go type and JSON name. Names
// that say it all have none.
func fieldNote(key string) string {
	if note, ok := purchaseNotes()[key]; ok {
		return note
	}
	return partNotes()[key]
}

func purchaseNotes() map[string]string {
	return map[string]string{
		"Purchase.connection":        "Name of the connection that the purchase was seen through.",
		"Purchase.reading":           "Which reading this is, and why it is published.",
		"Purchase.previous":          "The event before this one of the same purchase; null on the first. By this chain a reader proves that none is missing.",
		"Purchase.situation":         "Where the purchase stands, in words that a person acts on.",
		"Purchase.situation_since":   "When the situation began, as far as known.",
		"Purchase.situation_basis":   "The rule that decided the situation.",
		"Purchase.certain":           "False where the situation is a conclusion that Envoy did not state.",
		"Purchase.money":             "Whether money moved. unknown is to be treated as confirming: never pay again.",
		"Purchase.money_basis":       "The rule that decided the money.",
		"Purchase.money_status":      "Envoy's own record of the money. With merchant_collects, paid is still to be paid on delivery.",
		"Purchase.unsettled":         "True while money or outcome is open: alert on this.",
		"Purchase.terminal":          "True once the purchase has ended. Terminal and not unsettled is settled.",
		"Purchase.inconsistent":      "True where Envoy's snapshot contradicts itself or its contract; the state was trusted, the money not.",
		"Purchase.source_of_reading": "The reply that the reading came from.",
		"Purchase.state":             "Envoy's word for the state of the purchase; words may be added.",
		"Purchase.user_task":         "What the user must do now, in Envoy's word; words may be added.",
		"Purchase.reason_code":       "Why the purchase is in this state, in Envoy's word; words may be added.",
		"Purchase.reason_class":      "Whom the reason code points at.",
		"Purchase.rail":              "How the purchase is paid, in Envoy's word; words may be added.",
		"Purchase.rail_reason":       "Why that rail was chosen, in Envoy's word.",
		"Purchase.checkout_by":       "Who completes the checkout at the merchant: agent or envoy. Absent until decided.",
		"Purchase.merchant":          "The shop.",
		"Purchase.amount":            "What the purchase costs.",
		"Purchase.description":       "What is bought.",
		"Purchase.details_missing":   "Details that Envoy still needs.",
		"Purchase.question":          "What Envoy asks the user; absent where it asks nothing.",
		"Purchase.approval":          "The state of the user's consent.",
		"Purchase.payment_ready":     "Whether a card or voucher may be released; never which.",
		"Purchase.spending_closed":   "True: no further payment details are released. It proves neither a blocked card nor a refund. Absent where Envoy does not say, which is not false.",
		"Purchase.receipt":           "Present on completed purchases that have one.",
		"Purchase.chain":             "The purchases that this one replaced or was replaced by.",
		"Purchase.chain_root":        "The oldest known purchase of the chain; threads and alarms follow it.",
		"Purchase.agent":             "The agent host that made the purchase.",
		"Purchase.funding":           "What the user pays for a gift card; present only while the payment link is open. The link itself is never here.",
		"Purchase.held":              "Card money that the account shows set aside for the purchase, or on its way back.",
		"Purchase.deadlines":         "Moments at which something runs out; absent where none is known.",
		"Purchase.overdue":           "The deadline that passed; on overdue events only.",
		"Purchase.say":               "The only text meant for buyers.",
		"Purchase.waiting_on":        "Whose move it is.",
		"Purchase.agent_report":      "While the checkout of an agent is being confirmed: what the agent reported of it.",
		"Purchase.support":           "What Envoy's support asks for.",
		"Purchase.masked":            "How many pieces of text were masked or left out.",
		"Purchase.created_at":        "When the purchase was made.",
		"Purchase.updated_at":        "When Envoy last changed the purchase.",
	}
}

func partNotes() map[string]string {
	return map[string]string{
		"ReadingInfo.revision":          "Envoy's revision of the purchase.",
		"ReadingInfo.epoch":             "Counts restorations of the far side, after which revisions may begin again.",
		"ReadingInfo.n":                 "Counts the readings at one revision, from 0.",
		"ReadingInfo.cause":             "Why it is published. baseline: first contact. still: unchanged, a sign of life.",
		"ReadingInfo.changed":           "Names of the members of data that differ from the previous event, sorted.",
		"Amount.minor":                  "In the smallest unit of the currency.",
		"Amount.display":                "As Envoy writes it.",
		"Merchant.url":                  "Scheme and host; the path is personal.",
		"Question.asked_at":             "When Envoy asked.",
		"PaymentReady.closed":           "Absent where Envoy does not say, which is not false.",
		"PaymentReady.expires_at":       "When spending closes; absent where no deadline is known.",
		"MoneyStatus.status":            "Envoy's word; words may be added.",
		"MoneyStatus.paid":              "Null where Envoy names no sum.",
		"Held.state":                    "held, returning, unknown or a word of tomorrow.",
		"Held.amount":                   "Absent where Envoy cannot say how much.",
		"Held.exact":                    "True where the amount is exact.",
		"Deadlines.next_by":             "Until when Envoy told the agent to wait.",
		"Deadlines.user_action_by":      "Until when the user should act.",
		"Deadlines.approval_by":         "Until when the user can approve.",
		"Deadlines.funding_expires_at":  "Until when the payment link accepts payment.",
		"Deadlines.spending_expires_at": "Until when payment details can be used.",
		"Overdue.deadline":              "Its name among the deadlines.",
		"Support.ref":                   "The reference that a user quotes to support.",
		"Notice.connection":             "Name of the connection.",
		"Notice.kind":                   "What happened; kinds may be added.",
		"Notice.purchase_id":            "The purchase that it is about, if one.",
		"Notice.sink":                   "The sink that it is about, if one.",
		"Notice.text":                   "What happened and what to do.",
		"Notice.code":                   "Envoy's error code, or another word from a closed set.",
		"Notice.fields":                 "Paths of the fields that Envoy refused.",
		"Notice.count":                  "How many, where it counts.",
		"Notice.support":                "What Envoy's support asks for.",
	}
}

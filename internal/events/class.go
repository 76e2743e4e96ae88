package events

import (
	"maps"
	"strings"
)

// Class says how far a field of Envoy's replies may come.
type Class string

// The classes, from the most secret to the least.
const (
	ClassNeverDecoded Class = "never_decoded"      // no Go field can hold it
	ClassNeverSent    Class = "decoded_never_sent" // used by the watcher, in no event
	ClassPersonal     Class = "personal"           // in an event and at a sink only where both are told to
	ClassOperator     Class = "operator"           // in events and at operators' sinks, in no text for buyers
	ClassPublic       Class = "public"             // in events and in texts for buyers
)

// ClassOf gives the class of a field of get_purchase_status, get_account or
// list_purchases by its path, such as purchase.merchant.url or
// data.purchases[].state. Below a field that is never decoded everything is
// never decoded. A path that is not known has no class.
func ClassOf(path string) (Class, bool) {
	table := Classes()
	if c, ok := table[path]; ok {
		return c, true
	}
	for i := strings.LastIndexByte(path, '.'); i >= 0; i = strings.LastIndexByte(path[:i], '.') {
		parent := strings.TrimSuffix(path[:i], "[]")
		if table[parent] == ClassNeverDecoded || table[path[:i]] == ClassNeverDecoded {
			return ClassNeverDecoded, true
		}
	}
	if table[strings.TrimSuffix(path, "[]")] == ClassNeverDecoded {
		return ClassNeverDecoded, true
	}
	return "", false
}

// Classes is the table behind ClassOf: path to class.
func Classes() map[string]Class {
	table := envelopeClasses()
	for _, prefix := range []string{"purchase", "data.account.active_purchase"} {
		for name, c := range snapshotClasses() {
			table[strings.TrimSuffix(prefix+"."+name, ".")] = c
		}
	}
	maps.Copy(table, accountClasses())
	for _, name := range []string{"", "[]", "[].purchase_id", "[].state", "[].merchant", "[].merchant.name",
		"[].merchant.url", "[].amount", "[].amount.minor", "[].amount.currency", "[].amount.display",
		"[].checkout_by", "[].created_at"} {
		table["data.purchases"+name] = ClassNeverSent // no events come from a list
	}
	table["data.truncated"] = ClassNeverSent
	return table
}

// envelopeClasses is what every reply has around its purchase and data.
func envelopeClasses() map[string]Class {
	return map[string]Class{
		"ok":                        ClassNeverSent,
		"contract":                  ClassNeverSent,
		"tool":                      ClassNeverSent,
		"request_id":                ClassOperator,
		"trace_id":                  ClassOperator,
		"server_time":               ClassOperator,
		"replayed":                  ClassNeverSent,
		"origin":                    ClassNeverSent,
		"data":                      ClassNeverSent,
		"data.payment_details":      ClassNeverDecoded,
		"next":                      ClassNeverSent,
		"next.action":               ClassNeverSent,
		"next.tool":                 ClassNeverSent,
		"next.args":                 ClassNeverSent, // opaque bytes for the next call
		"next.instruction":          ClassNeverDecoded,
		"next.after_seconds":        ClassNeverSent,
		"next.by":                   ClassOperator,
		"user_action":               ClassPublic,
		"user_action.task":          ClassPublic,
		"user_action.url":           ClassNeverDecoded,
		"user_action.by":            ClassPublic,
		"user_action.message":       ClassPublic,
		"follow_ups":                ClassNeverDecoded,
		"error":                     ClassOperator,
		"error.code":                ClassOperator,
		"error.message":             ClassNeverSent,
		"error.fields":              ClassOperator,
		"error.fields[]":            ClassOperator,
		"error.fields[].path":       ClassOperator,
		"error.fields[].problem":    ClassNeverSent,
		"error.fields[].expected":   ClassNeverSent,
		"error.reason_code":         ClassNeverSent,
		"error.retryable":           ClassNeverSent,
		"error.retry_after_seconds": ClassNeverSent,
	}
}

// snapshotClasses is the purchase, wherever it stands in a reply.
func snapshotClasses() map[string]Class {
	table := map[string]Class{
		"":                  ClassOperator,
		"purchase_id":       ClassOperator,
		"service":           ClassNeverDecoded,
		"idempotency_key":   ClassNeverSent, // kept as a hash
		"revision":          ClassOperator,
		"terminal":          ClassPublic,
		"state":             ClassPublic,
		"user_task":         ClassPublic,
		"reason_code":       ClassOperator,
		"status_text":       ClassPublic,
		"rail":              ClassOperator,
		"rail_reason":       ClassOperator,
		"checkout_by":       ClassPublic,
		"merchant":          ClassPublic,
		"merchant.name":     ClassPublic,
		"merchant.url":      ClassPersonal, // its path; scheme and host are public
		"description":       ClassPersonal,
		"details":           ClassPublic,
		"details.complete":  ClassNeverSent,
		"details.missing":   ClassPublic,
		"details.missing[]": ClassPublic,
		"question":          ClassPublic,
		"question.id":       ClassOperator,
		"question.kind":     ClassPublic,
		"question.prompt":   ClassPersonal,
		"question.asked_at": ClassPublic,
		"follow_up":         ClassNeverDecoded,
	}
	maps.Copy(table, paymentClasses())
	for _, sum := range []string{"amount", "money.paid", "receipt.paid", "funding.amount"} {
		addSum(table, sum, ClassPublic)
	}
	return table
}

// paymentClasses is the part of the purchase that tells of consent, payment and
// whom it belongs to.
func paymentClasses() map[string]Class {
	return map[string]Class{
		"approval":                   ClassPublic,
		"approval.state":             ClassPublic,
		"approval.method":            ClassPublic,
		"approval.decide_by":         ClassPublic,
		"approval.approval_url":      ClassNeverDecoded,
		"payment_ready":              ClassPublic,
		"payment_ready.available":    ClassPublic,
		"payment_ready.kind":         ClassPublic,
		"payment_ready.expires_at":   ClassPublic,
		"payment_ready.closed":       ClassPublic,
		"money":                      ClassPublic,
		"money.status":               ClassPublic,
		"money.merchant_order_ref":   ClassPersonal,
		"receipt":                    ClassPublic,
		"receipt.merchant_order_ref": ClassPersonal,
		"receipt.card":               ClassPublic,
		"receipt.card.network":       ClassPublic,
		"receipt.card.last4":         ClassPersonal,
		"receipt.completed_at":       ClassPublic,
		"chain":                      ClassOperator,
		"chain.supersedes":           ClassOperator,
		"chain.superseded_by":        ClassOperator,
		"agent":                      ClassOperator,
		"agent.agent_id":             ClassOperator,
		"agent.display_name":         ClassOperator,
		"agent.verification":         ClassOperator,
		"created_at":                 ClassPublic,
		"updated_at":                 ClassPublic,
		"funding":                    ClassPublic,
		"funding.url":                ClassNeverDecoded,
		"funding.expires_at":         ClassPublic,
	}
}

// accountClasses is the account: four sections are read, the rest never.
func accountClasses() map[string]Class {
	table := map[string]Class{
		"data.account":                                    ClassNeverSent,
		"data.account.currency":                           ClassNeverDecoded,
		"data.account.balance":                            ClassNeverDecoded,
		"data.account.held":                               ClassNeverDecoded,
		"data.account.spendable":                          ClassNeverDecoded,
		"data.account.limits_reserved":                    ClassNeverDecoded,
		"data.account.limits":                             ClassNeverDecoded,
		"data.account.profile":                            ClassNeverDecoded,
		"data.account.addresses":                          ClassNeverDecoded,
		"data.account.services":                           ClassNeverDecoded,
		"data.account.unavailable":                        ClassNeverSent,
		"data.account.unavailable[]":                      ClassNeverSent,
		"data.account.agent":                              ClassNeverSent,
		"data.account.agent.agent_id":                     ClassNeverSent,
		"data.account.agent.display_name":                 ClassNeverDecoded,
		"data.account.agent.verification":                 ClassNeverDecoded,
		"data.account.held_purchases":                     ClassOperator,
		"data.account.held_purchases.available":           ClassNeverSent,
		"data.account.held_purchases.reason":              ClassNeverSent,
		"data.account.held_purchases.truncated":           ClassNeverSent,
		"data.account.held_purchases.total":               ClassNeverDecoded,
		"data.account.held_purchases.items":               ClassOperator,
		"data.account.held_purchases.items[]":             ClassOperator,
		"data.account.held_purchases.items[].purchase_id": ClassOperator,
		"data.account.held_purchases.items[].merchant":    ClassNeverDecoded,
		"data.account.held_purchases.items[].exact":       ClassOperator,
		"data.account.held_purchases.items[].state":       ClassOperator,
		"data.account.held_purchases.items[].since":       ClassOperator,
	}
	addSum(table, "data.account.held_purchases.items[].amount", ClassOperator)
	return table
}

// addSum gives a sum of money and its members one class.
func addSum(table map[string]Class, path string, c Class) {
	for _, name := range []string{"", ".minor", ".currency", ".display"} {
		table[path+name] = c
	}
}

// fieldClass gives the class of a field of our own events by its path in data.
// Where it comes from a field of Envoy's under another name, that one decides;
// what Herald works out itself is public.
func fieldClass(path string) Class {
	source := "purchase." + path
	switch head, _, _ := strings.Cut(path, "."); head {
	case "money_status":
		source = "purchase." + strings.Replace(path, "money_status", "money", 1)
	case "held":
		source = "data.account.held_purchases.items[]" + strings.TrimPrefix(path, "held")
	case "say":
		source = "purchase.status_text"
	case "details_missing":
		source = "purchase.details.missing"
	case "spending_closed":
		source = "purchase.payment_ready.closed"
	case "chain_root", "previous", "connection", "reading", "support":
		return ClassOperator
	}
	switch path {
	case "receipt.card_network":
		source = "purchase.receipt.card.network"
	case "receipt.card_last4":
		source = "purchase.receipt.card.last4"
	case "reason_class", "agent_report", "source_of_reading", "masked":
		return ClassOperator
	}
	if c, ok := ClassOf(source); ok {
		return c
	}
	return ClassPublic
}

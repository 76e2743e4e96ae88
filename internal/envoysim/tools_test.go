package envoysim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestStartPurchase(t *testing.T) {
	w := newWorld(t, Options{})
	first := w.call(toolStart, buyBody)
	id := first.at("purchase.purchase_id").(string)
	if first.at("replayed") != false || first.at("purchase.merchant.url") != "https://shop.example.test" {
		t.Errorf("answered %s", first.body)
	}
	again := w.call(toolStart, buyBody)
	if again.at("replayed") != true || again.at("purchase.purchase_id") != id {
		t.Errorf("the same key was answered %s", again.body)
	}
	if a := w.call(toolStart, strings.Replace(buyBody, "2499.00", "2498.00", 1)); a.code() != string(IdempotencyConflict) {
		t.Errorf("the same key with another total was answered %d", a.status)
	}
	other := strings.Replace(buyBody, "000001", "000002", 1)
	a := w.call(toolStart, other)
	if a.code() != string(ActivePurchaseExists) || a.at("user_action.task") != "resolve_active_purchase" || a.at("user_action.url") != nil {
		t.Errorf("a second purchase was answered %s", a.body)
	}
	w.move(id, Completed)
	for body, want := range map[string]string{
		strings.Replace(other, "2499.00", "900000", 1):                                   string(NoRail),
		strings.Replace(other, `"total"`, `"max_total":"1.00","total"`, 1):               string(InvalidInput),
		strings.Replace(other, `"total"`, `"retry_of":"canary-nothing-0001","total"`, 1): string(NotFound),
		strings.Replace(other, `"total"`, fmt.Sprintf(`"retry_of":%q,"total"`, id), 1):   string(StateConflict),
		strings.Replace(other, `shop.example.test`, `http://shop.example.test/%zz`, 1):   string(InvalidInput),
		strings.Replace(other, `2499.00`, `99999999999999999999`, 1):                     string(InvalidInput),
	} {
		if a := w.call(toolStart, body); a.code() != want {
			t.Errorf("%s was answered %s, want %s", body, a.code(), want)
		}
	}
}

func TestStartChoosesTheRail(t *testing.T) {
	for name, tt := range map[string]struct {
		old, new string
		rail     string
		by, task string
	}{
		"Small":    {"x", "x", "otu_card", "agent", "approve"},
		"Large":    {"2499.00", "74999", "operated_checkout", "envoy", "approve"},
		"Elixir":   {"shop.example.test", "HTTPS://elixir.cards", "elixir_marketplace", "envoy", "approve"},
		"GiftCard": {`"total"`, `"rail":"gift_card","total"`, "gift_card", "agent", "pay_link"},
		"Operated": {`"total"`, `"rail":"operated_checkout","total"`, "operated_checkout", "envoy", "approve"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			a := w.call(toolStart, strings.Replace(buyBody, tt.old, tt.new, 1))
			if a.at("purchase.rail") != tt.rail || a.at("purchase.checkout_by") != tt.by || a.at("purchase.user_task") != tt.task {
				t.Errorf("answered %s", a.body)
			}
			link, _ := a.at("user_action.url").(string)
			if (link != "") != (tt.task == "pay_link") || (link != "" && a.at("purchase.funding.url") != link) {
				t.Errorf("user_action.url is %q, funding %v", link, a.at("purchase.funding"))
			}
		})
	}
}

func TestRetryTakesThePlaceOfAFailedPurchase(t *testing.T) {
	w := newWorld(t, Options{})
	old := w.start(Spec{})
	w.move(old, Failed)
	a := w.call(toolStart, strings.Replace(buyBody, `"total"`, fmt.Sprintf(`"retry_of":%q,"total"`, old), 1))
	if a.at("purchase.chain.supersedes") != old || a.at("purchase.rail") != "operated_checkout" {
		t.Fatalf("answered %s", a.body)
	}
	b := w.call(toolStatus, `{"purchase":"`+old+`"}`)
	if b.at("purchase.state") != "superseded" || b.at("purchase.chain.superseded_by") != a.at("purchase.purchase_id") {
		t.Errorf("the old one is %s", b.body)
	}
	if b.at("next.args.purchase") != a.at("purchase.purchase_id") {
		t.Errorf("next is %v", b.at("next"))
	}
}

func TestAnswers(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.start(Spec{State: NeedsDetails})
	say := func(kind, text, key, more string) answered {
		return w.call(toolAnswer, fmt.Sprintf(`{"type":%q,"answer":%q,"idempotency_key":%q,"purchase":%q%s}`, kind, text, key, id, more))
	}
	if a := say("answer", "Home.", "test-answer-000001", ""); a.code() != string(StateConflict) {
		t.Errorf("an answer to a missing detail was answered %d", a.status)
	}
	if a := say("details", "Home.", "test-answer-000001", `,"question":"another"`); a.code() != string(StateConflict) {
		t.Errorf("an answer to another question was answered %d", a.status)
	}
	if a := say("details", "Home.", "test-answer-000001", ""); a.at("purchase.state") != "waiting_for_user" || a.at("replayed") != false {
		t.Errorf("the detail was answered %s", a.body)
	}
	if a := say("details", "Home.", "test-answer-000001", ""); a.at("replayed") != true {
		t.Errorf("the same again was answered %s", a.body)
	}
	if a := say("details", "Office.", "test-answer-000001", ""); a.code() != string(IdempotencyConflict) {
		t.Errorf("the same key with another answer was answered %d", a.status)
	}
	w.move(id, NeedsAnswer)
	if a := say("answer", "Black.", "test-answer-000002", ""); a.at("purchase.state") != "processing" {
		t.Errorf("the answer was answered %s", a.body)
	}
	if err := w.Transition(id, func(p *Purchase) { p.State, p.FollowUp = Completed, &FollowUp{ID: "fup_1", Prompt: "How was it?"} }); err != nil {
		t.Fatal(err)
	}
	if a := w.call(toolStatus, `{"purchase":"`+id+`"}`); len(a.at("follow_ups").([]any)) != 1 {
		t.Errorf("follow ups are %v", a.at("follow_ups"))
	}
	if a := say("feedback", "Fine.", "test-answer-000003", `,"rating":5,"question":"fup_1"`); a.at("data.receipt.feedback_id") == nil {
		t.Errorf("feedback was answered %s", a.body)
	}
	if a := say("feedback", "Fine.", "test-answer-000004", `,"question":"fup_1"`); a.code() != string(StateConflict) {
		t.Errorf("feedback to a closed request was answered %d", a.status)
	}
	if a := w.call(toolAnswer, `{"type":"feedback","answer":"Nice.","idempotency_key":"test-answer-000005"}`); a.at("data.receipt") == nil {
		t.Errorf("feedback about nothing was answered %s", a.body)
	}
}

func TestReports(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.start(Spec{})
	paid := `{"purchase":"` + id + `","outcome":"paid","merchant_order_ref":"A-1","amount_paid":"2490.50"}`
	if a := w.call(toolReport, paid); a.code() != string(StateConflict) {
		t.Errorf("a report before ready was answered %d", a.status)
	}
	w.move(id, Ready)
	attempt := w.call(toolStatus, `{"purchase":"`+id+`"}`).at("next.args.checkout_attempt_id").(string)
	step := w.call(toolStep, `{"purchase":"`+id+`","step":"cart_built","checkout_attempt_id":"`+attempt+`"}`)
	if step.at("purchase.state") != "ready" || step.at("data") != nil {
		t.Errorf("a step was answered %s", step.body)
	}
	stale := `{"purchase":"` + id + `","outcome":"paid","checkout_attempt_id":"00000000-0000-4000-8000-000000000000"}`
	if a := w.call(toolReport, stale); a.code() != string(StateConflict) {
		t.Errorf("a report about another attempt was answered %d", a.status)
	}
	a := w.call(toolReport, paid)
	if a.at("purchase.state") != "verifying" || a.at("purchase.reason_code") != nil || a.at("purchase.money.paid.minor") != json.Number("249050") {
		t.Errorf("a report was answered %s", a.body)
	}
	if a := w.call(toolReport, paid); a.at("replayed") != true {
		t.Errorf("the same report was answered %s", a.body)
	}
	if a := w.call(toolCancel, `{"purchase":"`+id+`"}`); a.code() != string(StateConflict) {
		t.Errorf("cancelling while verifying was answered %d", a.status)
	}
	w.move(id, Ready)
	b := w.call(toolReport, `{"purchase":"`+id+`","outcome":"failed","failure_reason":"card_declined"}`)
	if b.at("purchase.reason_code") != "ORDER_CARD_DECLINED" {
		t.Errorf("a failed report was answered %s", b.body)
	}
	for reported, reason := range map[string]string{
		"card_not_accepted": "ORDER_CARD_NOT_ACCEPTED", "otp_failed": "ORDER_OTP_FAILED", "price_changed": "ORDER_PRICE_CHANGED",
		"out_of_stock": "ORDER_OUT_OF_STOCK", "site_error": "ORDER_CHECKOUT_FAILED", "site_blocked": "ORDER_CHECKOUT_BLOCKED",
		"other": "ORDER_OUTCOME_UNKNOWN",
	} {
		if got := failureReason(reported); got != reason {
			t.Errorf("%s becomes %s, want %s", reported, got, reason)
		}
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.start(Spec{})
	a := w.call(toolCancel, `{"purchase":"`+id+`","reason":"changed my mind"}`)
	if a.at("purchase.state") != "cancelled" || a.at("purchase.reason_code") != "ORDER_CANCELLED_BY_AGENT" {
		t.Errorf("answered %s", a.body)
	}
	if b := w.call(toolCancel, `{"purchase":"`+id+`"}`); b.at("replayed") != true {
		t.Errorf("the same again was answered %s", b.body)
	}
	id = w.start(Spec{Rail: OperatedCheckout})
	w.move(id, Processing)
	if b := w.call(toolCancel, `{"purchase":"`+id+`"}`); b.code() != string(StateConflict) {
		t.Errorf("cancelling Envoy's checkout was answered %d", b.status)
	}
}

func TestLists(t *testing.T) {
	w := newWorld(t, Options{RequestsPerMinute: -1})
	for i := range 25 {
		if _, err := w.Put("asha", Purchase{State: Completed, Rail: OTUCard, Amount: int64(100 + i), Money: Money{Status: MoneyDebited}}); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[string]int{"": 10, `"limit":20`: 20, `"limit":1`: 1} {
		a := w.call(toolPurchases, "{"+limit+"}")
		got := a.at("data.purchases").([]any)
		if len(got) != want || a.at("data.truncated") != true {
			t.Errorf("limit %q gave %d, truncated %v", limit, len(got), a.at("data.truncated"))
		}
		if newest := got[0].(map[string]any)["amount"].(map[string]any)["minor"]; newest != json.Number("124") {
			t.Errorf("the newest is %v", newest)
		}
	}
	seen, cursor := map[any]bool{}, ""
	for range 10 {
		a := w.call(toolTransactions, `{"limit":4`+cursor+`}`)
		for _, tx := range a.at("data.transactions").([]any) {
			seen[tx.(map[string]any)["id"]] = true
		}
		next, _ := a.at("data.next_cursor").(string)
		if next == "" {
			break
		}
		cursor = `,"cursor":"` + next + `"`
	}
	if len(seen) != 25 {
		t.Errorf("paging saw %d transactions, want 25", len(seen))
	}
	if a := w.call(toolTransactions, `{"from":"2999-01-01"}`); len(a.at("data.transactions").([]any)) != 0 {
		t.Errorf("a time to come has transactions: %s", a.body)
	}
	if a := w.call(toolSearchProducts, `{"query":"nothing at all"}`); len(a.at("data.products").([]any)) != 0 {
		t.Errorf("nothing was found: %s", a.body)
	}
}

func TestAccountSections(t *testing.T) {
	w := newWorld(t, Options{})
	has := func(a answered, names ...string) {
		t.Helper()
		got := a.at("data.account").(map[string]any)
		if len(got) != len(names) {
			t.Errorf("sections are %v, want %v", got, names)
		}
		for _, n := range names {
			if _, ok := got[n]; !ok {
				t.Errorf("%s is missing in %v", n, got)
			}
		}
	}
	has(w.call(toolAccount, `{}`), "currency", "balance", "held", "spendable", "services", "active_purchase", "held_purchases")
	has(w.call(toolAccount, `{"include":[]}`))
	has(w.call(toolAccount, `{"include":["active_purchase","held_purchases"]}`), "active_purchase", "held_purchases")
	has(w.call(toolAccount, `{"include":["profile","addresses","agent","limits"]}`), "profile", "addresses", "agent", "limits", "limits_reserved")
}

func TestDisplay(t *testing.T) {
	for minor, want := range map[int64]string{
		0: "₹0.00", 5: "₹0.05", 129_900: "₹1,299.00", 99_999: "₹999.99", 12_345_678_90: "₹1,23,45,678.90", 1_000_000_00: "₹10,00,000.00",
	} {
		if got := display(minor); got != want {
			t.Errorf("%d shows as %s, want %s", minor, got, want)
		}
	}
}

func TestManyHeldPurchasesAreCut(t *testing.T) {
	w := newWorld(t, Options{})
	for range maxHeld + 5 {
		if _, err := w.Put("asha", Purchase{State: Ready, Amount: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	h := w.call(toolAccount, `{}`).at("data.account.held_purchases").(map[string]any)
	if len(h["items"].([]any)) != maxHeld || h["truncated"] != true || dig(h, "total.minor") != json.Number("105000") {
		t.Errorf("%d items, truncated %v, total %v", len(h["items"].([]any)), h["truncated"], h["total"])
	}
}

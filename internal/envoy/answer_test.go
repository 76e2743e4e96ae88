package envoy

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOkFalseIsTypedByItsCodeAndNeverAPurchase(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(map[string]any)
		want   Error
	}{
		{"code of today", func(m map[string]any) { in(m, "error")["code"] = "RATE_LIMITED" },
			Error{Code: CodeRateLimited, Retryable: true, After: 7 * time.Second}},
		{"after of next wins", func(m map[string]any) { in(m, "next")["after_seconds"] = 3 },
			Error{Code: CodeInvalidInput, Retryable: true, After: 3 * time.Second}},
		{"after of error", func(m map[string]any) {
			in(m, "next")["after_seconds"], in(m, "error")["retry_after_seconds"] = nil, 9
		}, Error{Code: CodeInvalidInput, Retryable: true, After: 9 * time.Second}},
		{"no after", func(m map[string]any) {
			in(m, "next")["after_seconds"], in(m, "error")["retry_after_seconds"] = nil, nil
			in(m, "error")["retryable"] = false
		}, Error{Code: CodeInvalidInput}},
		{"after beyond any clock", func(m map[string]any) { in(m, "next")["after_seconds"] = int64(1) << 62 },
			Error{Code: CodeInvalidInput, Retryable: true, After: seconds(1 << 62)}},
		{"code of tomorrow", func(m map[string]any) { in(m, "error")["code"] = "ON_THE_MOON" },
			Error{Code: "ON_THE_MOON", Retryable: true, After: 7 * time.Second}},
		{"another tool", func(m map[string]any) { m["tool"] = "gateway" },
			Error{Code: CodeInvalidInput, Retryable: true, After: 7 * time.Second}},
	} {
		for _, tool := range tools {
			for _, status := range []int{200, 401, 429, 500, 503} {
				got, err := ask(answers(status, reply(t, tool, false, tc.change)), tool)
				var e *Error
				if got != nil || !errors.As(err, &e) {
					t.Fatalf("%s: %v, %v", tc.name, got, err)
				}
				if e.Tool != tool || e.Code != tc.want.Code || e.Retryable != tc.want.Retryable || e.After != tc.want.After ||
					e.Meta.RequestID != key || e.Meta.ServerTime.IsZero() {
					t.Errorf("%s, status %d: %+v, want %+v", tc.name, status, e, tc.want)
				}
				wantNoText(t, e, canary)
			}
		}
	}
	if seconds(1<<62) <= 0 {
		t.Error("a long wait overflows")
	}
	if CodeNone.Known() || Code("ON_THE_MOON").Known() || !CodeRateLimited.Known() {
		t.Error("Known is wrong")
	}
}

func TestErrorFieldsArePointersWithoutValues(t *testing.T) {
	field := func(path string) any {
		return map[string]any{"path": path, "problem": canary, "expected": nil}
	}
	_, err := ask(answers(400, reply(t, ToolStatus, false, func(m map[string]any) {
		in(m, "error")["fields"] = []any{field("/purchase"), field("/a b " + canary), field(""), field("/x/0/y")}
	})), ToolStatus)
	var e *Error
	if !errors.As(err, &e) || strings.Join(e.Fields, " ") != "/purchase /x/0/y" {
		t.Fatalf("%+v", err)
	}
	wantNoText(t, e, canary)
	if !strings.Contains(err.Error(), "/purchase") || !strings.Contains(err.Error(), "INVALID_INPUT") {
		t.Errorf("error says %s", err)
	}
}

func TestOkFalseWithoutACodeIsMalformed(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"error null":   func(m map[string]any) { m["error"] = nil },
		"code no word": func(m map[string]any) { in(m, "error")["code"] = "A B" },
		"code empty":   func(m map[string]any) { in(m, "error")["code"] = "" },
		"negative":     func(m map[string]any) { in(m, "error")["retry_after_seconds"] = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(answers(503, reply(t, ToolStatus, false, change)), ToolStatus)
			if o := wantOutage(t, got, err, OutageMalformed); o.Status != 503 {
				t.Errorf("status is %d", o.Status)
			}
		})
	}
}

func TestOriginClientIsAnOutage(t *testing.T) {
	for _, ok := range []bool{true, false} {
		got, err := ask(answers(200, reply(t, ToolStatus, ok, func(m map[string]any) { m["origin"] = "client" })), ToolStatus)
		wantOutage(t, got, err, OutageClientOwn)
	}
	if _, err := ask(answers(200, reply(t, ToolStatus, true, func(m map[string]any) { m["origin"] = "server" })), ToolStatus); err != nil {
		t.Fatal(err)
	}
}

func TestReplyAboutAnotherPurchase(t *testing.T) {
	body := reply(t, ToolStatus, true, nil)
	for name, tc := range map[string]struct {
		ref    string
		change func(map[string]any)
	}{
		"by id":                        {otherID, nil},
		"by key":                       {"another-intent-0002", nil},
		"id in the place of the key":   {otherID, func(m map[string]any) { in(m, "purchase")["idempotency_key"] = otherID }},
		"key given, id of no interest": {"another-intent-0002", func(m map[string]any) { in(m, "purchase")["idempotency_key"] = purchaseID }},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := result(answers(200, reply(t, ToolStatus, true, tc.change)).Status(t.Context(), StatusRequest{Purchase: tc.ref}))
			o := wantOutage(t, got, err, OutageForeign)
			if o.Status != 200 || strings.Contains(err.Error(), purchaseID) {
				t.Errorf("outage is %+v: %v", o, err)
			}
		})
	}
	for _, ref := range []string{purchaseID, key} {
		if _, err := answers(200, body).Status(t.Context(), StatusRequest{Purchase: ref}); err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
	}
}

func TestLookHasThreeAnswers(t *testing.T) {
	account := func(f func(map[string]any)) func(map[string]any) {
		return func(m map[string]any) { f(in(m, "data", "account")) }
	}
	for name, tc := range map[string]struct {
		change func(map[string]any)
		want   ActiveAnswer
	}{
		"shown": {account(func(a map[string]any) {}), ActiveShown},
		"none": {account(func(a map[string]any) {
			a["active_purchase"], a["unavailable"] = nil, []any{"balance", "holds"}
		}), ActiveNone},
		"none, nothing unavailable": {account(func(a map[string]any) {
			a["active_purchase"] = nil
			delete(a, "unavailable")
		}), ActiveNone},
		"key missing": {account(func(a map[string]any) {
			delete(a, "active_purchase")
			delete(a, "unavailable")
		}), ActiveNotKnown},
		"unavailable and null": {account(func(a map[string]any) {
			a["active_purchase"], a["unavailable"] = nil, []any{"holds", "active_purchase"}
		}), ActiveNotKnown},
		"unavailable and missing": {account(func(a map[string]any) {
			delete(a, "active_purchase")
			a["unavailable"] = []any{"active_purchase"}
		}), ActiveNotKnown},
		"no data":       {func(m map[string]any) { m["data"] = nil }, ActiveNotKnown},
		"empty account": {account(func(a map[string]any) { clear(a) }), ActiveNotKnown},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := answers(200, reply(t, ToolAccount, true, tc.change)).Look(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			if l.Active != tc.want || (l.Purchase != nil) != (tc.want == ActiveShown) {
				t.Errorf("answer is %s with purchase %v, want %s", l.Active, l.Purchase, tc.want)
			}
			wantNoText(t, l, canary)
		})
	}
	for name, change := range map[string]func(map[string]any){
		"a text":                  account(func(a map[string]any) { a["active_purchase"] = "none" }),
		"false":                   account(func(a map[string]any) { a["active_purchase"] = false }),
		"unavailable null":        account(func(a map[string]any) { a["active_purchase"], a["unavailable"] = nil, nil }),
		"unavailable of numbers":  account(func(a map[string]any) { a["active_purchase"], a["unavailable"] = nil, []any{1} }),
		"a broken purchase":       account(func(a map[string]any) { delete(in(a, "active_purchase"), "state") }),
		"data without an account": func(m map[string]any) { m["data"] = map[string]any{} },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(answers(200, reply(t, ToolAccount, true, change)), ToolAccount)
			wantOutage(t, got, err, OutageMalformed)
		})
	}
}

func TestHeldPurchases(t *testing.T) {
	look := func(f func(account map[string]any)) *Look {
		l, err := answers(200, reply(t, ToolAccount, true, func(m map[string]any) { f(in(m, "data", "account")) })).Look(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := look(func(map[string]any) {})
	if l.Held == nil || !l.Held.Available || l.Held.Truncated == nil || !*l.Held.Truncated || len(l.Held.Items) != 1 || l.AgentID != key {
		t.Fatalf("%+v", l)
	}
	if i := l.Held.Items[0]; i.PurchaseID != purchaseID || i.Amount.Minor != 7 || i.State != "held" || !i.Exact || i.Since == nil {
		t.Errorf("item is %+v", i)
	}
	l = look(func(a map[string]any) {
		h := in(a, "held_purchases")
		h["truncated"], h["items"], h["total"] = nil, []any{}, nil
	})
	if l.Held == nil || l.Held.Truncated != nil || len(l.Held.Items) != 0 {
		t.Errorf("truncated null is not kept: %+v", l.Held)
	}
	l = look(func(a map[string]any) { in(a, "held_purchases")["truncated"] = false })
	if l.Held.Truncated == nil || *l.Held.Truncated {
		t.Errorf("truncated false is not kept: %+v", l.Held)
	}
	for _, f := range []func(map[string]any){
		func(a map[string]any) { a["held_purchases"] = nil },
		func(a map[string]any) { delete(a, "held_purchases") },
	} {
		if l = look(f); l.Held != nil {
			t.Errorf("held is %+v", l.Held)
		}
	}
	if l = look(func(a map[string]any) { delete(a, "agent") }); l.AgentID != "" {
		t.Errorf("agent is %q", l.AgentID)
	}
}

func TestList(t *testing.T) {
	l, err := answers(200, reply(t, ToolList, true, nil)).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Items) != 1 || !l.Truncated || l.Items[0].PurchaseID != purchaseID || l.Items[0].State != "needs_details" || l.Items[0].Amount.Minor != 7 {
		t.Errorf("%+v", l)
	}
	got, err := ask(answers(200, reply(t, ToolList, true, func(m map[string]any) { m["data"] = nil })), ToolList)
	wantOutage(t, got, err, OutageMalformed)
}

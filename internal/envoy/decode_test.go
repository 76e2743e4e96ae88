package envoy

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// left are places whose members nobody here decodes, so that they may break the
// contract below that point and the reply still counts.
func left(tool Tool, path string) bool {
	places := []string{"follow_ups", "next.args", "purchase.follow_up", "data.account.active_purchase.follow_up"}
	if tool == ToolStatus {
		places = append(places, "data")
	} else {
		places = append(places, "purchase")
	}
	for _, name := range []string{"balance", "held", "spendable", "profile", "addresses", "limits", "services", "currency", "limits_reserved", "held_purchases.total"} {
		places = append(places, "data.account."+name)
	}
	return slices.ContainsFunc(places, func(p string) bool {
		return strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[]")
	})
}

// breach is one way to break the contract.
type breach struct {
	name   string
	failed bool // in a reply with ok false
	change func(map[string]any)
}

func breaches(tool Tool, n *node) []breach {
	var out []breach
	var walk func(n *node, at []string)
	walk = func(n *node, at []string) {
		for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
			child, path := n.Properties[name], strings.Join(append(slices.Clone(at), name), ".")
			if left(tool, path) || path == "origin" {
				continue
			}
			failed := strings.HasPrefix(path, "error.")
			alter := func(what string, f func(map[string]any)) {
				out = append(out, breach{path + " " + what, failed, func(m map[string]any) { f(in(m, at...)) }})
			}
			required := slices.Contains(n.Required, name)
			if required {
				alter("missing", func(m map[string]any) { delete(m, name) })
			}
			if required && !child.is("null") {
				alter("null", func(m map[string]any) { m[name] = nil })
			}
			if !undecoded(path) {
				for kind, wrong := range map[string]any{"string": "text", "integer": 1, "boolean": true, "object": map[string]any{}, "array": []any{}} {
					if !child.is(kind) {
						alter("is "+kind, func(m map[string]any) { m[name] = wrong })
					}
				}
			}
			walk(child, append(slices.Clone(at), name))
			if child.Items != nil {
				walk(child.Items, append(slices.Clone(at), name+"[]"))
			}
		}
	}
	walk(n, nil)
	return out
}

// undecoded are members of the account that may be anything.
func undecoded(path string) bool {
	name, ok := strings.CutPrefix(path, "data.account.")
	return ok && !strings.Contains(name, ".") && !slices.Contains([]string{"active_purchase", "held_purchases", "unavailable", "agent"}, name)
}

func TestEveryBreachOfTheSchemaIsMalformed(t *testing.T) {
	for _, tool := range tools {
		t.Run(string(tool), func(t *testing.T) {
			for _, ok := range []bool{true, false} {
				got, err := ask(answers(200, reply(t, tool, ok, nil)), tool)
				var e *Error
				if ok && (err != nil || got == nil) || !ok && !errors.As(err, &e) {
					t.Fatalf("the whole reply with ok %v gives %v, %v", ok, got, err)
				}
			}
			all := breaches(tool, schema(t, tool))
			if len(all) < 130 {
				t.Fatalf("only %d breaches", len(all))
			}
			for _, b := range all {
				got, err := ask(answers(200, reply(t, tool, !b.failed, b.change)), tool)
				if got != nil || err == nil {
					t.Errorf("%s: passes", b.name)
					continue
				}
				if o := outageOf(t, err); o.Kind != OutageMalformed || o.Status != 200 {
					t.Errorf("%s: %v", b.name, err)
				}
			}
		})
	}
}

func TestValuesThatBreakTheContract(t *testing.T) {
	set := func(name string, v any, path ...string) func(map[string]any) {
		return func(m map[string]any) { in(m, path...)[name] = v }
	}
	for name, change := range map[string]func(map[string]any){
		"negative revision":        set("revision", -1, "purchase"),
		"half revision":            set("revision", 1.5, "purchase"),
		"revision over 64 bits":    set("revision", json.Number("9223372036854775808"), "purchase"),
		"state with a space":       set("state", "a b", "purchase"),
		"state with a dot":         set("state", "a.b", "purchase"),
		"state empty":              set("state", "", "purchase"),
		"state too long":           set("state", strings.Repeat("a", 65), "purchase"),
		"state with a line":        set("state", "ready\n", "purchase"),
		"purchase null":            set("purchase", nil),
		"purchase id hostile":      set("purchase_id", "pur_x\r\nPUB y 0", "purchase"),
		"purchase id star":         set("purchase_id", "*", "purchase"),
		"purchase id empty":        set("purchase_id", "", "purchase"),
		"superseded by a wildcard": set("superseded_by", ">", "purchase", "chain"),
		"whole card number":        set("last4", "4111111111111111", "purchase", "receipt", "card"),
		"negative amount":          set("minor", -1, "purchase", "amount"),
		"time of another format":   set("updated_at", "29 Sep 2026 12:00", "purchase"),
		"time with a comma":        set("updated_at", "2026-09-29T12:00:00,5Z", "purchase"),
		"negative wait":            set("after_seconds", -1, "next"),
		"action no word":           set("action", "call tool", "next"),
		"missing detail no text":   set("missing", []any{1}, "purchase", "details"),
		"another tool":             set("tool", "get_account"),
		"error beside ok":          set("error", map[string]any{"code": "UNAVAILABLE", "message": "", "fields": []any{}, "reason_code": nil, "retryable": true, "retry_after_seconds": nil}),
		"server time not there":    set("server_time", "", nil...),
		"more members than sense": func(m map[string]any) {
			for i := range maxMembers {
				in(m, "purchase")[strconv.Itoa(i)] = i
			}
		},
		"question asked at nothing": set("asked_at", "", "purchase", "question"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(answers(200, reply(t, ToolStatus, true, change)), ToolStatus)
			wantOutage(t, got, err, OutageMalformed)
		})
	}
}

func TestMembersThatComeTwiceOrInAnotherCase(t *testing.T) {
	whole := string(reply(t, ToolStatus, true, nil))
	for name, body := range map[string]string{
		"ok twice":         strings.Replace(whole, `{`, `{"ok":false,`, 1),
		"purchase escaped": strings.Replace(whole, `"purchase":{`, `"p\u0075rchase":null,"purchase":{`, 1),
		"upper case":       strings.Replace(whole, `"server_time"`, `"Server_Time"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			if body == whole {
				t.Fatal("nothing was changed")
			}
			got, err := ask(answers(200, []byte(body)), ToolStatus)
			wantOutage(t, got, err, OutageMalformed)
		})
	}
	escaped := strings.Replace(whole, `"server_time"`, `"serv\u0065r_time"`, 1)
	if _, err := ask(answers(200, []byte(escaped)), ToolStatus); err != nil {
		t.Fatalf("an escaped name is the same name: %v", err)
	}
}

func TestWordsOfTomorrowAndUnknownFields(t *testing.T) {
	got, err := ask(answers(200, reply(t, ToolStatus, true, func(m map[string]any) {
		m["new_top"] = map[string]any{"a": 1}
		in(m, "purchase")["state"] = "on_the_moon"
		in(m, "purchase")["new_field"] = canary
		in(m, "purchase")["rail"] = "Rail_2"
		in(m, "purchase", "amount")["tax"] = 3
		in(m, "next")["action"] = "sing"
	})), ToolStatus)
	if err != nil {
		t.Fatal(err)
	}
	s := got.(*Status)
	if s.Purchase.State != "on_the_moon" || *s.Purchase.Rail != "Rail_2" || s.Next.Action != "sing" {
		t.Errorf("words are not kept: %+v", s)
	}
	if s.Unknown != 3 {
		t.Errorf("%d unknown fields counted, want 3", s.Unknown)
	}
	wantNoText(t, s, canary)
}

func TestPublishedExampleDecodes(t *testing.T) {
	raw, err := os.ReadFile("testdata/submit_answer.reply.json")
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(string(raw), `"tool": "submit_answer"`, `"tool": "get_purchase_status"`, 1)
	for _, ref := range []string{purchaseID, key} {
		s, err := answers(200, []byte(body)).Status(t.Context(), StatusRequest{Purchase: ref})
		if err != nil {
			t.Fatal(err)
		}
		p := s.Purchase
		if p.PurchaseID != purchaseID || p.Revision != 2 || p.State != "processing" || p.Terminal ||
			*p.Rail != "operated_checkout" || *p.CheckoutBy != "envoy" || p.Amount != (Amount{249900, "INR", "₹2,499.00"}) ||
			p.Merchant.Name != "Example Store" || p.Question != nil || p.ReasonCode != nil || p.Funding != nil ||
			!p.UpdatedAt.Equal(time.Date(2026, 9, 29, 12, 0, 0, 0, time.UTC)) {
			t.Errorf("purchase is %+v", p)
		}
		if s.Next.By == nil || *s.Next.AfterSeconds != 0 || s.UserAction != nil || s.Unknown != 0 || s.RequestID != "req_synthetic" {
			t.Errorf("status is %+v", s)
		}
		if !strings.Contains(body, string(s.Next.Args)) || !json.Valid(s.Next.Args) {
			t.Errorf("args are not the bytes that came: %s", s.Next.Args)
		}
		if a, err := ParseArgs(s.Next.Args); err != nil || a.Purchase != purchaseID || *a.AfterRevision != 2 || a.Wait != MaxWait {
			t.Errorf("args are %+v, %v", a, err)
		}
	}
	for _, name := range []string{"search_products.reply.json", "mcp.confirming.json", "mcp.stopped.json", "mcp.waiting_for_user.json"} {
		raw, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ask(answers(200, raw), ToolStatus)
		wantOutage(t, got, err, OutageMalformed)
	}
}

func TestB22_AmountsAboveTwoToThe53AreExact(t *testing.T) {
	const big = 9007199254740993
	got, err := ask(answers(200, reply(t, ToolStatus, true, func(m map[string]any) {
		in(m, "purchase", "amount")["minor"] = big
		in(m, "purchase", "money", "paid")["minor"] = big
	})), ToolStatus)
	if err != nil {
		t.Fatal(err)
	}
	p := got.(*Status).Purchase
	if p.Amount.Minor != big || p.Money.Paid.Minor != big {
		t.Errorf("amounts are %d and %d", p.Amount.Minor, p.Money.Paid.Minor)
	}
}

func TestB23_ZeroNullAndMissingStayApart(t *testing.T) {
	purchase := func(change func(map[string]any)) Purchase {
		got, err := ask(answers(200, reply(t, ToolStatus, true, func(m map[string]any) { change(in(m, "purchase")) })), ToolStatus)
		if err != nil {
			t.Fatal(err)
		}
		return got.(*Status).Purchase
	}
	zero := purchase(func(p map[string]any) {
		in(p, "money", "paid")["minor"] = 0
		in(p, "payment_ready")["closed"] = false
		p["description"] = ""
		p["revision"] = 0
	})
	if zero.Money.Paid == nil || zero.Money.Paid.Minor != 0 || zero.PaymentReady.Closed == nil || *zero.PaymentReady.Closed ||
		zero.Description == nil || zero.Funding == nil || zero.Revision != 0 {
		t.Errorf("zero and false are not kept: %+v", zero)
	}
	null := purchase(func(p map[string]any) {
		in(p, "money")["paid"] = nil
		delete(in(p, "payment_ready"), "closed")
		delete(p, "funding")
		p["description"] = nil
		in(p, "payment_ready")["expires_at"] = nil
	})
	if null.Money.Paid != nil || null.PaymentReady.Closed != nil || null.Funding != nil || null.Description != nil || null.PaymentReady.ExpiresAt != nil {
		t.Errorf("null and missing became something: %+v", null)
	}
}

func TestNullOfAnOptionalMemberIsAbsent(t *testing.T) {
	got, err := ask(answers(200, reply(t, ToolStatus, true, func(m map[string]any) {
		in(m, "purchase")["funding"] = nil
		in(m, "purchase", "payment_ready")["closed"] = nil
		m["follow_ups"] = nil
	})), ToolStatus)
	if err != nil || got.(*Status).Purchase.Funding != nil || got.(*Status).Purchase.PaymentReady.Closed != nil {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestArgsAreKeptForStatusOnlyAndAreACopy(t *testing.T) {
	body := reply(t, ToolStatus, true, func(m map[string]any) {
		in(m, "next")["tool"], in(m, "next")["args"] = "answer_purchase_question", map[string]any{"answer": canary}
	})
	got, err := ask(answers(200, body), ToolStatus)
	if err != nil || got.(*Status).Next.Args != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	wantNoText(t, got, canary)

	body = reply(t, ToolStatus, true, func(m map[string]any) {
		in(m, "next")["args"] = map[string]any{"purchase": purchaseID, "after_revision": 0}
	})
	c := answers(200, body)
	got, err = ask(c, ToolStatus)
	if err != nil {
		t.Fatal(err)
	}
	args := string(got.(*Status).Next.Args)
	if _, err := ask(c, ToolStatus); err != nil { // uses the same buffer again
		t.Fatal(err)
	}
	if want := `{"after_revision":0,"purchase":"` + purchaseID + `"}`; args != want || string(got.(*Status).Next.Args) != want {
		t.Errorf("args are %s, want %s", got.(*Status).Next.Args, want)
	}
}

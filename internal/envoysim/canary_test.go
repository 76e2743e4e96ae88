package envoysim

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCardNumbersPassTheCheckAndAreUnique(t *testing.T) {
	m := &mint{seed: 4}
	seen := map[string]bool{}
	for range 5000 {
		n := m.cardNumber()
		if len(n) != 16 || !luhn(n) || seen[n] {
			t.Fatalf("card number %s", n)
		}
		seen[n] = true
	}
	if len(m.all()) != 5000 {
		t.Errorf("%d canaries", len(m.all()))
	}
	if got := withCheckDigit("453201511283036"); got != "4532015112830366" {
		t.Errorf("the check digit gives %s", got)
	}
}

func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// secretPaths are the places that the published schema marks as secret, and the links beside them.
func secretPaths(t *testing.T, tool string) []string {
	t.Helper()
	raw, err := os.ReadFile("schemas/" + tool + ".output.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(at string, v any)
	walk = func(at string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		if m["x-envoy-secret"] == true {
			out = append(out, at)
		}
		props, _ := m["properties"].(map[string]any)
		for name, p := range props {
			walk(strings.TrimPrefix(at+"."+name, "."), p)
		}
		if items, ok := m["items"]; ok {
			walk(at, items)
		}
	}
	walk("", doc)
	return append(out, "purchase.funding.url", "user_action.url")
}

// TestEverySecretIsACanary walks and looks at each string in a secret place that is long enough to be told apart.
func TestEverySecretIsACanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Seed: 11, Quirks: DefaultQuirks(), RequestsPerMinute: -1})
		k := &walker{world: w, r: rand.New(rand.NewPCG(1, 2)), tokens: []string{w.token}}
		if err := w.AddAgent(Agent{Token: w.token, Every: time.Second}); err != nil {
			t.Fatal(err)
		}
		gifts := w.AddToken("ravi", "origin:https://host.example.test")
		if err := w.AddAgent(Agent{Token: gifts, Every: time.Second, Rails: []Rail{GiftCard}}); err != nil {
			t.Fatal(err)
		}
		paths := map[string][]string{}
		for _, tool := range Tools() {
			paths[tool] = secretPaths(t, tool)
		}
		plain := regexp.MustCompile(`^(Home|MG Road|Bengaluru|Karnataka|560001|IN|adr_.*|₹.*|INR|card|gift_card|rupay|Enter the code.*|\d{1,4}|20\d\d-.*T.*Z)$`)
		merchants := regexp.MustCompile(`^(Example Store|Spice & Sons <Retail>|राम ट्रेडर्स|Books \*and\* _more_|Example Pharmacy|shop\.example\.test)$`)
		found := map[string]int{}
		for range 4000 {
			for k.r.IntN(2) == 0 {
				w.Step()
			}
			tool, body := k.request()
			token := w.token
			if tool == toolStatus && k.r.IntN(2) == 0 {
				token, body = gifts, `{}`
			}
			a := w.callAs(token, tool, body)
			var strs func(at string, v any)
			strs = func(at string, v any) {
				switch v := v.(type) {
				case map[string]any:
					for name, x := range v {
						strs(at+"."+name, x)
					}
				case []any:
					for _, x := range v {
						strs(at, x)
					}
				case string:
					found[at]++
					if !plain.MatchString(v) && !merchants.MatchString(v) && !covered(w.Canaries(), v) {
						t.Fatalf("%s: %q holds no canary", at, v)
					}
				}
			}
			for _, p := range paths[tool] {
				strs(p, a.at(p))
			}
		}
		for _, at := range []string{
			"data.payment_details.card.number", "data.payment_details.checkout_code", "data.payment_details.checkout_attempt_id",
			"data.payment_details.voucher.code", "data.payment_details.voucher.pin", "data.payment_details.voucher.redemption_url",
			"data.account.profile.email", "data.account.addresses.line1", "purchase.funding.url", "user_action.url",
		} {
			if found[at] == 0 {
				t.Errorf("the walk never saw %s", at)
			}
		}
	})
}

func covered(canaries []string, text string) bool {
	for _, c := range canaries {
		if strings.Contains(text, c) {
			return true
		}
	}
	return false
}

func TestTokensAndKeysAreCanaries(t *testing.T) {
	w := newWorld(t, Options{})
	w.SetToken("ravi", "origin:https://host.example.test", "my-own-token-000001")
	id := w.start(Spec{})
	r, _ := w.Purchase(id)
	for _, s := range []string{w.token, r.Purchase.Key} {
		if !strings.Contains(s, "canary") || !contains(w.Canaries(), s) {
			t.Errorf("%q is no canary", s)
		}
	}
	if !contains(w.Canaries(), "my-own-token-000001") {
		t.Error("a token set by hand is no canary")
	}
}

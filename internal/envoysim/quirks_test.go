package envoysim

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lived plays a random life with one quirk always on until a reading fits, over many purchases.
func lived(t *testing.T, q Quirks, agent Agent, fits func(before, now Reading) bool) bool {
	t.Helper()
	w := newWorld(t, Options{Seed: 3, Quirks: q, RequestsPerMinute: -1})
	agent.Token, agent.Purchases = w.token, 60
	if err := w.AddAgent(agent); err != nil {
		t.Fatal(err)
	}
	for i := 0; w.Step() && i < 5000; i++ {
	}
	for _, r := range w.Purchases() {
		for i := 1; i < len(r.History); i++ {
			if fits(r.History[i-1], r.History[i]) {
				return true
			}
		}
	}
	return false
}

func TestQuirksOfLives(t *testing.T) {
	for name, tt := range map[string]struct {
		quirk Quirks
		rail  Rail
		fits  func(before, now Reading) bool
	}{
		"SkipToReady":    {Quirks{SkipToReady: 1}, OTUCard, func(b, n Reading) bool { return b.State == WaitingForUser && n.State == Ready }},
		"NewAttempt":     {Quirks{NewAttempt: 0.7}, OTUCard, func(b, n Reading) bool { return b.State == Verifying && n.State == Ready }},
		"EnvoyTakesOver": {Quirks{EnvoyTakesOver: 1}, OTUCard, func(b, n Reading) bool { return b.State == Ready && n.State == Processing && n.CheckoutBy == ByEnvoy }},
		"FlipToEnvoy":    {Quirks{RouteFlip: 0.5}, OTUCard, func(b, n Reading) bool { return b.CheckoutBy == ByAgent && n.CheckoutBy == ByEnvoy }},
		"FlipToAgent":    {Quirks{RouteFlip: 0.5}, OperatedCheckout, func(b, n Reading) bool { return b.CheckoutBy == ByEnvoy && n.CheckoutBy == ByAgent }},
		"StopChecking":   {Quirks{StopChecking: 1}, OperatedCheckout, func(b, n Reading) bool { return n.Stop && !b.Stop && n.Revision == b.Revision }},
		"MoneyHidden": {Quirks{MoneyHidden: 1}, OTUCard, func(_, n Reading) bool {
			return n.State == Failed && n.Money == NotStarted && n.Ledger == LedgerSetAside
		}},
		"MoneyUnknown": {Quirks{MoneyUnknown: 1}, OTUCard, func(_, n Reading) bool { return n.State == Failed && n.Money == MoneyUnknown }},
		"RevisionJump": {Quirks{RevisionJump: 1}, OTUCard, func(b, n Reading) bool { return n.Revision > b.Revision+1 }},
	} {
		t.Run(name, func(t *testing.T) {
			if !lived(t, tt.quirk, Agent{Rails: []Rail{tt.rail}}, tt.fits) {
				t.Error("the quirk never happened")
			}
			if lived(t, Quirks{}, Agent{Rails: []Rail{tt.rail}}, tt.fits) {
				t.Error("it happens without the quirk too")
			}
		})
	}
}

func TestQuirksOfReplies(t *testing.T) {
	t.Run("HideActive", func(t *testing.T) {
		w := newWorld(t, Options{Quirks: Quirks{HideActive: 1}})
		w.start(Spec{})
		a := w.call(toolAccount, `{"include":["active_purchase"]}`)
		account := a.at("data.account").(map[string]any)
		if _, there := account["active_purchase"]; there || account["unavailable"].([]any)[0] != "active_purchase" {
			t.Errorf("account is %v", account)
		}
	})
	t.Run("HoldsUnavailable", func(t *testing.T) {
		w := newWorld(t, Options{Quirks: Quirks{HoldsUnavailable: 1}})
		h := w.call(toolAccount, `{}`).at("data.account.held_purchases").(map[string]any)
		if h["available"] != false || h["reason"] != "upstream_unavailable" {
			t.Errorf("held purchases are %v", h)
		}
	})
	t.Run("HoldsTruncated", func(t *testing.T) {
		w := newWorld(t, Options{Quirks: Quirks{HoldsTruncated: 1}})
		w.start(Spec{State: Ready})
		seen := map[any]bool{}
		for range 40 {
			h := w.call(toolAccount, `{}`).at("data.account.held_purchases").(map[string]any)
			seen[h["truncated"]] = true
			if len(h["items"].([]any)) != 0 {
				t.Fatalf("held purchases are %v", h)
			}
		}
		if !reflect.DeepEqual(seen, map[any]bool{true: true, nil: true}) {
			t.Errorf("truncated was %v", seen)
		}
	})
	t.Run("ListLag", func(t *testing.T) {
		w := newWorld(t, Options{Quirks: Quirks{ListLag: 1}})
		id := w.start(Spec{})
		w.move(id, Processing)
		first := func() any {
			return w.call(toolPurchases, `{}`).at("data.purchases").([]any)[0].(map[string]any)["state"]
		}
		if got := first(); got != "waiting_for_user" {
			t.Errorf("at first the list shows %v", got)
		}
		w.Advance(lag)
		if got := first(); got != "processing" {
			t.Errorf("later the list shows %v", got)
		}
	})
	t.Run("RefusedWithPurchase", func(t *testing.T) {
		w := newWorld(t, Options{Quirks: Quirks{RefusedWithPurchase: 1}})
		id := w.start(Spec{})
		a := w.call(toolStatus, `{"purchase":"`+id+`"}`)
		if a.at("ok") != false || a.at("purchase.purchase_id") != id || a.code() != string(Unavailable) {
			t.Errorf("answered %s", a.body)
		}
	})
	t.Run("EarlyReply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{Quirks: Quirks{EarlyReply: 1}})
			id := w.start(Spec{})
			begun := time.Now()
			w.call(toolStatus, heldBody(id, 0, 40))
			if d := time.Since(begun); d != 10*time.Second {
				t.Errorf("answered after %v", d)
			}
		})
	})
	t.Run("AsksDetails", func(t *testing.T) {
		w := newWorld(t, Options{Quirks: Quirks{AsksDetails: 1}})
		if a := w.call(toolStart, buyBody); a.at("purchase.state") != "needs_details" || a.at("purchase.details.complete") != false {
			t.Errorf("answered %s", a.body)
		}
	})
	t.Run("LostSuccessor", func(t *testing.T) {
		w := newWorld(t, Options{Quirks: Quirks{LostSuccessor: 1}})
		old := w.start(Spec{})
		if _, err := w.Start(w.token, Spec{RetryOf: old}); err != nil {
			t.Fatal(err)
		}
		a := w.call(toolStatus, `{"purchase":"`+old+`"}`)
		if a.at("purchase.state") != "superseded" || a.at("purchase.chain.superseded_by") != nil || a.at("next.tool") != toolAccount {
			t.Errorf("answered %s", a.body)
		}
	})
}

func TestSkewKeepsTheToolsApartForAMoment(t *testing.T) {
	w := newWorld(t, Options{Quirks: Quirks{Skew: 1}, RequestsPerMinute: -1})
	both := map[int]bool{}
	for i := range 30 {
		token := w.AddToken(strings.Repeat("u", i+1), "origin:https://host.example.test")
		id, err := w.Start(token, Spec{Rail: OperatedCheckout, Life: LifeScripted, Steps: []Step{{State: Processing}}})
		if err != nil {
			t.Fatal(err)
		}
		w.Step()
		apart := func() int {
			look, _ := w.callAs(token, toolAccount, `{}`).at("data.account.active_purchase.revision").(json.Number).Int64()
			read, _ := w.callAs(token, toolStatus, `{"purchase":"`+id+`"}`).at("purchase.revision").(json.Number).Int64()
			return int(look - read)
		}
		both[apart()] = true
		w.Advance(2 * time.Second)
		if d := apart(); d != 0 {
			t.Fatalf("still %d apart after two seconds", d)
		}
	}
	if !both[1] || !both[-1] || both[0] {
		t.Errorf("the tools were apart by %v", both)
	}
}

func TestDirtyText(t *testing.T) {
	w := newWorld(t, Options{Seed: 5, Quirks: Quirks{DirtyText: 1}, RequestsPerMinute: -1})
	if err := w.AddAgent(Agent{Token: w.token, Purchases: 20}); err != nil {
		t.Fatal(err)
	}
	links, cards, prompts, descriptions := 0, 0, 0, 0
	for w.Step() {
		for _, r := range w.Purchases() {
			p := r.Purchase
			for _, text := range []string{p.StatusText, p.Description} {
				if strings.Contains(text, "https://") {
					links++
				}
				if strings.Contains(text, "6521 99") {
					cards++
				}
				if len([]rune(text)) > 300 {
					t.Fatalf("text of %d characters", len([]rune(text)))
				}
			}
			if strings.Contains(p.Description, "canary") || strings.Contains(p.Description, "6521 99") {
				descriptions++
			}
			if q := p.Question; q != nil && (strings.Contains(q.Prompt, "https://") || strings.Contains(q.Prompt, "6521 99")) {
				prompts++
			}
		}
	}
	if links == 0 || cards == 0 || prompts == 0 || descriptions == 0 {
		t.Errorf("%d links, %d cards, %d prompts, %d descriptions", links, cards, prompts, descriptions)
	}
}

func TestLivesDependOnTheSeedOnly(t *testing.T) {
	live := func(seed uint64, ask bool) [][]State {
		w := newWorld(t, Options{Seed: seed, Quirks: DefaultQuirks(), RequestsPerMinute: -1})
		for i := range 4 {
			token := w.AddToken(strings.Repeat("u", i+1), "origin:https://host.example.test")
			if err := w.AddAgent(Agent{Token: token, Purchases: 15, Rails: []Rail{OTUCard, OperatedCheckout}}); err != nil {
				t.Fatal(err)
			}
			if ask {
				defer func() { w.call(toolAccount, `{}`) }()
			}
			for w.Step() {
				if ask { // looks and lists change nothing
					w.callAs(token, toolAccount, `{}`)
					w.callAs(token, toolPurchases, `{}`)
				}
			}
		}
		var out [][]State
		for _, r := range w.Purchases() {
			var states []State
			for _, h := range r.History {
				states = append(states, h.State)
			}
			out = append(out, states)
		}
		return out
	}
	one := live(9, false)
	if len(one) != 60 {
		t.Fatalf("%d purchases, want 60", len(one))
	}
	if !reflect.DeepEqual(one, live(9, false)) {
		t.Error("the same seed lived differently")
	}
	if !reflect.DeepEqual(one, live(9, true)) {
		t.Error("being looked at changed the lives")
	}
	if reflect.DeepEqual(one, live(10, false)) {
		t.Error("another seed lived the same")
	}
}

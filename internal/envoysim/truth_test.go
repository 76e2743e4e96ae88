package envoysim

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMoneyThatRepliesDoNotShow(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.start(Spec{Amount: 500_000})
	w.move(id, Processing)
	w.move(id, Ready)
	w.move(id, Failed)
	a := w.call(toolStatus, `{"purchase":"`+id+`"}`)
	if a.at("purchase.money.status") != "not_started" {
		t.Errorf("money.status is %v", a.at("purchase.money.status"))
	}
	e, ok := w.Ledger(id)
	if !ok || e.Status != LedgerSetAside || e.Amount != 500_000 || e.ApprovedBy != "asha" || len(e.Changes) != 2 {
		t.Errorf("ledger says %+v", e)
	}
	held := w.call(toolAccount, `{"include":["held_purchases","balance"]}`)
	items := held.at("data.account.held_purchases.items").([]any)
	if len(items) != 1 || items[0].(map[string]any)["purchase_id"] != id || items[0].(map[string]any)["state"] != "held" {
		t.Errorf("held purchases are %v", items)
	}
	if held.at("data.account.spendable.minor") != json.Number("24500000") {
		t.Errorf("spendable is %v", held.at("data.account.spendable"))
	}
	w.SetLedger(id, LedgerRefunding)
	items = w.call(toolAccount, `{"include":["held_purchases"]}`).at("data.account.held_purchases.items").([]any)
	if items[0].(map[string]any)["state"] != "returning" {
		t.Errorf("held purchases are %v", items)
	}
	w.SetLedger(id, LedgerNone)
	items = w.call(toolAccount, `{"include":["held_purchases"]}`).at("data.account.held_purchases.items").([]any)
	if len(items) != 0 {
		t.Errorf("held purchases are %v", items)
	}
	if r, _ := w.Purchase(id); r.Purchase.Revision != 3 {
		t.Errorf("moving money made revision %d", r.Purchase.Revision)
	}
	if w.SetLedger("pur_none", LedgerNone) {
		t.Error("the money of nothing was moved")
	}
}

func TestLedgerFollowsWhatIsProven(t *testing.T) {
	for name, tt := range map[string]struct {
		rail  Rail
		steps []Step
		want  LedgerStatus
	}{
		"Waiting":           {OTUCard, nil, LedgerNone},
		"Declined":          {OTUCard, []Step{{State: Failed, Reason: "USER_DECLINED"}}, LedgerNone},
		"Approved":          {OTUCard, []Step{{State: Processing}}, LedgerAuthorised},
		"ApprovedThenLost":  {OTUCard, []Step{{State: Processing}, {State: Failed}}, LedgerNone},
		"EnvoyChecksOut":    {OperatedCheckout, []Step{{State: Processing}}, LedgerSetAside},
		"Ready":             {OTUCard, []Step{{State: Processing}, {State: Ready}}, LedgerSetAside},
		"GiftCardPaid":      {GiftCard, []Step{{State: Processing}}, LedgerDebited},
		"Completed":         {OTUCard, []Step{{State: Ready}, {State: Completed, Money: MoneyDebited}}, LedgerDebited},
		"Collects":          {OperatedCheckout, []Step{{State: Processing}, {State: Completed, Money: MerchantCollects}}, LedgerNone},
		"Refunding":         {OperatedCheckout, []Step{{State: Processing}, {State: Failed, Money: RefundPending}}, LedgerRefunding},
		"Refunded":          {OperatedCheckout, []Step{{State: Processing}, {State: Failed, Money: RefundPending}, {Money: MoneyRefunded}}, LedgerRefunded},
		"StepSaysOtherwise": {OperatedCheckout, []Step{{State: Processing}, {State: Failed, Ledger: LedgerNone}}, LedgerNone},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{Rail: tt.rail, Life: LifeScripted, Steps: tt.steps})
			for w.Step() {
			}
			if e, _ := w.Ledger(id); e.Status != tt.want {
				t.Errorf("ledger is %s, want %s", e.Status, tt.want)
			}
		})
	}
}

func TestAReadyReadBeginsTheGiftCardCheckout(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.start(Spec{Rail: GiftCard, UserTask: PayLink})
	w.move(id, Ready)
	w.call(toolAccount, `{}`)
	w.Advance(3 * time.Second)
	if r, _ := w.Purchase(id); r.Purchase.State != Ready {
		t.Fatalf("a look made it %s", r.Purchase.State)
	}
	a := w.call(toolStatus, `{"purchase":"`+id+`"}`)
	for _, secret := range []string{"code", "pin", "redemption_url"} {
		v, _ := a.at("data.payment_details.voucher." + secret).(string)
		if !contains(w.Canaries(), v) {
			t.Errorf("%s %q is no canary", secret, v)
		}
	}
	if !w.Step() {
		t.Fatal("the read set nothing off")
	}
	r, _ := w.Purchase(id)
	if r.Purchase.State != Processing || !r.Purchase.StartedByRead || !strings.Contains(r.Purchase.StatusText, "read") {
		t.Errorf("after the read it is %+v", r.Purchase)
	}
	g := w.GuiltyReads()[id]
	if len(g) != 1 || !g[0].Released || g[0].Held || g[0].AfterRevision != -1 || g[0].SinceLook < 3*time.Second || g[0].LastSeen != Ready || g[0].LookShowed != id {
		t.Errorf("guilty reads are %+v", g)
	}
}

func TestAHoldThatEndsReadyIsGuilty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		id := w.start(Spec{})
		defer time.AfterFunc(4*time.Second, func() { w.move(id, Ready) }).Stop()
		w.call(toolStatus, heldBody(id, 0, 30))
		g := w.GuiltyReads()[id]
		if len(g) != 1 || !g[0].Held || g[0].AfterRevision != 0 || g[0].Wait != 30*time.Second || g[0].SinceLook >= 0 || g[0].LastSeen != "" {
			t.Errorf("guilty reads are %+v", g)
		}
	})
}

func TestOwnership(t *testing.T) {
	w := newWorld(t, Options{})
	second := w.AddToken("asha", "origin:https://second.example.test")
	stranger := w.AddToken("ravi", "origin:https://host.example.test")
	id := w.start(Spec{Key: "canary-own-key-0001"})
	for _, ref := range []string{id, "canary-own-key-0001"} {
		body := `{"purchase":"` + ref + `"}`
		if a := w.callAs(second, toolStatus, body); a.at("purchase.purchase_id") != id {
			t.Errorf("the user's other host was answered %d", a.status)
		}
		for _, tool := range []string{toolStatus, toolCancel} {
			if a := w.callAs(stranger, tool, body); a.status != 404 || a.at("purchase") != nil {
				t.Errorf("a stranger's %s was answered %d %s", tool, a.status, a.body)
			}
		}
	}
	if a := w.callAs(stranger, toolStatus, `{}`); a.status != 404 {
		t.Errorf("a status of nothing was answered %d", a.status)
	}
	if a := w.callAs(second, toolStatus, `{}`); a.at("purchase.purchase_id") != id {
		t.Errorf("a status without a reference was answered %s", a.body)
	}
	if _, err := w.Start(second, Spec{}); !errors.Is(err, ErrActive) {
		t.Errorf("a second purchase of the user: %v", err)
	}
}

func TestWaitAndSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		var seen []Change
		cancel := w.Subscribe(func(c Change) { seen = append(seen, c) })
		id := w.start(Spec{})
		defer time.AfterFunc(time.Second, func() { w.move(id, Processing) }).Stop()
		defer time.AfterFunc(2*time.Second, func() { w.move(id, Verifying) }).Stop()
		p, err := w.Wait(t.Context(), id, func(p Purchase) bool { return p.State == Verifying })
		if err != nil || p.Revision != 2 {
			t.Errorf("waited for %+v, %v", p, err)
		}
		cancel()
		w.move(id, Completed)
		if len(seen) != 3 || seen[0].Revision != 0 || seen[2].State != Verifying || seen[2].ID != id {
			t.Errorf("saw %+v", seen)
		}
		r, _ := w.Purchase(id)
		if len(r.History) != 4 || r.History[3].State != Completed || r.History[2].At.Sub(r.History[1].At) != time.Second {
			t.Errorf("history is %+v", r.History)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := w.Wait(ctx, id, func(Purchase) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited in vain and got %v", err)
		}
		if _, err := w.Wait(ctx, "pur_none", nil); !errors.Is(err, ErrNoPurchase) {
			t.Errorf("waited for nothing and got %v", err)
		}
	})
}

func contains(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}

func TestSettersOnNothing(t *testing.T) {
	w := newWorld(t, Options{})
	if err := w.Transition("pur_none", func(*Purchase) {}); !errors.Is(err, ErrNoPurchase) {
		t.Errorf("Transition: %v", err)
	}
	if err := w.Amend("pur_none", func(*Purchase) {}); !errors.Is(err, ErrNoPurchase) {
		t.Errorf("Amend: %v", err)
	}
	if _, err := w.Start("none", Spec{}); !errors.Is(err, ErrNoToken) {
		t.Errorf("Start: %v", err)
	}
	if err := w.Play("none", Scenario{Purchases: []ScenarioPurchase{{}}}); !errors.Is(err, ErrNoToken) {
		t.Errorf("Play: %v", err)
	}
	if err := w.AddAgent(Agent{Token: "none"}); !errors.Is(err, ErrNoToken) {
		t.Errorf("AddAgent: %v", err)
	}
	id := w.start(Spec{Key: "canary-own-key-0001"})
	if _, err := w.Put("asha", Purchase{ID: id}); err == nil {
		t.Error("an id was taken twice")
	}
	if _, err := w.Put("asha", Purchase{Key: "canary-own-key-0001"}); err == nil {
		t.Error("a key was taken twice")
	}
	if _, err := New(Options{Speed: -1}); err == nil {
		t.Error("a negative speed was taken")
	}
}

package envoysim

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestScenariosByName(t *testing.T) {
	want := []string{
		"confirming", "declined", "envoy-checkout", "expired-card", "gift-card", "happy-card", "needs-support", "question",
		"refund", "superseded",
	}
	if got := Scenarios(); !reflect.DeepEqual(got, want) {
		t.Fatalf("scenarios are %v", got)
	}
	for _, name := range want {
		sc, err := LoadScenario(name)
		if err != nil || sc.Name != name || sc.About == "" {
			t.Errorf("%s: %v, named %q", name, err, sc.Name)
		}
	}
	if _, err := LoadScenario("nonsense"); err == nil || !strings.Contains(err.Error(), "happy-card") {
		t.Errorf("an unknown scenario: %v", err)
	}
}

// TestScenarioPlaysInItsTime runs by timers, twice as fast as written.
func TestScenarioPlaysInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Speed: 2})
		sc, err := LoadScenario("happy-card")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Play(w.token, sc); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		ctx, stop := withStop(t)
		go func() { done <- w.Run(ctx) }()
		begun := time.Now()
		pass(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		records := w.Purchases()
		if len(records) != 1 {
			t.Fatalf("%d purchases", len(records))
		}
		want := []struct {
			state State
			at    time.Duration
		}{{WaitingForUser, 0}, {Processing, 2 * time.Second}, {Ready, 3 * time.Second}, {Verifying, 7 * time.Second}, {Completed, 9 * time.Second}}
		for i, h := range records[0].History {
			if i >= len(want) || h.State != want[i].state || h.At.Sub(begun) != want[i].at || h.Revision != i {
				t.Errorf("reading %d is %+v, after %v", i, h, h.At.Sub(begun))
			}
		}
		if records[0].Purchase.FollowUp == nil || records[0].Purchase.Receipt.OrderRef != "ABC1234567" {
			t.Errorf("it ended as %+v", records[0].Purchase)
		}
	})
}

func TestSupersededScenarioIsLinked(t *testing.T) {
	w := newWorld(t, Options{})
	sc, err := LoadScenario("superseded")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Play(w.token, sc); err != nil {
		t.Fatal(err)
	}
	for w.Step() {
	}
	r := w.Purchases()
	if len(r) != 3 {
		t.Fatalf("%d purchases", len(r))
	}
	for i := range 2 {
		if r[i].Purchase.SupersededBy != r[i+1].Purchase.ID || r[i+1].Purchase.Supersedes != r[i].Purchase.ID || r[i].Purchase.State != Superseded {
			t.Errorf("purchases %d and %d are not linked", i, i+1)
		}
	}
	if r[2].Purchase.State != Completed {
		t.Errorf("the last is %s", r[2].Purchase.State)
	}
}

func TestARealAgentTakesAScriptOver(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.start(Spec{Life: LifeScripted, Steps: []Step{{State: Ready}, {After: time.Minute, State: Failed}}})
	w.Step()
	if a := w.call(toolReport, `{"purchase":"`+id+`","outcome":"paid"}`); a.at("purchase.state") != "verifying" {
		t.Fatalf("answered %s", a.body)
	}
	for w.Step() {
	}
	r, _ := w.Purchase(id)
	if !r.Purchase.State.Terminal() || len(r.History) < 4 {
		t.Errorf("history is %+v", r.History)
	}
}

func TestScenarioMistakes(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"NotYAML":       {"purchases: [", ""},
		"UnknownKey":    {"purchases:\n  - rails: otu_card\n", `unknown field "rails"`},
		"NoPurchases":   {"name: x\n", "no purchases"},
		"UnknownState":  {"purchases:\n  - state: sleeping\n", "sleeping"},
		"UnknownRail":   {"purchases:\n  - rail: cash\n", "cash"},
		"UnknownRoute":  {"purchases:\n  - route: nobody\n", "nobody"},
		"UnknownTask":   {"purchases:\n  - user_task: dance\n", "dance"},
		"UnknownMoney":  {"purchases:\n  - steps: [{ money: lost }]\n", "lost"},
		"UnknownLedger": {"purchases:\n  - steps: [{ ledger: lost }]\n", "lost"},
		"Amount":        {"purchases:\n  - amount: \"1.005\"\n", "1.005"},
		"NoUnit":        {"purchases:\n  - steps: [{ after: soon }]\n", ""},
		"Negative":      {"purchases:\n  - steps: [{ after: -1s }]\n", "negative"},
		"Successor":     {"purchases:\n  - steps: [{ superseded_by: other }]\n", "other"},
		"NeverEnds":     {"purchases:\n  - rail: otu_card\n  - rail: otu_card\n", "never ends"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseScenario([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a mention of %q", err, tt.want)
			}
		})
	}
}

func FuzzParseScenario(f *testing.F) {
	for _, name := range Scenarios() {
		raw, err := scenarioFiles.ReadFile("scenarios/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		sc, err := ParseScenario(raw)
		if err != nil {
			return
		}
		if err := sc.validate(); err != nil {
			t.Errorf("parsed and then found wrong: %v", err)
		}
	})
}

func FuzzInput(f *testing.F) {
	inputs, err := loadInputs()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(toolStart, []byte(buyBody))
	f.Add(toolAccount, []byte(`{"include":"agent"}`))
	f.Add(toolStatus, []byte(heldBody("pur_00000000000000000000000000000000", 0, 45)))
	f.Fuzz(func(t *testing.T, tool string, body []byte) {
		in, ok := inputs[tool]
		if !ok {
			return
		}
		obj, wrong := in.parse(tool, body)
		if (obj == nil) != (len(wrong) > 0) || len(wrong) > 10 {
			t.Errorf("%q gave %v and %v", body, obj, wrong)
		}
	})
}

package route

import (
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestCompileRefuses(t *testing.T) {
	tests := map[string]struct {
		expr    string
		line    int
		column  int
		problem string
	}{
		"no bool":          {"situation", 1, 1, "must be bool"},
		"dynamic":          {"dyn(unsettled)", 1, 1, "must be bool"},
		"unknown name":     {"unsettld", 1, 1, "undeclared reference to 'unsettld'"},
		"unknown field":    {"amount.miner > 5", 1, 7, "undefined field 'miner'"},
		"personal field":   {`question.prompt == ""`, 1, 9, "undefined field 'prompt'"},
		"wrong type":       {`revision == "5"`, 1, 10, "no matching overload"},
		"syntax":           {"unsettled &&", 1, 13, "Syntax error"},
		"second line":      {"unsettled &&\n  nonsense", 2, 3, "undeclared reference to 'nonsense'"},
		"empty":            {" \n ", 1, 1, "empty"},
		"too long":         {strings.Repeat("unsettled || ", 400) + "true", 1, 1, "size"},
		"too deep":         {strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100), 1, 1, "recursion"},
		"an unknown func.": {`size_of(state) == 1`, 1, 8, "undeclared reference to 'size_of'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := CompileMatch(tt.expr)
			all := CompileErrors(err)
			if len(all) == 0 {
				t.Fatalf("accepted: %v", err)
			}
			e := all[0]
			if !strings.Contains(e.Error(), tt.problem) {
				t.Errorf("problem is %q, want %q in it", e.Error(), tt.problem)
			}
			if name != "too long" && name != "too deep" && (e.Line != tt.line || e.Column != tt.column) {
				t.Errorf("place is %d:%d, want %d:%d (%v)", e.Line, e.Column, tt.line, tt.column, e)
			}
		})
	}
}

func TestCompileGathersEveryMistake(t *testing.T) {
	_, err := Compile([]Spec{
		{Name: "a", Match: "nope", Urgent: "neither", Sinks: []string{"x"}},
		{Name: "a", Match: "true", Sinks: []string{"x"}},
		{Name: "", Match: "true", For: -1, Repeat: -1},
	})
	var got []string
	for _, e := range CompileErrors(err) {
		got = append(got, e.Subscription+"/"+e.Field)
	}
	want := "a/match a/urgent a/name /name /for /repeat /sinks"
	if strings.Join(got, " ") != want {
		t.Errorf("mistakes %q, want %q", strings.Join(got, " "), want)
	}
}

// Every variable is there for every event, empty where the event lacks it.
func TestVariablesAreAlwaysDefined(t *testing.T) {
	const empty = `type == "" && id == "" && source == "" && subject == "" && connection == ""
		&& time == timestamp("0001-01-01T00:00:00Z") && now > time && situation == "" && state == "" && money == ""
		&& !unsettled && !terminal && rail == "" && checkout_by == "" && reason_code == "" && waiting_on == ""
		&& question.id == "" && question.kind == "" && merchant.name == "" && merchant.url == ""
		&& amount.minor == 0 && amount.currency == "" && amount.display == ""
		&& previous.id == "" && previous.revision == 0 && previous.state == "" && previous.situation == ""
		&& revision == 0 && cause == ""
		&& notice.kind == "" && notice.code == "" && notice.purchase_id == "" && notice.sink == "" && notice.count == 0`
	p, err := CompileMatch(empty)
	if err != nil {
		t.Fatal(err)
	}
	if yes, err := p.Match(events.Event{}, noon); err != nil || !yes {
		t.Errorf("empty event: %v, %v", yes, err)
	}
	for _, e := range events.Samples() {
		if _, err := p.Match(e, noon); err != nil {
			t.Errorf("%s: %v", e.ID, err)
		}
	}
}

func TestVariablesTellTheEvent(t *testing.T) {
	e := purchase(7, events.SituationNeedsSupport)
	e.Purchase.Question = &events.Question{ID: "q1", Kind: "otp"}
	e.Purchase.Previous = &events.Previous{ID: "p-0-6-0", Revision: 6, State: "verifying", Situation: "confirming"}
	e.Purchase.Merchant = events.Merchant{Name: "Acme", URL: "https://acme.example"}
	e.Purchase.Amount = events.Amount{Minor: 9007199254740993, Currency: "INR", Display: "x"}
	p, err := CompileMatch(`subject == "pur_a" && situation == "needs_support" && unsettled && revision == 7
		&& question.kind == "otp" && previous.situation == "confirming" && merchant.name.startsWith("Ac")
		&& amount.minor == 9007199254740993 && cause == "revision" && connection == "host-a"
		&& now - time == duration("1h") && type.endsWith("changed.v1") && source == "/connections/host-a"`)
	if err != nil {
		t.Fatal(err)
	}
	if yes, err := p.Match(e, noon.Add(time.Hour)); err != nil || !yes {
		t.Errorf("got %v, %v", yes, err)
	}
	n := events.Event{Type: events.TypeNotice, Notice: &events.Notice{Connection: "host-b", Kind: events.NoticeParked, Code: "X", Count: 3}}
	p, err = CompileMatch(`notice.kind == "parked" && notice.code == "X" && notice.count == 3 && connection == "host-b" && situation == ""`)
	if err != nil {
		t.Fatal(err)
	}
	if yes, err := p.Match(n, noon); err != nil || !yes {
		t.Errorf("notice: %v, %v", yes, err)
	}
}

func TestMatchCostIsLimited(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 60), ",") + "]"
	p, err := CompileMatch(list + ".all(a, " + list + ".all(b, " + list + ".all(c, a + b + c + revision > 0)))")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Match(purchase(1, events.SituationDone), noon); err == nil || !strings.Contains(err.Error(), "cost") {
		t.Errorf("got %v, want the cost to be exceeded", err)
	}
}

func TestUsesNow(t *testing.T) {
	for expr, want := range map[string]bool{"unsettled": false, `now - time > duration("1m")`: true} {
		p, err := CompileMatch(expr)
		if err != nil {
			t.Fatal(err)
		}
		if p.UsesNow() != want {
			t.Errorf("%s: %v", expr, p.UsesNow())
		}
	}
}

func TestSetKnowsItsSinks(t *testing.T) {
	set := compile(t, Spec{Name: "a", Match: "true", Sinks: []string{"z", "b", "z"}}, Spec{Name: "b", Match: "true", For: 1, Sinks: []string{"c"}})
	if got := strings.Join(set.Sinks(), " "); got != "b c z" {
		t.Errorf("sinks %q", got)
	}
	if set.Alarms("z") || !set.Alarms("c") || set.Alarms("nobody") {
		t.Error("alarms of the wrong sinks")
	}
}

func FuzzCompileMatch(f *testing.F) {
	for _, s := range []string{"unsettled", "amount.minor > 5", "a.b.c", "[1,2].exists(x, x == revision)", `"\u202e`, "now - time", "{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := CompileMatch(s)
		if err != nil {
			if len(CompileErrors(err)) == 0 {
				t.Errorf("an error without a place: %v", err)
			}
			return
		}
		_, _ = p.Match(purchase(1, events.SituationConfirming), noon) // may fail, must not panic or hang
	})
}

func compile(t testing.TB, specs ...Spec) *Set {
	t.Helper()
	set, err := Compile(specs)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// purchase is an event of purchase pur_a.
func purchase(revision int64, s events.Situation) events.Event {
	at := events.Position{Revision: revision}
	e := events.Event{
		ID: events.EventID("pur_a", at), Source: "/connections/host-a", Type: events.TypeChanged, Subject: "pur_a", Time: noon,
		Purchase: &events.Purchase{
			Connection: "host-a", Situation: s, State: events.StateProcessing, ChainRoot: "pur_a",
			Reading: events.ReadingInfo{Revision: revision, Cause: events.CauseRevision},
		},
	}
	switch s {
	case events.SituationConfirming, events.SituationNeedsSupport:
		e.Purchase.Unsettled, e.Purchase.State = true, events.StateVerifying
	case events.SituationDone, events.SituationStopped:
		e.Purchase.Terminal, e.Purchase.State = true, events.StateCompleted
	case events.SituationReady:
		e.Purchase.State = events.StateReady
	case events.SituationNeedsDetails, events.SituationNeedsAnswer, events.SituationWaitingForUser,
		events.SituationWorking, events.SituationUnknown:
	}
	return e
}

package words_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

// enums gathers, from the published schemas, the words of every field of a name.
func enums(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../events/testdata/schemas/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("the published schemas are not there: %v", err)
	}
	out := map[string][]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatal(err)
		}
		gather(schema, "", out)
	}
	return out
}

func gather(node any, field string, out map[string][]string) {
	switch node := node.(type) {
	case []any:
		for _, inner := range node {
			gather(inner, field, out)
		}
	case map[string]any:
		list, _ := node["enum"].([]any)
		for _, word := range list {
			if s, ok := word.(string); ok && !slices.Contains(out[field], s) {
				out[field] = append(out[field], s)
			}
		}
		for key, inner := range node {
			switch key {
			case "properties", "items", "anyOf", "oneOf", "allOf":
				key = field
			}
			gather(inner, key, out)
		}
	}
}

// declared gives the words of a type, as the package of events declares them, so
// that one that is added there and not said here is found.
func declared(t *testing.T, typ string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../events/event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || fmt.Sprint(spec.Type) != typ {
			return true
		}
		for _, v := range spec.Values {
			if word, err := strconv.Unquote(v.(*ast.BasicLit).Value); err == nil {
				out = append(out, word)
			}
		}
		return true
	})
	return out
}

// Every word that an event can hold is said by a row of its own.
func TestEveryDeclaredWordIsSaid(t *testing.T) {
	unknown := words.Notice("a_word_of_tomorrow")
	for _, kind := range declared(t, "NoticeKind") {
		if words.Notice(events.NoticeKind(kind)) == unknown {
			t.Errorf("notice %s is not said", kind)
		}
	}
	for _, s := range declared(t, "Situation") {
		if !slices.Contains(situations(), events.Situation(s)) {
			t.Errorf("situation %s is not among those that these tests say", s)
		}
		if p := words.Situation(events.Situation(s)); s != string(events.SituationUnknown) && p == words.Situation("a_word_of_tomorrow") {
			t.Errorf("situation %s is not said", s)
		}
	}
	for _, m := range declared(t, "Money") {
		if !slices.Contains(monies(), events.Money(m)) {
			t.Errorf("money %s is not among those that these tests say", m)
		}
		if p := words.Money(events.Money(m)); m != string(events.MoneyUnknown) && p == words.Money("a_word_of_tomorrow") {
			t.Errorf("money %s is not said", m)
		}
	}
	deadlines := reflect.TypeFor[events.Deadlines]()
	for i := range deadlines.NumField() {
		name, _, _ := strings.Cut(deadlines.Field(i).Tag.Get("json"), ",")
		if words.Deadline(name) == words.Deadline("tomorrow") {
			t.Errorf("deadline %s is not said", name)
		}
	}
	if n, s, m := len(declared(t, "NoticeKind")), len(declared(t, "Situation")), len(declared(t, "Money")); n < 13 || s < 10 || m < 6 || deadlines.NumField() < 5 {
		t.Errorf("%d notices, %d situations, %d words for money: they were not found", n, s, m)
	}
}

func situations() []events.Situation {
	return []events.Situation{
		events.SituationNeedsDetails, events.SituationNeedsAnswer, events.SituationWaitingForUser, events.SituationWorking,
		events.SituationReady, events.SituationConfirming, events.SituationDone, events.SituationStopped,
		events.SituationNeedsSupport, events.SituationUnknown, "a_word_of_tomorrow",
	}
}

func monies() []events.Money {
	return []events.Money{
		events.MoneyNotCharged, events.MoneySetAside, events.MoneyCharged, events.MoneyRefunding, events.MoneyRefunded,
		events.MoneyUnknown, "a_word_of_tomorrow",
	}
}

func TestEveryPublishedWordIsSaid(t *testing.T) {
	published := enums(t)
	if len(published["reason_code"]) < 42 || len(published["rail_reason"]) < 17 || len(published["user_task"])+len(published["task"]) < 9 {
		t.Fatalf("the published words are not there: %v", published)
	}
	said := map[string]string{}
	for _, code := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(published["reason_code"], published["rail_reason"])))) {
		text := words.Reason(code)
		if text == "" || !strings.HasSuffix(text, ".") {
			t.Errorf("reason %s is said as %q", code, text)
		}
		if other := said[text]; other != "" {
			t.Errorf("%s and %s are said alike", code, other)
		}
		said[text] = code
	}
	for _, task := range slices.Concat(published["user_task"], published["task"]) {
		for _, rail := range published["rail"] {
			if words.Task(task, rail) == "" {
				t.Errorf("task %s on %s is not said", task, rail)
			}
		}
	}
	titles := map[string]bool{}
	for _, s := range situations()[:10] {
		p := words.Situation(s)
		if p.Title == "" || !strings.HasSuffix(p.Sentence, ".") || p.Tone == "" || titles[p.Title] {
			t.Errorf("situation %s is said as %+v", s, p)
		}
		titles[p.Title] = true
		settled := s == events.SituationDone || s == events.SituationStopped
		if next := words.Next(s); (next == "") != settled {
			t.Errorf("what comes after %s is said as %q", s, next)
		}
	}
	for _, m := range monies()[:6] {
		p := words.Money(m)
		if p.Title == "" || !strings.HasSuffix(p.Sentence, ".") || titles[p.Title] {
			t.Errorf("money %s is said as %+v", m, p)
		}
		titles[p.Title] = true
	}
	for word, want := range map[string]string{"user": "the user", "agent": "the agent", "envoy": "Envoy", "nobody": "", "tomorrow": "tomorrow"} {
		if got := words.Actor(word); got != want {
			t.Errorf("Actor(%s) = %q", word, got)
		}
	}
	if words.Reason("NEVER_HEARD_OF") != "" || words.Task("never", "") != "" {
		t.Error("an unknown word is said as if it were known")
	}
}

func notification(p *events.Purchase) words.Occasion {
	return words.Occasion{Kind: words.KindEvent, Event: events.Event{
		ID: "pur_1-0-1-0", Source: "/connections/a", Type: events.TypeChanged, Subject: "pur_1", Purchase: p,
	}}
}

// Nothing is claimed about money that the money word does not say, and wherever
// money may have moved unseen the warning is there.
func TestNothingIsClaimedThatIsNotKnown(t *testing.T) {
	claims := map[string]events.Money{
		"The user was charged":   events.MoneyCharged,
		"Nothing was charged":    events.MoneyNotCharged,
		"is set aside":           events.MoneySetAside,
		"The money was returned": events.MoneyRefunded,
		"on its way back and":    events.MoneyRefunding,
	}
	statuses := []string{"not_started", "unknown", "debited", "refund_pending", "refunded", "merchant_collects"}
	for _, s := range situations() {
		for _, m := range monies() {
			for _, status := range statuses {
				p := &events.Purchase{Situation: s, Money: m, MoneyStatus: events.MoneyStatus{Status: status}}
				text := words.Of(notification(p), nil).Text()
				for claim, only := range claims {
					if strings.Contains(text, claim) && m != only {
						t.Errorf("%s, %s, %s claims %q", s, m, status, claim)
					}
				}
				warned := strings.Contains(text, "Nobody should pay again or start a new purchase for it.")
				open := words.Money(m).Title == "not known" || slices.Contains([]events.Situation{events.SituationConfirming, events.SituationNeedsSupport, events.SituationUnknown, "a_word_of_tomorrow"}, s)
				if warned != open {
					t.Errorf("%s, %s: warned %v, want %v: %s", s, m, warned, open, text)
				}
				if strings.Contains(strings.ReplaceAll(strings.ToLower(text), "nobody should pay again", ""), "pay again") {
					t.Errorf("%s, %s advises to pay again: %s", s, m, text)
				}
				if s == events.SituationConfirming && !strings.Contains(text, "not confirmed yet") {
					t.Errorf("confirming does not say so: %s", text)
				}
				if s == events.SituationDone && m == events.MoneyNotCharged && strings.Contains(text, "charged") {
					t.Errorf("a charge is spoken of: %s", text)
				}
			}
		}
	}
}

func TestSentencesOfSpecialCases(t *testing.T) {
	for name, test := range map[string]struct {
		p        events.Purchase
		has, not string
	}{
		"stop told":     {events.Purchase{Situation: events.SituationNeedsSupport, SituationBasis: events.BasisVerifyingStop, Money: events.MoneyUnknown}, "Envoy told the agent to stop checking", "cannot confirm what"},
		"not proven":    {events.Purchase{Situation: events.SituationNeedsSupport, SituationBasis: events.BasisMoneyNotProven, Money: events.MoneyUnknown}, "ended; Herald cannot see whether money is still set aside", "was charged"},
		"on delivery":   {events.Purchase{Situation: events.SituationDone, Money: events.MoneyNotCharged, MoneyStatus: events.MoneyStatus{Status: "merchant_collects"}}, "to be paid on delivery", "charged"},
		"gift card":     {events.Purchase{Situation: events.SituationDone, Money: events.MoneyNotCharged, MoneyStatus: events.MoneyStatus{Status: "not_started"}}, "complete", "charged"},
		"superseded":    {events.Purchase{Situation: events.SituationWorking, State: events.StateSuperseded, Money: events.MoneyNotCharged}, "Another purchase replaced this one", "is working"},
		"reported paid": {events.Purchase{Situation: events.SituationConfirming, AgentReport: "paid", Money: events.MoneySetAside}, "agent reported the payment as made", "Reason"},
		"reported code": {events.Purchase{Situation: events.SituationConfirming, AgentReport: "failed", ReasonCode: "ORDER_CARD_DECLINED", Money: events.MoneySetAside}, "Reason reported by the agent: The card was declined.", ""},
		"new reason":    {events.Purchase{Situation: events.SituationStopped, ReasonCode: "ORDER_ALIENS", Money: events.MoneyNotCharged}, "Reason given: ORDER_ALIENS.", ""},
		"pay link":      {events.Purchase{Situation: events.SituationWaitingForUser, UserTask: "pay_link", Money: events.MoneyNotCharged}, "payment link", "waits for the user"},
		"contradiction": {events.Purchase{Situation: events.SituationDone, Inconsistent: true, Money: events.MoneyUnknown}, "contradicted itself", ""},
	} {
		text := strings.Join(words.Of(notification(&test.p), nil).Lines, "\n")
		if !strings.Contains(text, test.has) || test.not != "" && strings.Contains(text, test.not) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestKindsAreTold(t *testing.T) {
	e := events.Samples()[3]
	for kind, prefix := range map[words.Kind]string{
		words.KindEvent: "", words.KindOpen: "", words.KindUpdate: "Changed: ", words.KindRemind: "Still open: ",
		words.KindResolve: "Alarm over: ", words.KindTest: "Test: ",
	} {
		m := words.Of(words.Occasion{Kind: kind, Event: e}, nil)
		if !strings.HasPrefix(m.Subject, prefix+"Not confirmed yet: ") {
			t.Errorf("%s is told as %q", kind, m.Subject)
		}
	}
	m := words.Of(words.Occasion{Event: e, Replay: true, Held: 3, Subscription: "s"}, nil)
	if !strings.HasPrefix(m.Subject, "Replayed: ") || !slices.Contains(m.Lines, "3 earlier changes were held back; this is the newest.") {
		t.Errorf("a replay is told as %q, %v", m.Subject, m.Lines)
	}
	if m := words.Of(words.Occasion{Event: e, Held: 1}, nil); !slices.Contains(m.Lines, "One earlier change was held back; this is the newest.") {
		t.Errorf("one held back is told as %v", m.Lines)
	}
	begun := e.Purchase.SituationSince
	for kind, line := range map[words.Kind]string{
		words.KindEvent: "It has stood like this for 24 minutes.", words.KindRemind: "This alarm has been open for 1 hour and 24 minutes.",
		words.KindResolve: "The alarm was open for 1 hour and 24 minutes.",
	} {
		m := words.Of(words.Occasion{Kind: kind, Event: e, Since: begun.Add(-time.Hour), Now: begun.Add(24 * time.Minute)}, nil)
		if !slices.Contains(m.Lines, line) {
			t.Errorf("%s does not say %q: %v", kind, line, m.Lines)
		}
	}
}

func TestEveryNoticeIsTold(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range []events.NoticeKind{
		events.NoticeParked, events.NoticeResumed, events.NoticeNotFound, events.NoticeBlind, events.NoticeSeeing, events.NoticeReadyReply,
		events.NoticeReset, events.NoticeGaveUp, events.NoticeBadInput, events.NoticeForeign, events.NoticeSinkPaused,
		events.NoticeSinkResumed, events.NoticeAgedOut,
	} {
		e := events.Event{Source: "/connections/a", Type: events.TypeNotice, Notice: &events.Notice{Connection: "a", Kind: kind, Text: "what to do"}}
		m := words.Of(words.Occasion{Event: e}, nil)
		if seen[m.Title] || m.Title == "Notice" || len(m.Lines) == 0 || m.Quotes[0].Text != "what to do" {
			t.Errorf("%s is told as %+v", kind, m)
		}
		seen[m.Title] = true
	}
	if m := words.Of(words.Occasion{Event: events.Event{Notice: &events.Notice{Kind: "tomorrow"}}}, nil); m.Title != "Notice" {
		t.Errorf("an unknown notice is told as %q", m.Title)
	}
	if m := words.Of(words.Occasion{}, nil); m.Title == "" {
		t.Error("an empty notification has no title")
	}
}

func TestAmounts(t *testing.T) {
	for _, test := range []struct {
		a    events.Amount
		want string
	}{
		{events.Amount{Minor: 249900, Currency: "INR", Display: "₹2,499.00"}, "₹2,499.00"},
		{events.Amount{Minor: 9007199254740993, Currency: "INR"}, "INR 90071992547409.93"},
		{events.Amount{Minor: 5, Currency: "INR"}, "INR 0.05"},
		{events.Amount{Minor: 0, Currency: "INR"}, "INR 0.00"},
		{events.Amount{Minor: -150, Currency: "INR"}, "INR -1.50"},
		{events.Amount{Minor: -9223372036854775808, Currency: "INR"}, "INR -92233720368547758.08"},
		{events.Amount{}, ""},
	} {
		if got := words.Amount(test.a); got != test.want {
			t.Errorf("Amount(%+v) = %q, want %q", test.a, got, test.want)
		}
	}
}

func TestMomentsFollowTheZone(t *testing.T) {
	zone := time.FixedZone("IST", 19800)
	e := events.Samples()[3]
	for _, f := range words.Of(words.Occasion{Event: e}, zone).Facts {
		if !f.At.IsZero() && f.Value != f.At.In(zone).Format("2 Jan 2006, 15:04")+" IST" {
			t.Errorf("%s is %q", f.Name, f.Value)
		}
	}
}

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "less than a minute", 59 * time.Second: "less than a minute", time.Minute: "1 minute", 61 * time.Minute: "1 hour and 1 minute",
		2 * time.Hour: "2 hours", 24 * time.Hour: "1 day", 50 * time.Hour: "2 days and 2 hours", 1<<63 - 1: "106751 days and 23 hours",
	} {
		if got := words.Age(d); got != want {
			t.Errorf("Age(%v) = %q, want %q", d, got, want)
		}
	}
	e := events.Samples()[3]
	by := *e.Purchase.Deadlines.NextBy
	for now, want := range map[time.Time]string{by.Add(-time.Hour): "due (in 1 hour)", by.Add(10 * time.Minute): "was due (10 minutes ago)"} {
		found := false
		for _, f := range words.Of(words.Occasion{Event: e, Now: now}, nil).Facts {
			name, age, _ := strings.Cut(want, "(")
			found = found || f.Name == "Next step "+strings.TrimSpace(name) && strings.HasSuffix(f.Value, "("+age)
		}
		if !found {
			t.Errorf("the deadline does not say %q", want)
		}
	}
}

// Operators are told what support asks for; where there is none, nothing speaks of it.
func TestSupportReference(t *testing.T) {
	p := &events.Purchase{Situation: events.SituationNeedsSupport, Money: events.MoneyUnknown, Unsettled: true}
	if m := words.Of(notification(p), nil); strings.Contains(m.Text(), "reference") || len(m.Minor()) != 0 {
		t.Errorf("a reference is spoken of: %s", m.Text())
	}
	p.Support = events.Support{Ref: "EV-72Z0SF"}
	m := words.Of(notification(p), nil)
	if !strings.Contains(m.Next, "give the reference below") || len(m.Minor()) != 1 || m.Minor()[0].Value != "EV-72Z0SF" || m.Reference() != "Support reference EV-72Z0SF" {
		t.Errorf("the reference is missing: %s %v", m.Next, m.Minor())
	}
}

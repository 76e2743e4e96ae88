package events

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostile is a snapshot with a canary in every text.
func hostile() (Snapshot, Facts) {
	s, f := sampleVerifying("a")
	s.StatusText = "Paid with 4111 1111 1111 1111, see https://canary.example.test/pay?sig=CANARY"
	s.Merchant = Merchant{Name: "Acme\r\nBcc: x \u202eeroc 5555-5555-5555-4444", URL: "https://user:CANARY@shop.example.test/CANARYPATH?sig=CANARY#CANARY"}
	s.Description = "CANARYPERSONAL"
	s.Question = &Question{ID: "question-1", Kind: "otp", Prompt: "CANARYPERSONAL"}
	s.Receipt = &Receipt{Paid: s.Amount, CardLast4: "9753", MerchantOrderRef: "CANARYPERSONAL"}
	s.Money.MerchantOrderRef = "CANARYPERSONAL"
	s.Amount.Display = "₹2,499.00 OTP 482913"
	s.Agent.DisplayName = "Host www.canary.example.test"
	s.DetailsMissing = []string{"address", "pin 482913"}
	f.UserActionText = "Enter code 482913 at canary.example.test/otp"
	return s, f
}

func TestNewStripsWhatItMayNotSay(t *testing.T) {
	s, f := hostile()
	for _, personal := range []bool{false, true} {
		e := New(s, f, Judge(s, f), Position{0, 4, 0}, CauseRevision, nil, Cursor{}, Options{Personal: personal})
		b, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"4111", "5555", "482913", "canary", "sig=", "user:", "\u202e", "\\r", "\\n", "CANARY@", "#"} {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("personal %v: %q in %s", personal, secret, b)
			}
		}
		for _, known := range []string{"CANARYPERSONAL", "CANARYPATH", "9753"} {
			if bytes.Contains(b, []byte(known)) != personal {
				t.Errorf("personal %v: %q in %s", personal, known, b)
			}
		}
		if e.Purchase.Masked < 5 {
			t.Errorf("masked %d", e.Purchase.Masked)
		}
		for _, name := range []string{"Acme", "shop.example.test", "address", "₹2,499.00"} {
			if !bytes.Contains(b, []byte(name)) {
				t.Errorf("%q is missing in %s", name, b)
			}
		}
	}
}

func TestNewEnvelope(t *testing.T) {
	s, f := sampleVerifying("b")
	f.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	e := New(s, f, Judge(s, f), Position{1, 4, 2}, CauseRevision, nil, Cursor{}, Options{})
	if e.ID != s.PurchaseID+"-1-4-2" || e.Source != "/connections/sample-host" || e.Type != TypeChanged ||
		e.Subject != s.PurchaseID || !e.Time.Equal(s.UpdatedAt) || e.TraceParent != f.TraceParent {
		t.Errorf("%+v", e)
	}
	s.UpdatedAt = time.Time{}
	f.TraceParent = "no trace"
	if e = New(s, f, Judge(s, f), Position{}, CauseRevision, nil, Cursor{}, Options{}); !e.Time.Equal(f.ServerTime) || e.TraceParent != "" {
		t.Errorf("time %s, trace %q", e.Time, e.TraceParent)
	}
	if e.Purchase.ChainRoot != s.PurchaseID {
		t.Errorf("chain root %s", e.Purchase.ChainRoot)
	}
	f.ChainRoot = purchaseB
	if e = New(s, f, Judge(s, f), Position{}, CauseRevision, nil, Cursor{ChainRoot: purchaseA}, Options{}); e.Purchase.ChainRoot != purchaseB {
		t.Errorf("chain root %s", e.Purchase.ChainRoot)
	}
}

func TestNewSince(t *testing.T) {
	s, f := sampleVerifying("c")
	prev := sampleEvent(s, f, nil)
	c := Cursor{}.Advanced(prev, 1, at(7), true)
	next := func(change func(*Snapshot, *Facts)) time.Time {
		n, g := s, f
		change(&n, &g)
		j := Judge(n, g)
		_, p, cause := Follow(c, true, ReadingOf(n, j))
		return New(n, g, j, p, cause, &prev, c, Options{}).Purchase.SituationSince
	}
	for name, w := range map[string]struct {
		change func(*Snapshot, *Facts)
		want   time.Time
	}{
		"same situation":          {func(s *Snapshot, _ *Facts) { s.Revision, s.UpdatedAt = 5, at(50) }, at(6)},
		"other situation":         {func(s *Snapshot, _ *Facts) { s.Revision, s.UpdatedAt, s.State = 5, at(50), StateReady }, at(50)},
		"same money, other entry": {func(_ *Snapshot, f *Facts) { f.Held.Entry = nil }, at(6)},
		"stop without a revision": {func(_ *Snapshot, f *Facts) { f.Stopped, f.ServerTime = true, at(40) }, at(40)},
		"no time of change": {func(s *Snapshot, f *Facts) {
			s.Revision, s.State, s.UpdatedAt, f.ServerTime = 5, StateReady, time.Time{}, at(41)
		}, at(41)},
	} {
		if got := next(w.change); !got.Equal(w.want) {
			t.Errorf("%s: since %s, want %s", name, got, w.want)
		}
	}
}

func TestNewPreviousAndChanged(t *testing.T) {
	s, f := sampleVerifying("d")
	prev := sampleEvent(s, f, nil)
	if prev.Purchase.Previous != nil || prev.Purchase.Reading.Changed == nil || len(prev.Purchase.Reading.Changed) != 0 {
		t.Fatalf("first event: %+v", prev.Purchase.Reading)
	}
	c := Cursor{}.Advanced(prev, 1, at(7), true)
	stored, err := Decode(encoded(t, prev))
	if err != nil {
		t.Fatal(err)
	}
	s.Revision, s.StatusText, s.UpdatedAt = 9, "Another sentence", at(8)
	f.Support.RequestID = "req_other"
	later := f.NextBy.In(time.FixedZone("IST", 19800)) // the same moment
	f.NextBy = &later
	j := Judge(s, f)
	_, p, cause := Follow(c, true, ReadingOf(s, j))
	e := New(s, f, j, p, cause, &stored, c, Options{Personal: true})
	if !slices.Equal(e.Purchase.Reading.Changed, []string{"say"}) {
		t.Errorf("changed %v", e.Purchase.Reading.Changed)
	}
	want := Previous{ID: prev.ID, Revision: 4, State: StateVerifying, Situation: SituationConfirming}
	if *e.Purchase.Previous != want {
		t.Errorf("previous %+v", e.Purchase.Previous)
	}
	blind := New(s, f, j, p, cause, nil, c, Options{})
	if *blind.Purchase.Previous != want {
		t.Errorf("previous by the cursor %+v", blind.Purchase.Previous)
	}
	if len(blind.Purchase.Reading.Changed) != 0 {
		t.Errorf("changed without an event before: %v", blind.Purchase.Reading.Changed)
	}
}

// TestNewSharesNothing: later changes of the snapshot do not reach the event.
func TestNewSharesNothing(t *testing.T) {
	s, f := hostile()
	s.Funding = &Funding{Amount: s.Amount, ExpiresAt: f.NextBy}
	e := New(s, f, Judge(s, f), Position{}, CauseRevision, nil, Cursor{}, Options{Personal: true})
	before := string(encoded(t, e))
	*s.PaymentReady.Closed, s.Question.Prompt, s.Receipt.Paid.Minor = false, "changed", 1
	s.Funding.Amount.Minor, s.DetailsMissing[0], f.Held.Entry.State = 1, "changed", "changed"
	*f.NextBy = at(99)
	if now := string(encoded(t, e)); now != before {
		t.Errorf("was %s\nis  %s", before, now)
	}
}

func TestNewKeepsWordsOfTomorrow(t *testing.T) {
	s, f := sampleVerifying("e")
	s.State, s.Rail, s.ReasonCode, s.UserTask = "state_of_tomorrow", "rail_2", "not a word!", "4111111111111111"
	p := New(s, f, Judge(s, f), Position{}, CauseRevision, nil, Cursor{}, Options{}).Purchase
	if p.State != "state_of_tomorrow" || p.Rail != "rail_2" || p.ReasonCode != "" || p.UserTask != "" || p.Masked != 2 {
		t.Errorf("%+v", p)
	}
}

func TestNewSay(t *testing.T) {
	s, f := sampleVerifying("f")
	f.UserActionText = ""
	if got := New(s, f, Judge(s, f), Position{}, CauseRevision, nil, Cursor{}, Options{}).Purchase.Say; got != s.StatusText {
		t.Errorf("said %q", got)
	}
	f.UserActionText = "Approve it in the app."
	if got := New(s, f, Judge(s, f), Position{}, CauseRevision, nil, Cursor{}, Options{}).Purchase.Say; got != f.UserActionText {
		t.Errorf("said %q", got)
	}
}

func TestNewMerchantURL(t *testing.T) {
	for in, want := range map[string][2]string{
		"https://shop.example.test":                    {"https://shop.example.test", "https://shop.example.test"},
		"https://shop.example.test/a/b?c=d#e":          {"https://shop.example.test", "https://shop.example.test/a/b"},
		"https://u:p@shop.example.test:8443/a":         {"https://shop.example.test:8443", "https://shop.example.test:8443/a"},
		"https://shop.example.test/4111111111111111/x": {"https://shop.example.test", "https://shop.example.test"},
		"https://sh\u202eop.example.test/":             {"", ""},
		"javascript:alert(1)":                          {"", ""},
		"not an address":                               {"", ""},
		"":                                             {"", ""},
	} {
		for i, personal := range []bool{false, true} {
			cl := cleaner{personal: personal}
			if got := cl.link(in); got != want[i] {
				t.Errorf("%q, personal %v: %q", in, personal, got)
			}
		}
	}
}

func TestNewNotice(t *testing.T) {
	n := NewNotice("host-1", NoticeParked, at(1), Notice{
		Text: "Token refused\r\nsee https://canary.example.test/x", Code: "UNAUTHENTICATED", PurchaseID: "a.b",
		Sink: "no such.name", Fields: []string{"items[0].name", "a b"}, Support: Support{RequestID: "req_1"},
	})
	if n.ID != "host-1-parked-1790683260000" || n.Source != "/connections/host-1" || n.Subject != "" || n.Purchase != nil {
		t.Errorf("%+v", n)
	}
	got := *n.Notice
	if got.Connection != "host-1" || got.Kind != NoticeParked || got.PurchaseID != "" || got.Sink != "" ||
		!slices.Equal(got.Fields, []string{"items[0].name"}) || strings.Contains(got.Text, "canary") || strings.ContainsAny(got.Text, "\r\n") {
		t.Errorf("%+v", got)
	}
	a := NewNotice("host-1", NoticeNotFound, at(1), Notice{PurchaseID: purchaseA})
	b := NewNotice("host-1", NoticeNotFound, at(1), Notice{PurchaseID: purchaseB})
	if a.ID == b.ID || !ValidEventID(a.ID) {
		t.Errorf("two notices of one moment: %s, %s", a.ID, b.ID)
	}
}

func TestForSink(t *testing.T) {
	s, f := hostile()
	e := New(s, f, Judge(s, f), Position{}, CauseRevision, nil, Cursor{}, Options{Personal: true})
	whole := string(encoded(t, e))
	find := map[string]func(*Purchase) string{
		PersonalDescription: func(p *Purchase) string { return p.Description },
		PersonalPrompt:      func(p *Purchase) string { return p.Question.Prompt },
		PersonalLast4:       func(p *Purchase) string { return p.Receipt.CardLast4 },
		PersonalOrderRef:    func(p *Purchase) string { return p.MoneyStatus.MerchantOrderRef + p.Receipt.MerchantOrderRef },
		PersonalMerchantURL: func(p *Purchase) string { return strings.TrimPrefix(p.Merchant.URL, "https://shop.example.test") },
	}
	if len(find) != len(PersonalFields()) {
		t.Fatalf("personal fields %v", PersonalFields())
	}
	for _, allowed := range PersonalFields() {
		p := ForSink(e, []string{allowed}).Purchase
		for name, get := range find {
			if got := get(p); (got != "") != (name == allowed) {
				t.Errorf("allowed %s: %s is %q", allowed, name, got)
			}
		}
	}
	if got := string(encoded(t, ForSink(e, PersonalFields()))); got != whole {
		t.Errorf("all allowed: %s", got)
	}
	if got := string(encoded(t, e)); got != whole {
		t.Error("the event itself was changed")
	}
	if bare := ForSink(e, nil); bare.Purchase == e.Purchase || ForSink(bare, nil).Purchase != bare.Purchase {
		t.Error("another purchase shows that something went, the same one that nothing did")
	}
	n := sampleNotice()
	if !reflect.DeepEqual(ForSink(n, nil), n) {
		t.Error("a notice has nothing personal")
	}
}

func encoded(tb testing.TB, e Event) []byte {
	tb.Helper()
	b, err := Encode(e)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestB22_LargeIntegersPassDigitForDigit(t *testing.T) {
	s, f := sampleVerifying("a")
	s.Amount = Amount{Minor: 9007199254740993, Currency: "INR", Display: "₹90,07,19,92,54,74,09.93"}
	s.Money.Paid = &Amount{Minor: 10002318, Currency: "INR", Display: "₹1,00,023.18"}
	b := encoded(t, New(s, f, Judge(s, f), Position{0, 4, 0}, CauseRevision, nil, Cursor{}, Options{}))
	for _, want := range []string{`"minor":9007199254740993`, `"minor":10002318`, "₹90,07,19,92,54,74,09.93"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s is missing in %s", want, b)
		}
	}
	e, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	again := encoded(t, e)
	if !bytes.Equal(again, b) || bytes.Contains(again, []byte("e+")) || bytes.Contains(again, []byte("9007199254740992")) {
		t.Errorf("decoded and written again: %s", again)
	}
}

func TestB23_ZeroNullAndMissingStayApart(t *testing.T) {
	no, yes := false, true
	data := func(change func(*Snapshot)) map[string]json.RawMessage {
		s, f := sampleVerifying("a")
		s.PaymentReady.Closed = nil
		change(&s)
		var d struct{ Data map[string]json.RawMessage }
		if err := json.Unmarshal(encoded(t, New(s, f, Judge(s, f), Position{}, CauseRevision, nil, Cursor{}, Options{})), &d); err != nil {
			t.Fatal(err)
		}
		return d.Data
	}
	for name, w := range map[string]struct {
		change func(*Snapshot)
		member string
		want   string
	}{
		"paid nothing":     {func(s *Snapshot) { s.Money.Paid = &Amount{Currency: "INR", Display: "₹0.00"} }, "money_status", `"paid":{"minor":0,"currency":"INR","display":"₹0.00"}`},
		"paid null":        {func(*Snapshot) {}, "money_status", `"paid":null`},
		"amount zero":      {func(s *Snapshot) { s.Amount.Minor = 0 }, "amount", `"minor":0`},
		"closed false":     {func(s *Snapshot) { s.PaymentReady.Closed = &no }, "spending_closed", "false"},
		"closed true":      {func(s *Snapshot) { s.PaymentReady.Closed = &yes }, "spending_closed", "true"},
		"not available":    {func(*Snapshot) {}, "payment_ready", `"available":false`},
		"funding zero":     {func(s *Snapshot) { s.Funding = &Funding{} }, "funding", `"minor":0`},
		"revision zero":    {func(*Snapshot) {}, "reading", `"revision":0`},
		"held amount zero": {func(*Snapshot) {}, "held", `"exact":true`},
	} {
		if got := string(data(w.change)[w.member]); !strings.Contains(got, w.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	missing := data(func(*Snapshot) {})
	for _, member := range []string{"spending_closed", "funding", "receipt", "question"} {
		if got, ok := missing[member]; ok {
			t.Errorf("%s is there: %s", member, got)
		}
	}
	if got := string(missing["payment_ready"]); strings.Contains(got, "closed") {
		t.Errorf("closed is not absent: %s", got)
	}
}

// TestRoundTrip: what is decoded is what was encoded, for any event.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEvent(rt, Options{Personal: rapid.Bool().Draw(rt, "personal")})
		b, err := Encode(e)
		if err != nil {
			rt.Fatal(err)
		}
		d, err := Decode(b)
		if err != nil {
			rt.Fatalf("%v: %s", err, b)
		}
		again, err := Encode(d)
		if err != nil || !bytes.Equal(b, again) {
			rt.Fatalf("%v\n%s\n%s", err, b, again)
		}
		var e2 Event
		marshalled, err := json.Marshal(e)
		if err != nil {
			rt.Fatal(err)
		}
		if err := json.Unmarshal(marshalled, &e2); err != nil {
			rt.Fatal(err)
		}
		if again, _ = Encode(e2); !bytes.Equal(b, again) {
			rt.Fatalf("by json.Marshal\n%s\n%s", b, again)
		}
	})
}

func TestEncodeRefusesWhatDoesNotGoTogether(t *testing.T) {
	e, n := sampleDone(), sampleNotice()
	for name, bad := range map[string]Event{
		"nothing":          {},
		"no data":          {Type: TypeChanged, ID: "x"},
		"notice data":      {Type: TypeChanged, ID: "x", Notice: n.Notice},
		"purchase data":    {Type: TypeNotice, ID: "x", Purchase: e.Purchase},
		"both":             {Type: TypeNotice, ID: "x", Purchase: e.Purchase, Notice: n.Notice},
		"type of tomorrow": {Type: "money.envoy.purchase.changed.v2", ID: "x", Purchase: e.Purchase},
	} {
		if b, err := Encode(bad); !errors.Is(err, ErrBadEvent) {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
}

func TestDecodeIsStrictAboutTheEnvelope(t *testing.T) {
	good := string(encoded(t, sampleDone()))
	if _, err := Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string][2]string{
		"specversion":     {`"specversion":"1.0"`, `"specversion":"0.3"`},
		"no specversion":  {`"specversion":"1.0",`, ``},
		"id with a dot":   {`"id":"pur_`, `"id":"pur.`},
		"no id":           {`"id":"pur_6b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c-0-6-0"`, `"id":""`},
		"source":          {`"source":"/connections/sample-host"`, `"source":"/other/sample-host"`},
		"connection":      {`"source":"/connections/sample-host"`, `"source":"/connections/a.b"`},
		"type":            {`changed.v1"`, `changed.v2"`},
		"subject":         {`"subject":"pur_6b`, `"subject":"pur_6B`},
		"content type":    {`"datacontenttype":"application/json"`, `"datacontenttype":"text/plain"`},
		"time":            {`"time":"2026-09-29T12:09:00Z"`, `"time":"yesterday"`},
		"data null":       {`"data":{"connection"`, `"data":null,"x":{"connection"`},
		"data no object":  {`"data":{"connection"`, `"data":[],"x":{"connection"`},
		"no data":         {`"data":{"connection"`, `"x":{"connection"`},
		"revision text":   {`"revision":6`, `"revision":"6"`},
		"trailing":        {`"updated_at":"2026-09-29T12:09:00Z"}}`, `"updated_at":"2026-09-29T12:09:00Z"}} {}`},
		"minor fraction":  {`"minor":249900`, `"minor":2499.5`},
		"minor too large": {`"minor":249900`, `"minor":99999999999999999999`},
	} {
		bad := strings.Replace(good, w[0], w[1], 1)
		if bad == good {
			t.Fatalf("%s: nothing replaced in %s", name, good)
		}
		if e, err := Decode([]byte(bad)); !errors.Is(err, ErrBadEvent) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	notice := strings.Replace(string(encoded(t, sampleNotice())), `"type"`, `"subject":"`+purchaseA+`","type"`, 1)
	if _, err := Decode([]byte(notice)); !errors.Is(err, ErrBadEvent) {
		t.Errorf("a notice with a subject: %v", err)
	}
	for _, bad := range []string{"", "null", "[]", "{}", "{", `"x"`, "\xff"} {
		if _, err := Decode([]byte(bad)); !errors.Is(err, ErrBadEvent) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestDecodePassesOverWhatItDoesNotKnow(t *testing.T) {
	good := string(encoded(t, sampleDone()))
	more := strings.Replace(good, `"data":{`, `"extension":"x","data":{"member_of_tomorrow":{"a":[1]},`, 1)
	e, err := Decode([]byte(more))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(encoded(t, e)); got != good {
		t.Errorf("%s\n%s", got, good)
	}
}

// TestDecodeFindsTheTypeAnywhere: the order of members says nothing.
func TestDecodeFindsTheTypeAnywhere(t *testing.T) {
	for _, e := range Samples() {
		good := string(encoded(t, e))
		word := `"type":"` + string(e.Type) + `",`
		last := strings.TrimSuffix(strings.Replace(good, word, "", 1), "}") + "," + strings.TrimSuffix(word, ",") + "}"
		d, err := Decode([]byte(last))
		if err != nil {
			t.Fatalf("%v: %s", err, last)
		}
		if got := string(encoded(t, d)); got != good {
			t.Errorf("%s\n%s", got, good)
		}
		twice := strings.TrimSuffix(good, "}") + "," + strings.TrimSuffix(word, ",") + "}"
		if _, err := Decode([]byte(twice)); !errors.Is(err, ErrBadEvent) {
			t.Errorf("a member that is there twice is no event: %v", err)
		}
	}
}

// TestReadGivesBackWhatHoldsNoMore: bytes that may be sent on hold nothing that
// was not judged.
func TestReadGivesBackWhatHoldsNoMore(t *testing.T) {
	for _, e := range Samples() {
		good := encoded(t, e)
		if _, d, err := Read(good); err != nil || !bytes.Equal(d.Bytes(), good) {
			t.Fatalf("%v: %s", err, d.Bytes())
		}
		for name, w := range map[string][2]string{
			"in the envelope": {`"specversion"`, `"tomorrow":1,"specversion"`},
			"in the data":     {`"data":{`, `"data":{"tomorrow":{"a":[1]},`},
			"in a part":       {`"support":{`, `"support":{"tomorrow":"x",`},
			"other letters":   {`"specversion"`, `"SpecVersion":"1.0","specversion"`},
			"a trace":         {`"specversion"`, `"traceparent":"tomorrow","specversion"`},
		} {
			more := strings.Replace(string(good), w[0], w[1], 1)
			if more == string(good) {
				continue // a notice has no such part
			}
			got, d, err := Read([]byte(more))
			if err != nil || d.Bytes() != nil || !bytes.Equal(encoded(t, got), good) {
				t.Errorf("%s: %v, given back %s", name, err, d.Bytes())
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, e := range Samples() {
		f.Add(encoded(f, e))
	}
	f.Add([]byte(`{"specversion":"1.0"}`))
	f.Add([]byte(`{"data":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrBadEvent) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		if (e.Purchase == nil) == (e.Notice == nil) {
			t.Fatalf("data of %+v", e)
		}
		if _, err := EventSubject(e); err != nil {
			t.Errorf("no subject: %v", err)
		}
		b, err := Encode(e)
		if err != nil {
			return // a time that cannot be written: refused, not guessed
		}
		again, err := Decode(b)
		if err != nil {
			t.Fatalf("written and not read: %v", err)
		}
		if b2, _ := Encode(again); !bytes.Equal(b, b2) {
			t.Errorf("%s\n%s", b, b2)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	raw := encoded(b, sampleConfirming())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	e := sampleConfirming()
	for b.Loop() {
		if _, err := Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	s, f := sampleVerifying("a")
	j := Judge(s, f)
	prev := sampleConfirming()
	for b.Loop() {
		New(s, f, j, Position{0, 4, 0}, CauseRevision, &prev, Cursor{}, Options{})
	}
}

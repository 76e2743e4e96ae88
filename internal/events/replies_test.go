package events

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// reply is as much of a published HTTP reply as this test projects, written
// down apart from the package that reads replies.
type reply struct {
	RequestID  string    `json:"request_id"`
	TraceID    string    `json:"trace_id"`
	ServerTime time.Time `json:"server_time"`
	Purchase   struct {
		PurchaseID string   `json:"purchase_id"`
		Revision   int64    `json:"revision"`
		Terminal   bool     `json:"terminal"`
		State      State    `json:"state"`
		StatusText string   `json:"status_text"`
		Rail       string   `json:"rail"`
		RailReason string   `json:"rail_reason"`
		CheckoutBy string   `json:"checkout_by"`
		Merchant   Merchant `json:"merchant"`
		Amount     Amount   `json:"amount"`
		Desc       string   `json:"description"`
		Money      struct {
			Status string  `json:"status"`
			Paid   *Amount `json:"paid"`
		} `json:"money"`
		Agent     Agent     `json:"agent"`
		CreatedAt time.Time `json:"created_at"`
		UpdatedAt time.Time `json:"updated_at"`
	} `json:"purchase"`
	Next struct {
		By *time.Time `json:"by"`
	} `json:"next"`
}

func (r reply) snapshot() Snapshot {
	p := r.Purchase
	return Snapshot{PurchaseID: p.PurchaseID, Revision: p.Revision, Terminal: p.Terminal, State: p.State, StatusText: p.StatusText,
		Rail: p.Rail, RailReason: p.RailReason, CheckoutBy: p.CheckoutBy, Merchant: p.Merchant, Amount: p.Amount, Description: p.Desc,
		Money: MoneyStatus{Status: p.Money.Status, Paid: p.Money.Paid}, Agent: p.Agent, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt}
}

func TestPublishedReplyOverHTTP(t *testing.T) {
	var r reply
	if err := json.Unmarshal([]byte(readFile(t, "testdata/replies/submit_answer.reply.json")), &r); err != nil {
		t.Fatal(err)
	}
	f := Facts{Source: SourceStatus, Connection: "host", ServerTime: r.ServerTime, NextBy: r.Next.By,
		Support: Support{RequestID: r.RequestID, TraceID: r.TraceID}}
	s := r.snapshot()
	j := Judge(s, f)
	_, p, cause := Follow(Cursor{}, false, ReadingOf(s, j))
	e := New(s, f, j, p, cause, nil, Cursor{}, Options{})
	b := encoded(t, e)
	if err := valid(compiled(t), b); err != nil {
		t.Error(err)
	}
	const want = `{"specversion":"1.0","id":"pur_5b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c-0-2-0","source":"/connections/host",` +
		`"type":"money.envoy.purchase.changed.v1","subject":"pur_5b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c","time":"2026-09-29T12:00:00Z",` +
		`"datacontenttype":"application/json","data":{"connection":"host","reading":{"revision":2,"epoch":0,"n":0,"cause":"revision","changed":[]},` +
		`"previous":null,"situation":"working","situation_since":"2026-09-29T12:00:00Z","situation_basis":"state","certain":true,` +
		`"money":"not_charged","money_basis":"not_started","money_status":{"status":"not_started","paid":null},"unsettled":false,"terminal":false,` +
		`"source_of_reading":"status","state":"processing","rail":"operated_checkout","rail_reason":"RAIL_AMOUNT_ABOVE_OTU_LIMIT","checkout_by":"envoy",` +
		`"merchant":{"name":"Example Store","url":"https://shop.example.test"},"amount":{"minor":249900,"currency":"INR","display":"₹2,499.00"},` +
		`"approval":{},"payment_ready":{"available":false},"chain":{},"chain_root":"pur_5b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c",` +
		`"agent":{"agent_id":"origin:https://host.example.test","display_name":"Synthetic Host","verification":"origin"},` +
		`"deadlines":{"next_by":"2026-09-29T12:02:00Z"},"say":"Envoy is placing this order on the merchant site.","waiting_on":"envoy",` +
		`"support":{"request_id":"req_synthetic","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"},` +
		`"created_at":"2026-09-29T12:00:00Z","updated_at":"2026-09-29T12:00:00Z"}}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestPublishedRepliesOverMCP(t *testing.T) {
	for file, want := range map[string]Reading{
		"mcp.confirming.json":       {Situation: SituationConfirming, Money: MoneyUnknown, Unsettled: true},
		"mcp.stopped.json":          {Situation: SituationStopped, Money: MoneyNotCharged, Terminal: true},
		"mcp.waiting_for_user.json": {Situation: SituationWaitingForUser, Money: MoneyNotCharged},
	} {
		var r struct {
			Situation  Situation `json:"situation"`
			Money      Money     `json:"money"`
			PurchaseID string    `json:"purchase_id"`
			SupportRef string    `json:"support_ref"`
		}
		if err := json.Unmarshal([]byte(readFile(t, "testdata/replies/"+file)), &r); err != nil {
			t.Fatal(err)
		}
		s := Snapshot{PurchaseID: r.PurchaseID}
		f := Facts{Source: SourceMCP, Connection: "host", GivenSituation: r.Situation, GivenMoney: r.Money,
			ServerTime: at(1), Support: Support{Ref: r.SupportRef}}
		j := Judge(s, f)
		if got := ReadingOf(s, j); got != want || j.Inconsistent || j.SituationBasis != BasisGiven {
			t.Errorf("%s: %+v, %+v", file, got, j)
		}
		b := encoded(t, New(s, f, j, Position{}, CauseRevision, nil, Cursor{}, Options{}))
		if err := valid(compiled(t), b); err != nil {
			t.Errorf("%s: %v\n%s", file, err, b)
		}
		if r.SupportRef != "" && !bytes.Contains(b, []byte(`"ref":"`+r.SupportRef+`"`)) {
			t.Errorf("%s: no support reference in %s", file, b)
		}
	}
}

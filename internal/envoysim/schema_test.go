package envoysim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checker holds the published output schemas.
type checker struct {
	t       *testing.T
	schemas map[string]*jsonschema.Schema
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	c := &checker{t: t, schemas: map[string]*jsonschema.Schema{}}
	for _, tool := range Tools() {
		sch, err := compileSchema(tool + ".output.json")
		if err != nil {
			t.Fatal(err)
		}
		c.schemas[tool] = sch
	}
	return c
}

func (c *checker) check(tool, request string, body []byte) {
	c.t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		c.t.Fatalf("%s %s: %v in %q", tool, request, err, body)
	}
	if err := c.schemas[tool].Validate(doc); err != nil {
		c.t.Fatalf("%s %s: %v\n%s", tool, request, err, body)
	}
}

// walker calls tools at random, some of them as an agent would and some not.
type walker struct {
	*world
	r      *rand.Rand
	tokens []string
	n      int
}

func (k *walker) ref() string {
	if k.r.IntN(20) == 0 || len(k.order) == 0 {
		return "pur_00000000000000000000000000000000"
	}
	p := k.order[len(k.order)-1-k.r.IntN(min(len(k.order), 12))]
	if k.r.IntN(5) == 0 {
		return p.now.Key
	}
	return p.now.ID
}

// request makes up a call. The world stands still meanwhile, so reading it without a lock is safe.
func (k *walker) request() (tool, body string) {
	k.n++
	in := map[string]any{}
	tools := append(Tools(), toolStatus, toolStatus, toolStatus, toolAccount, toolStart, toolReport, toolAnswer)
	tool = tools[k.r.IntN(len(tools))]
	switch tool {
	case toolAccount:
		if k.r.IntN(3) > 0 {
			in["include"] = []string{"limits", "profile", "addresses", "agent", "active_purchase", "held_purchases", "balance"}[:1+k.r.IntN(7)]
		}
	case toolTransactions:
		in["limit"] = 1 + k.r.IntN(5)
	case toolPurchases:
		in["limit"] = 1 + k.r.IntN(20)
	case toolStart:
		in = k.purchase()
	case toolStatus:
		if k.r.IntN(10) > 0 {
			in["purchase"] = k.ref()
		}
		if k.r.IntN(2) == 0 {
			in["after_revision"], in["wait_seconds"] = k.r.IntN(8), k.r.IntN(46)
		}
	case toolAnswer, toolSubmit:
		in["type"] = []string{"details", "answer", "feedback"}[k.r.IntN(3)]
		in["answer"], in["purchase"], in["idempotency_key"] = "Yes.", k.ref(), fmt.Sprintf("walk-answer-%06d", k.n)
	case toolReport:
		in["purchase"], in["outcome"] = k.ref(), "paid"
		if k.r.IntN(2) == 0 {
			in["outcome"], in["failure_reason"] = "failed", "card_not_accepted"
		}
	case toolStep:
		in["purchase"], in["step"] = k.ref(), "cart_built"
	case toolCancel:
		in["purchase"] = k.ref()
	case toolSearchProducts:
		in["query"] = fmt.Sprintf("thing %d", k.n)
	}
	if k.r.IntN(40) == 0 {
		in["surprise"] = 1
	}
	raw, err := json.Marshal(in)
	if err != nil {
		k.t.Fatal(err)
	}
	return tool, string(raw)
}

func (k *walker) purchase() map[string]any {
	if in := k.earlier(); in != nil && k.r.IntN(3) == 0 {
		if k.r.IntN(2) == 0 {
			in["total"] = "1.25"
		}
		return in
	}
	in := map[string]any{
		"idempotency_key": fmt.Sprintf("walk-intent-%06d", k.n), "merchant_url": "shop.example.test",
		"total": fmt.Sprintf("%d.50", k.r.IntN(700_000)), "items": []any{map[string]any{"name": "Thing"}}, "user_request": "a thing",
	}
	switch k.r.IntN(4) {
	case 0:
		in["rail"] = "gift_card"
	case 1:
		in["retry_of"] = k.ref()
	}
	return in
}

// earlier is the input of a start_purchase call that succeeded, to repeat or contradict.
func (k *walker) earlier() map[string]any {
	for _, p := range slices.Backward(k.order) {
		if p.request == "" {
			continue
		}
		var in map[string]any
		if err := json.Unmarshal([]byte(p.request), &in); err != nil {
			k.t.Fatal(err)
		}
		return in
	}
	return nil
}

func TestEveryReplyFitsItsSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quirks := DefaultQuirks()
		quirks.RefusedWithPurchase, quirks.AsksDetails = 0.05, 0.3 // rare states, often
		w := newWorld(t, Options{Seed: 7, Quirks: quirks, RequestsPerMinute: -1})
		k := &walker{world: w, r: rand.New(rand.NewPCG(7, 7)), tokens: []string{w.token}}
		for i := range 5 {
			token := w.AddToken(fmt.Sprintf("user %d", i), "origin:https://other.example.test")
			k.tokens = append(k.tokens, token)
			if err := w.AddAgent(Agent{Token: token, Every: 5 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		c := newChecker(t)
		states, codes, ready := map[any]int{}, map[string]int{}, 0
		for range 7_000 {
			for k.r.IntN(3) == 0 {
				w.Step()
			}
			tool, body := k.request()
			a := w.callAs(k.tokens[k.r.IntN(len(k.tokens))], tool, body)
			c.check(tool, body, a.body)
			states[a.at("purchase.state")]++
			codes[a.code()]++
			if a.at("data.payment_details") != nil {
				ready++
			}
			if a.status != 200 && ErrorCode(a.code()).HTTPStatus() != a.status {
				t.Fatalf("%s: status %d with code %s", tool, a.status, a.code())
			}
		}
		for _, st := range allStates() {
			if states[string(st)] == 0 {
				t.Errorf("the walk never saw %s", st)
			}
		}
		for _, code := range []ErrorCode{InvalidInput, NotFound, IdempotencyConflict, ActivePurchaseExists, StateConflict, NoRail, Unavailable} {
			if codes[string(code)] == 0 {
				t.Errorf("the walk never saw %s", code)
			}
		}
		if ready == 0 {
			t.Error("the walk never saw payment details")
		}
	})
}

func allStates() []State {
	return []State{NeedsDetails, NeedsAnswer, WaitingForUser, Processing, Ready, Verifying, Completed, Failed, Cancelled, Superseded}
}

func TestEveryStateOfEveryRailFitsItsSchema(t *testing.T) {
	c := newChecker(t)
	w := newWorld(t, Options{})
	for _, rail := range []Rail{"", OTUCard, OperatedCheckout, ElixirMarketplace, GiftCard} {
		for _, st := range allStates() {
			for _, task := range []UserTask{Approve, EnterOTP, AddMoney, PayLink} {
				id, err := w.Put("asha", Purchase{Rail: rail, State: st, UserTask: task, Amount: 100})
				if err != nil {
					t.Fatal(err)
				}
				a := w.callAs(w.AddToken("asha", "origin:https://host.example.test"), toolStatus, `{"purchase":"`+id+`"}`)
				c.check(toolStatus, string(rail)+" "+string(st), a.body)
				if (a.at("purchase.funding") != nil) != (st == WaitingForUser && task == PayLink) {
					t.Errorf("%s %s %s: funding is %v", rail, st, task, a.at("purchase.funding"))
				}
				if (a.at("purchase.question") != nil) != st.Asks() {
					t.Errorf("%s %s: question is %v", rail, st, a.at("purchase.question"))
				}
				if (a.at("data") != nil) != (st == Ready) {
					t.Errorf("%s %s: data is %v", rail, st, a.at("data"))
				}
			}
		}
	}
}

func TestEveryErrorCodeFitsItsSchema(t *testing.T) {
	c := newChecker(t)
	for _, code := range []ErrorCode{
		InvalidInput, Unauthenticated, NotAllowed, ServiceNotEnabled, NotFound, IdempotencyConflict, ActivePurchaseExists,
		StateConflict, NoRail, RateLimited, Unavailable, ClientUpdateRequired,
	} {
		w := newWorld(t, Options{RequestsPerMinute: -1})
		w.Inject(Fault{Kind: FaultError, Code: code})
		for _, tool := range Tools() {
			body := validBody(tool)
			a := w.call(tool, body)
			c.check(tool, body, a.body)
			if a.code() != string(code) || a.status != code.HTTPStatus() || a.status == 0 {
				t.Errorf("%s with %s answered %d %s", tool, code, a.status, a.code())
			}
		}
	}
}

func validBody(tool string) string {
	const ref = `"purchase":"pur_00000000000000000000000000000000"`
	switch tool {
	case toolStart:
		return buyBody
	case toolAnswer, toolSubmit:
		return `{"type":"answer","answer":"Yes.","idempotency_key":"test-answer-000001"}`
	case toolReport:
		return `{` + ref + `,"outcome":"paid"}`
	case toolStep:
		return `{` + ref + `,"step":"cart_built"}`
	case toolCancel:
		return `{` + ref + `}`
	case toolSearchProducts:
		return `{"query":"tea"}`
	default:
		return `{}`
	}
}

func TestPublishedExamples(t *testing.T) {
	c := newChecker(t)
	for _, tool := range []string{toolSearchProducts, toolSubmit} {
		request, reply := readExample(t, tool+".request.json"), readExample(t, tool+".reply.json")
		c.check(tool, "published", reply)
		w := newWorld(t, Options{})
		if _, err := w.Put("asha", Purchase{
			Key: "synthetic-intent-0001", State: NeedsAnswer, Rail: OperatedCheckout, Amount: 249_900, Description: "Headphones",
			Question: &Question{ID: "synthetic-question-0001", Kind: "text", Prompt: "Which model?"}, Revision: 1,
		}); err != nil {
			t.Fatal(err)
		}
		a := w.call(tool, string(request))
		c.check(tool, string(request), a.body)
		var want map[string]any
		if err := json.Unmarshal(reply, &want); err != nil {
			t.Fatal(err)
		}
		sameShape(t, tool, want, a.doc)
		for _, path := range []string{
			"ok", "tool", "replayed", "purchase.state", "purchase.status_text", "purchase.rail_reason", "purchase.checkout_by",
			"purchase.amount.display", "next.action", "next.tool",
		} {
			if got := a.at(path); got != dig(want, path) {
				t.Errorf("%s: %s is %v, the published reply has %v", tool, path, got, dig(want, path))
			}
		}
	}
}

func readExample(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sameShape compares the names of all fields, and which values are objects.
func sameShape(t *testing.T, at string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s: got %v, want an object", at, got)
			return
		}
		var names []string
		for name := range w {
			names = append(names, name)
			sameShape(t, at+"."+name, w[name], g[name])
		}
		for name := range g {
			if !slices.Contains(names, name) {
				t.Errorf("%s: %s is not in the published reply", at, name)
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || (len(w) > 0 && len(g) == 0) {
			t.Errorf("%s: got %v, want a list", at, got)
			return
		}
		if len(w) > 0 {
			sameShape(t, at+"[0]", w[0], g[0])
		}
	}
}

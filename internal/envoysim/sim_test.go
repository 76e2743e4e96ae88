package envoysim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Sim with one user and a caller.
type world struct {
	*Sim
	t     *testing.T
	token string
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &world{Sim: s, t: t, token: s.AddToken("asha", "origin:https://host.example.test")}
}

// answered is one HTTP reply.
type answered struct {
	status int
	header http.Header
	body   []byte
	doc    map[string]any
}

// at digs a value out of the reply by names joined with dots.
func (a answered) at(path string) any { return dig(a.doc, path) }

func (a answered) code() string { s, _ := a.at("error.code").(string); return s }

func (w *world) call(tool, body string) answered { return w.callAs(w.token, tool, body) }

func (w *world) callAs(token, tool, body string) answered {
	w.t.Helper()
	return w.callCtx(context.Background(), token, tool, body)
}

func (w *world) callCtx(ctx context.Context, token, tool, body string) answered {
	w.t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, w.opts.Base+"/tools/"+tool, bytes.NewBufferString(body))
	r.Header.Set("Authorization", "Bearer "+token)
	rec := httptest.NewRecorder()
	if gone := w.serveTo(rec, r); gone {
		return answered{}
	}
	raw, err := io.ReadAll(rec.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answered{status: rec.Code, header: rec.Header(), body: raw}
	if len(raw) > 0 && json.Valid(raw) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&a.doc); err != nil {
			w.t.Fatal(err)
		}
	}
	return a
}

// benchCall is call without reading what came.
func (w *world) benchCall(tool, body string) int {
	r := httptest.NewRequest(http.MethodPost, "/tools/"+tool, bytes.NewBufferString(body))
	r.Header.Set("Authorization", "Bearer "+w.token)
	rec := httptest.NewRecorder()
	w.serveTo(rec, r)
	return rec.Code
}

// serveTo reports whether the handler broke off without an answer.
func (w *world) serveTo(rec *httptest.ResponseRecorder, r *http.Request) (gone bool) {
	defer func() {
		if e := recover(); e != nil {
			if e != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(e)
			}
			gone = true
		}
	}()
	w.Handler().ServeHTTP(rec, r)
	return false
}

func (w *world) start(spec Spec) string {
	w.t.Helper()
	id, err := w.Start(w.token, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) move(id string, to State) {
	w.t.Helper()
	if err := w.Transition(id, func(p *Purchase) { p.State = to }); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets fake time pass; it belongs into a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

const buyBody = `{"idempotency_key":"test-intent-000001","merchant_url":"shop.example.test","total":"2499.00",` +
	`"items":[{"name":"Headphones"}],"user_request":"headphones please"}`

func TestScenarioByHand(t *testing.T) {
	w := newWorld(t, Options{})
	for _, name := range Scenarios() {
		sc, err := LoadScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		token := w.AddToken("user of "+name, "origin:https://host.example.test")
		if err := w.Play(token, sc); err != nil {
			t.Fatal(err)
		}
	}
	begun := w.now()
	for w.Step() {
	}
	if w.now().Sub(begun) < 20*time.Minute {
		t.Errorf("scenarios took %v, want the card to expire after 20 minutes", w.now().Sub(begun))
	}
	for _, r := range w.Purchases() {
		if !r.Purchase.State.Terminal() {
			t.Errorf("%s of %s ended as %s", r.Purchase.ID, r.Purchase.User, r.Purchase.State)
		}
		if r.Ledger.open() {
			t.Errorf("%s of %s left money %s", r.Purchase.ID, r.Purchase.User, r.Ledger.Status)
		}
	}
}

func TestStartLookAndReady(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.call(toolStart, buyBody)
	if a.status != 200 || a.at("purchase.state") != "waiting_for_user" {
		t.Fatalf("start answered %d %s", a.status, a.body)
	}
	id := a.at("purchase.purchase_id").(string)
	if got := a.at("next.args.after_revision"); got != json.Number("0") {
		t.Errorf("next.args.after_revision is %v, want 0 to be there", got)
	}
	w.move(id, Ready)
	look := w.call(toolAccount, `{"include":"active_purchase"}`)
	if look.at("data.account.active_purchase.state") != "ready" || bytes.Contains(look.body, []byte("payment_details")) {
		t.Errorf("look answered %s", look.body)
	}
	read := w.call(toolStatus, `{"purchase":"`+id+`"}`)
	if read.at("data.payment_details.kind") != "card" {
		t.Fatalf("status answered %s", read.body)
	}
	number := read.at("data.payment_details.card.number").(string)
	again := w.call(toolStatus, `{"purchase":"`+id+`"}`)
	if again.at("data.payment_details.card.number") == number {
		t.Error("a second ready read released the same card")
	}
	if n := len(w.GuiltyReads()[id]); n != 2 {
		t.Errorf("%d guilty reads, want 2", n)
	}
}

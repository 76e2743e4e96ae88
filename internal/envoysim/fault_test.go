package envoysim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// listen serves the world on a loopback port until the test ends.
func (w *world) listen(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	return server
}

// over makes a call over a real connection and returns the status, the body, and the error of either.
func (w *world) over(t *testing.T, server *httptest.Server, tool, body string) (int, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/tools/"+tool, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.token)
	resp, err := server.Client().Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}

func TestFaultsThatBreakTheConnection(t *testing.T) {
	w := newWorld(t, Options{})
	server := w.listen(t)
	id := w.start(Spec{})

	remove := w.Inject(Fault{Kind: FaultReset})
	if _, _, err := w.over(t, server, toolStatus, heldBody(id, 0, 45)); err == nil {
		t.Error("a reset gave no error")
	}
	remove()

	remove = w.Inject(Fault{Kind: FaultCut})
	status, raw, err := w.over(t, server, toolAccount, `{}`)
	if status != 200 || err == nil || json.Valid(raw) || len(raw) == 0 {
		t.Errorf("a cut reply came as %d, %d bytes, %v", status, len(raw), err)
	}
	remove()

	if status, raw, err := w.over(t, server, toolAccount, `{}`); status != 200 || err != nil || !json.Valid(raw) {
		t.Errorf("without faults: %d %v %s", status, err, raw)
	}
}

func TestFaultsInReplies(t *testing.T) {
	for name, tt := range map[string]struct {
		fault Fault
		want  func(a answered) bool
	}{
		"HTML":          {Fault{Kind: FaultHTML, Status: 504}, func(a answered) bool { return a.status == 504 && a.doc == nil && len(a.body) > 0 }},
		"NoContent":     {Fault{Kind: FaultNoContent}, func(a answered) bool { return a.status == 204 && len(a.body) == 0 }},
		"NotModified":   {Fault{Kind: FaultNoContent, Status: 304}, func(a answered) bool { return a.status == 304 && len(a.body) == 0 }},
		"RateLimited":   {Fault{Kind: FaultError, Code: RateLimited, Wait: 7 * time.Second}, func(a answered) bool { return a.status == 429 && fmt.Sprint(a.at("next.after_seconds")) == "7" }},
		"Retryable":     {Fault{Kind: FaultError, Code: Unavailable, Retryable: true}, func(a answered) bool { return a.status == 503 && a.at("error.retryable") == true }},
		"NotRetryable":  {Fault{Kind: FaultError, Code: Unavailable}, func(a answered) bool { return a.at("error.retryable") == false && a.at("next.action") == "stop" }},
		"Revoked":       {Fault{Kind: FaultError, Code: Unauthenticated}, func(a answered) bool { return a.status == 401 }},
		"Foreign":       {Fault{Kind: FaultForeign}, func(a answered) bool { return a.at("purchase.purchase_id") != a.at("next.args.purchase") }},
		"Lower":         {Fault{Kind: FaultLowerRevision}, func(a answered) bool { return fmt.Sprint(a.at("purchase.revision")) == "1" }},
		"LowerBy":       {Fault{Kind: FaultLowerRevision, By: 2}, func(a answered) bool { return fmt.Sprint(a.at("purchase.revision")) == "0" }},
		"UnknownWord":   {Fault{Kind: FaultUnknownWord}, func(a answered) bool { return a.at("purchase.state") == "hibernating" }},
		"UnknownMoney":  {Fault{Kind: FaultUnknownWord, Field: "purchase.money.status", Word: "pawned"}, func(a answered) bool { return a.at("purchase.money.status") == "pawned" }},
		"Missing":       {Fault{Kind: FaultMissingField}, func(a answered) bool { return a.at("purchase") != nil && a.at("purchase.revision") == nil }},
		"MissingEnd":    {Fault{Kind: FaultMissingField, Field: "next"}, func(a answered) bool { return a.at("next") == nil }},
		"Huge":          {Fault{Kind: FaultHuge}, func(a answered) bool { return len(a.body) > 10<<20 && json.Valid(a.body) }},
		"Rewrite":       {Fault{Kind: FaultRewrite, Rewrite: func(m map[string]any) { m["ok"] = "perhaps" }}, func(a answered) bool { return a.at("ok") == "perhaps" }},
		"OtherTool":     {Fault{Kind: FaultHTML, Tool: toolPurchases}, func(a answered) bool { return a.status == 200 }},
		"OtherToken":    {Fault{Kind: FaultHTML, Token: "another"}, func(a answered) bool { return a.status == 200 }},
		"OtherPurchase": {Fault{Kind: FaultHTML, Purchase: "pur_00000000000000000000000000000000"}, func(a answered) bool { return a.status == 200 }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.start(Spec{Rail: OperatedCheckout})
			w.move(id, Processing)
			w.move(id, Verifying)
			w.Inject(tt.fault)
			if a := w.call(toolStatus, `{"purchase":"`+id+`"}`); !tt.want(a) {
				t.Errorf("answered %d %.400s", a.status, a.body)
			}
		})
	}
}

func TestFaultCountAndProbability(t *testing.T) {
	w := newWorld(t, Options{RequestsPerMinute: -1})
	w.Inject(Fault{Kind: FaultHTML, Count: 3})
	remove := w.Inject(Fault{Kind: FaultNoContent, Probability: 0.5})
	got := map[int]int{}
	for range 403 {
		got[w.call(toolAccount, `{}`).status]++
	}
	if got[502] != 3 || got[204] < 150 || got[204] > 250 || got[200]+got[204] != 400 {
		t.Errorf("statuses were %v", got)
	}
	remove()
	remove()
	if a := w.call(toolAccount, `{}`); a.status != 200 {
		t.Errorf("after removal: %d", a.status)
	}
}

func TestFaultsAboutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		id := w.start(Spec{})
		remove := w.Inject(Fault{Kind: FaultImmediate, Purchase: id})
		begun := time.Now()
		if a := w.call(toolStatus, heldBody(id, 0, 45)); a.status != 200 || time.Since(begun) != 0 {
			t.Errorf("an immediate hold was answered %d after %v", a.status, time.Since(begun))
		}
		remove()
		remove = w.Inject(Fault{Kind: FaultSlow, Delay: 20 * time.Second})
		begun = time.Now()
		if a := w.call(toolAccount, `{}`); a.status != 200 || time.Since(begun) != 20*time.Second {
			t.Errorf("a slow call was answered %d after %v", a.status, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		w.callCtx(ctx, w.token, toolAccount, `{}`)
		if d := time.Since(begun); d != time.Second {
			t.Errorf("a slow call outlived its caller by %v", d-time.Second)
		}
		remove()
	})
}

func TestAProxyThatEndsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		id := w.start(Spec{})
		w.Inject(Fault{Kind: FaultHTML, Status: 504, Delay: 30 * time.Second})
		begun := time.Now()
		if a := w.call(toolStatus, heldBody(id, 0, 45)); a.status != 504 || time.Since(begun) != 30*time.Second {
			t.Errorf("a long hold was answered %d after %v", a.status, time.Since(begun))
		}
		if a := w.call(toolStatus, heldBody(id, 0, 20)); a.status != 200 || time.Since(begun) != 50*time.Second {
			t.Errorf("a short hold was answered %d after %v", a.status, time.Since(begun))
		}
		if w.Holds() != 0 {
			t.Errorf("%d holds are still open", w.Holds())
		}
	})
}

func TestForeignWithoutAnotherPurchase(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.start(Spec{})
	w.Inject(Fault{Kind: FaultForeign})
	for tool, at := range map[string]string{toolStatus: "purchase", toolAccount: "data.account.active_purchase"} {
		a := w.call(tool, `{}`)
		newChecker(t).check(tool, "foreign", a.body)
		if got := a.at(at + ".purchase_id"); got == nil || got == id {
			t.Errorf("%s shows %v", tool, got)
		}
	}
	if !bytes.Contains(w.call(toolStatus, `{}`).body, []byte("Elsewhere")) {
		t.Error("the foreign purchase is not the made-up one")
	}
}

package envoysim

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRateLimitPerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		other := w.AddToken("asha", "origin:https://second.example.test")
		for i := range 120 {
			if a := w.call(toolAccount, `{}`); a.status != 200 {
				t.Fatalf("request %d answered %d", i, a.status)
			}
			pass(100 * time.Millisecond)
		}
		a := w.call(toolAccount, `{}`)
		if a.status != 429 || a.code() != string(RateLimited) {
			t.Fatalf("request 121 answered %d %s", a.status, a.code())
		}
		newChecker(t).check(toolAccount, "over the limit", a.body)
		wait := fmt.Sprint(a.at("next.after_seconds"))
		if wait != "48" || fmt.Sprint(a.at("error.retry_after_seconds")) != wait || a.header.Get("Retry-After") != wait {
			t.Errorf("told to wait %s, %v, %s; want 48", wait, a.at("error.retry_after_seconds"), a.header.Get("Retry-After"))
		}
		if a.at("error.retryable") != true || a.at("next.action") != "retry" || a.at("next.tool") != toolAccount {
			t.Errorf("next is %v", a.at("next"))
		}
		if a := w.callAs(other, toolAccount, `{}`); a.status != 200 {
			t.Errorf("another token of the user was limited too: %d", a.status)
		}
		pass(48 * time.Second)
		if a := w.call(toolAccount, `{}`); a.status != 200 {
			t.Errorf("after the wait: %d", a.status)
		}
		n := w.Requests()[w.token]
		if n.Total != 122 || n.ByTool[toolAccount] != 122 || n.PeakMinute != 121 || n.Errors[RateLimited] != 1 {
			t.Errorf("counted %+v", n)
		}
	})
}

func TestFailingAuthenticationIsLimitedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{AuthFailuresPerMinute: 5})
		for range 5 {
			if a := w.callAs("wrong", toolAccount, `{}`); a.status != 401 || a.at("next.action") != "reconnect" {
				t.Fatalf("answered %d %s", a.status, a.body)
			}
		}
		if a := w.callAs("wrong", toolAccount, `{}`); a.status != 429 {
			t.Errorf("the sixth was answered %d", a.status)
		}
		if a := w.call(toolAccount, `{}`); a.status != 200 {
			t.Errorf("a good token from the same address was answered %d", a.status)
		}
		pass(time.Minute)
		if a := w.callAs("wrong", toolAccount, `{}`); a.status != 401 {
			t.Errorf("a minute later: %d", a.status)
		}
	})
}

func TestTokens(t *testing.T) {
	w := newWorld(t, Options{})
	fresh := w.Rotate(w.token)
	if a := w.call(toolAccount, `{}`); a.status != 401 {
		t.Errorf("the rotated token was answered %d", a.status)
	}
	if a := w.callAs(fresh, toolAccount, `{"include":["agent"]}`); a.at("data.account.agent.agent_id") != "origin:https://host.example.test" {
		t.Errorf("the new token was answered %s", a.body)
	}
	if got := w.Tokens("asha"); len(got) != 1 || got[0] != fresh {
		t.Errorf("valid tokens are %v", got)
	}
	if w.Rotate("unknown") != "" {
		t.Error("an unknown token was rotated")
	}
}

func TestKeyBoundToken(t *testing.T) {
	w := newWorld(t, Options{})
	var seen string
	w.BindKey(w.token, func(method, url string, body []byte, proof string) bool {
		seen = fmt.Sprintf("%s %s %s %q", method, url, body, proof)
		return proof != ""
	})
	if a := w.call(toolAccount, `{}`); a.status != 401 {
		t.Errorf("without a proof: %d", a.status)
	}
	if want := `POST http://example.com/tools/get_account {} ""`; seen != want {
		t.Errorf("the check saw %s, want %s", seen, want)
	}
	w.BindKey(w.token, nil)
	if a := w.call(toolAccount, `{}`); a.status != 200 {
		t.Errorf("unbound: %d", a.status)
	}
}

func TestInputIsStrict(t *testing.T) {
	for name, tt := range map[string]struct {
		tool, body string
		status     int
		path       string
	}{
		"UnknownField":      {toolStatus, `{"purchases":1}`, 400, "/purchases"},
		"WrongType":         {toolStatus, `{"after_revision":"0"}`, 400, "/after_revision"},
		"TooLong":           {toolStatus, `{"wait_seconds":46}`, 400, "/wait_seconds"},
		"Negative":          {toolStatus, `{"after_revision":-1}`, 400, "/after_revision"},
		"BadReference":      {toolStatus, `{"purchase":"pur_ABC_00000000000000"}`, 400, "/purchase"},
		"UnknownSection":    {toolAccount, `{"include":["balance","secrets"]}`, 400, "/include/1"},
		"UnknownSingle":     {toolAccount, `{"include":"secrets"}`, 400, "/include/0"},
		"Twice":             {toolAccount, `{"include":["agent","agent"]}`, 400, "/include"},
		"Missing":           {toolCancel, `{}`, 400, "/purchase"},
		"Nested":            {toolStart, strings.Replace(buyBody, `"name"`, `"title":"x","name"`, 1), 400, "/items/0/title"},
		"NotADate":          {toolTransactions, `{"from":"yesterday"}`, 400, "/from"},
		"Cursor":            {toolTransactions, `{"cursor":"???"}`, 400, "/cursor"},
		"NotJSON":           {toolAccount, `{`, 400, ""},
		"NotAnObject":       {toolAccount, `[]`, 400, ""},
		"Empty":             {toolAccount, ``, 400, ""},
		"TwoDocuments":      {toolAccount, `{}{}`, 400, ""},
		"TooLarge":          {toolAccount, `{"include":"` + strings.Repeat("x", maxBody) + `"}`, 413, ""},
		"RatingOfAnAnswer":  {toolAnswer, `{"type":"answer","answer":"a","rating":3,"idempotency_key":"k-000000000000001"}`, 400, "/rating"},
		"FailureWithoutWhy": {toolReport, `{"purchase":"pur_00000000000000000000000000000000","outcome":"failed"}`, 400, "/failure_reason"},
		"WholeFloat":        {toolPurchases, `{"limit":3.0}`, 200, ""},
		"SingleSection":     {toolAccount, `{"include":"agent"}`, 200, ""},
		"GiveBackGiftCard":  {"give_back_gift_card", `{}`, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			a := w.call(tt.tool, tt.body)
			if a.status != tt.status {
				t.Fatalf("answered %d %s, want %d", a.status, a.body, tt.status)
			}
			if tt.status == 200 || tt.status == 404 {
				return
			}
			newChecker(t).check(tt.tool, tt.body, a.body)
			fields, _ := a.at("error.fields").([]any)
			if a.code() != string(InvalidInput) || len(fields) != 1 || fields[0].(map[string]any)["path"] != tt.path {
				t.Errorf("answered %s with %v, want a field at %q", a.code(), fields, tt.path)
			}
		})
	}
}

func TestOnlyPost(t *testing.T) {
	w := newWorld(t, Options{Base: "/api/v1"})
	if a := w.call(toolAccount, `{}`); a.status != 200 {
		t.Errorf("under a base path: %d", a.status)
	}
	server := w.listen(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/tools/get_account", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET answered %d", resp.StatusCode)
	}
}

func TestObserve(t *testing.T) {
	w := newWorld(t, Options{RequestsPerMinute: 1})
	var seen []Request
	cancel := w.Observe(func(r Request) { seen = append(seen, r) })
	w.call(toolAccount, `{"include": "agent"}`)
	w.call(toolPurchases, `{}`)
	w.callAs("wrong", toolPurchases, `{}`)
	cancel()
	w.call(toolPurchases, `{}`)
	if len(seen) != 2 || string(seen[0].Body) != `{"include": "agent"}` || seen[0].Limited || !seen[1].Limited || seen[1].Token != w.token {
		t.Errorf("saw %+v", seen)
	}
}

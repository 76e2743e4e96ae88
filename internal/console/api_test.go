package console_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/console/consoletest"
	"github.com/heraldbridge/herald/internal/events"
)

// open serves a world.
func open(t *testing.T, w *consoletest.World) console.Client {
	t.Helper()
	s := httptest.NewServer(console.Handler(w.Options()))
	t.Cleanup(s.Close)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return console.Client{URL: s.URL, HTTP: client}
}

func ask[T any](t *testing.T, c console.Client, path string) T {
	t.Helper()
	var out T
	if err := c.Get(t.Context(), path, nil, &out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

// get asks with a query, which Client.Get takes apart from the path.
func query(t *testing.T, c console.Client, path, q string, into any) error {
	t.Helper()
	values, err := url.ParseQuery(q)
	if err != nil {
		t.Fatal(err)
	}
	return c.Get(t.Context(), path, values, into)
}

// refused wants a refusal of a field with a status.
func refused(t *testing.T, err error, status int, field string) {
	t.Helper()
	var r *console.Refusal
	if !errors.As(err, &r) || r.Status != status || r.Field != field || r.Problem == "" {
		t.Errorf("got %v, want %d about %q", err, status, field)
	}
}

func TestPurchasesPutThoseInNeedFirst(t *testing.T) {
	w := consoletest.New()
	w.StoreBad()
	c := open(t, w)
	all := ask[console.PurchaseList](t, c, "/v1/purchases")
	if all.Total != len(all.Items) || all.Total != 8 { // ten samples: one notice, one overdue event of a purchase with another
		t.Fatalf("total %d, items %d", all.Total, len(all.Items))
	}
	var got []string
	for _, s := range all.Items {
		got = append(got, string(s.Situation))
	}
	want := "needs_support needs_support confirming waiting_for_user ready waiting_for_user stopped done"
	if strings.Join(got, " ") != want {
		t.Errorf("order is %s", got)
	}
	if all.Attention != 3 || all.Counts[events.SituationNeedsSupport] != 2 {
		t.Errorf("attention %d, counts %v", all.Attention, all.Counts)
	}
	for _, s := range all.Items {
		if s.Attention != (s.Situation == events.SituationConfirming || s.Situation == events.SituationNeedsSupport) {
			t.Errorf("attention of %s is %v", s.Situation, s.Attention)
		}
	}
}

func TestPurchasesAreChosenAndPaged(t *testing.T) {
	c := open(t, consoletest.New())
	first := ask[console.PurchaseList](t, c, "/v1/purchases").Items[0]
	for q, want := range map[string]int{
		"situation=confirming": 1, "situation=needs_answer": 0, "unsettled=true": 3, "unsettled=false": 5,
		"connection=sample-host": 8, "connection=other": 0, "q=" + first.ID[:10]: 1, "q=example": 8, "q=nothing": 0,
	} {
		var page console.PurchaseList
		if err := query(t, c, "/v1/purchases", q, &page); err != nil || len(page.Items) != want {
			t.Errorf("%s: %d items, %v; want %d", q, len(page.Items), err, want)
		}
	}
	seen := map[string]bool{}
	for s, err := range console.List[console.Summary](t.Context(), c, "/v1/purchases", nil, 0) {
		if err != nil {
			t.Fatal(err)
		}
		seen[s.ID] = true
	}
	after, n := "", 0
	for {
		var page console.PurchaseList
		if err := query(t, c, "/v1/purchases", "limit=3&after="+after, &page); err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Items {
			n++
			if !seen[s.ID] {
				t.Errorf("%s twice, or unknown", s.ID)
			}
			delete(seen, s.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if n != 8 || len(seen) != 0 {
		t.Errorf("%d items over pages, %d left", n, len(seen))
	}
}

func TestListsAreStrict(t *testing.T) {
	c := open(t, consoletest.New())
	for q, field := range map[string]string{
		"/v1/purchases?situation=sleeping":             "situation",
		"/v1/purchases?unsettled=perhaps":              "unsettled",
		"/v1/purchases?connection=a.b":                 "connection",
		"/v1/purchases?limit=0":                        "limit",
		"/v1/purchases?limit=5001":                     "limit",
		"/v1/purchases?after=%21":                      "after",
		"/v1/purchases?limit=1&limit=2":                "limit",
		"/v1/purchases?color=red":                      "color",
		"/v1/purchases/pur_1":                          "purchase",
		"/v1/deliveries?since=yesterday":               "since",
		"/v1/deliveries?sink=a.b":                      "sink",
		"/v1/deliveries?purchase=*":                    "purchase",
		"/v1/deliveries?failed=2":                      "failed",
		"/v1/dead?sink=%3E":                            "sink",
		"/v1/dead/a.b":                                 "event",
		"/v1/explain/pur_zz":                           "purchase",
		"/v1/live?since=x":                             "since",
		"/v1/silences?x=1":                             "x",
		"/v1/purchases?q=" + strings.Repeat("a", 5000): "q",
	} {
		path, params, _ := strings.Cut(q, "?")
		refused(t, query(t, c, path, params, nil), http.StatusBadRequest, field)
	}
	for _, path := range []string{"/v1/purchases/pur_" + strings.Repeat("0", 32), "/v1/explain/pur_" + strings.Repeat("0", 32)} {
		refused(t, c.Get(t.Context(), path, nil, nil), http.StatusNotFound, "purchase")
	}
	refused(t, c.Get(t.Context(), "/v1/nothing", nil, nil), http.StatusNotFound, "")
}

func TestPartsThatAProcessLacks(t *testing.T) {
	w := consoletest.New()
	s := httptest.NewServer(console.Handler(console.Options{Feed: w, Match: consoletest.Match}))
	defer s.Close()
	for _, path := range []string{"/v1/purchases", "/v1/sinks", "/v1/dead", "/v1/silences", "/v1/explain/x", "/v1/deliveries"} {
		resp, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "this process") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

func TestStoreTroubleIsNoAnswer(t *testing.T) {
	w := consoletest.New()
	w.Err = errors.New("the store is away")
	c := open(t, w)
	for _, path := range []string{
		"/v1/purchases", "/v1/purchases/pur_" + strings.Repeat("0", 32), "/v1/deliveries", "/v1/dead", "/v1/dead/x", "/v1/silences",
		"/v1/sinks", "/v1/connections",
	} {
		refused(t, c.Get(t.Context(), path, nil, nil), http.StatusServiceUnavailable, "")
	}
	refused(t, c.Post(t.Context(), "/v1/leakcheck", struct{}{}, nil), http.StatusServiceUnavailable, "")
}

func TestPurchaseShowsHistoryAndDeliveries(t *testing.T) {
	w := consoletest.Empty()
	id := story(w)
	c := open(t, w)
	v := ask[console.PurchaseView](t, c, "/v1/purchases/"+id)
	if len(v.History) != 4 || v.Current.EventID != v.History[3].Event.ID || v.ID != id {
		t.Fatalf("history of %d, current %+v", len(v.History), v.Current)
	}
	first := v.History[0].Deliveries
	if len(first) != 2 || first[0].Sink != "ops" || first[1].Outcome != "sent" || len(first[1].Attempts) != 2 {
		t.Errorf("deliveries of the first event: %+v", first)
	}
	if len(v.Dead) != 1 || v.Dead[0].Sink != "orders" {
		t.Errorf("letters: %+v", v.Dead)
	}
}

func TestDeliveriesNewestFirst(t *testing.T) {
	w := consoletest.Empty()
	id := story(w)
	c := open(t, w)
	for q, want := range map[string]int{"": 6, "failed=true": 2, "failed=false": 4, "sink=ops": 3, "purchase=" + id: 6, "since=1ms": 0, "sink=ops&failed=1": 0} {
		var page console.Page[events.Delivery]
		if err := query(t, c, "/v1/deliveries", q, &page); err != nil || len(page.Items) != want {
			t.Errorf("%q: %d, %v; want %d", q, len(page.Items), err, want)
		}
		for i := 1; i < len(page.Items); i++ {
			if page.Items[i].At.After(page.Items[i-1].At) {
				t.Errorf("%q: %d is newer than the one before", q, i)
			}
		}
	}
}

func TestLiveTellsChanges(t *testing.T) {
	w := consoletest.New()
	c := open(t, w)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+"/v1/live", nil)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func(prefix string) string {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("no line that begins with %q", prefix)
		return ""
	}
	next(": following")
	w.StoreBad()
	samples := events.Samples()
	w.Store(samples[3])
	w.Store(samples[len(samples)-1])
	if name := next("event: "); name != "purchase" {
		t.Errorf("first is %s", name)
	}
	var s console.Summary
	if err := json.Unmarshal([]byte(next("data: ")), &s); err != nil || s.ID != samples[3].Subject || s.Situation != events.SituationConfirming {
		t.Errorf("%+v, %v", s, err)
	}
	if name := next("event: "); name != "notice" {
		t.Errorf("second is %s", name)
	}
	var n console.NoticeView
	if err := json.Unmarshal([]byte(next("data: ")), &n); err != nil || n.Kind != events.NoticeParked {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	c := open(t, consoletest.New())
	var open []io.Closer
	defer func() {
		for _, o := range open {
			o.Close()
		}
	}()
	var last *http.Response
	for range 65 {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+"/v1/live", nil)
		resp, err := c.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp.Body)
		last = resp
	}
	if last.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("reader 65: %d", last.StatusCode)
	}
}

func TestOtherSitesAreRefused(t *testing.T) {
	w := consoletest.New()
	c := open(t, w)
	body := `{"match":"true","for":"1h","why":"x"}`
	tests := map[string]struct {
		host, origin, site, kind, auth string
		method, path                   string
		want                           int
	}{
		"page itself":                     {origin: c.URL, kind: "application/json", want: 201},
		"no browser":                      {kind: "application/json", want: 201},
		"another origin":                  {origin: "https://evil.example", kind: "application/json", want: 403},
		"another site":                    {site: "cross-site", kind: "application/json", want: 403},
		"a form":                          {kind: "text/plain", want: 415},
		"a name that points here":         {host: "evil.example:9464", kind: "application/json", want: 403},
		"read by a name that points here": {host: "evil.example", method: "GET", path: "/v1/purchases", want: 403},
		"a name, with a token":            {host: "herald.internal", auth: "Bearer x", method: "GET", path: "/v1/purchases", want: 200},
		"localhost":                       {host: "localhost:9464", method: "GET", path: "/v1/purchases", want: 200},
		"IPv6":                            {host: "[::1]:9464", method: "GET", path: "/v1/purchases", want: 200},
		"the page by a name":              {host: "herald.internal", method: "GET", path: "/", want: 200},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			method, path := orElse(tt.method, "POST"), orElse(tt.path, "/v1/silences")
			req, _ := http.NewRequestWithContext(t.Context(), method, c.URL+path, strings.NewReader(body))
			if tt.host != "" {
				req.Host = tt.host
			}
			for k, v := range map[string]string{"Origin": tt.origin, "Sec-Fetch-Site": tt.site, "Content-Type": tt.kind, "Authorization": tt.auth} {
				if v != "" {
					req.Header.Set(k, v)
				}
			}
			resp, err := c.HTTP.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tt.want {
				text, _ := io.ReadAll(resp.Body)
				t.Errorf("%d, want %d: %s", resp.StatusCode, tt.want, text)
			}
		})
	}
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func TestPageShellIsClosed(t *testing.T) {
	c := open(t, consoletest.New())
	for _, path := range console.ShellPaths() {
		resp, err := c.HTTP.Get(c.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		csp := resp.Header.Get("Content-Security-Policy")
		if resp.StatusCode != http.StatusOK || !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %d %q", path, resp.StatusCode, csp)
		}
		for _, never := range []string{"innerHTML", "insertAdjacentHTML", "document.write", "outerHTML", "eval(", "http://", "https://", "localStorage", "style=\"", "{{version}}", " onclick=\""} {
			if bytes.Contains(body, []byte(never)) {
				t.Errorf("%s holds %s", path, never)
			}
		}
	}
}

func TestTenThousandPurchases(t *testing.T) {
	w := consoletest.Empty()
	crowd(w, 10_000)
	c := open(t, w)
	n := 0
	for _, err := range console.List[console.Summary](t.Context(), c, "/v1/purchases", nil, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 10_000 {
		t.Errorf("%d purchases", n)
	}
}

// crowd stores n purchases in every situation.
func crowd(w *consoletest.World, n int) {
	samples := events.Samples()
	for i := range n {
		e := samples[i%8]
		p := *e.Purchase
		e.Subject = fmt.Sprintf("pur_%032x", i+1)
		e.ID = events.EventID(e.Subject, events.Position{Revision: p.Reading.Revision})
		p.ChainRoot, p.Merchant.Name = e.Subject, fmt.Sprintf("Shop %d <b>&amp;", i)
		p.SituationSince = time.Now().Add(-time.Duration(i) * time.Second)
		e.Purchase = &p
		w.Store(e)
	}
}

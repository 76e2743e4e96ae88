package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask[T any](t *testing.T, ops map[string]handler, op string, args any) T {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(request{Op: op, Args: raw})
	if err != nil {
		t.Fatal(err)
	}
	r := answer(t.Context(), ops, line)
	if r.Error != "" {
		t.Fatalf("%s: %s", op, r.Error)
	}
	var out T
	if err := json.Unmarshal(r.Result, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStandInSpeaksTheContract(t *testing.T) {
	ops, stop, err := newEnvoyRole(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	at := ask[prepared](t, ops, "prepare", prepareArgs{Purchases: 2})
	shared := envoy.NewHTTPClient(envoy.HTTPOptions{UnencryptedHTTP2: true})
	defer shared.CloseIdleConnections()
	c := envoy.New(envoy.Options{
		BaseURL: at.URL, HTTP: shared,
		Token: func(context.Context) (secret.Value, error) { return secret.New("bearer"), nil },
	})
	now, err := c.Status(t.Context(), envoy.StatusRequest{Purchase: purchaseID(1)})
	if err != nil {
		t.Fatal(err)
	}
	if now.Purchase.Revision != 1 || now.Unknown != 0 || now.Purchase.PurchaseID != purchaseID(1) {
		t.Errorf("a read gave revision %d of %s with %d unknown fields", now.Purchase.Revision, now.Purchase.PurchaseID, now.Unknown)
	}
	if l, err := c.Look(t.Context(), true); err != nil || l.Active != envoy.ActiveNone || l.AgentID != now.Purchase.Agent.AgentID {
		t.Errorf("a look gave %+v, %v", l, err)
	}
	if l, err := c.List(t.Context()); err != nil || len(l.Items) != 0 {
		t.Errorf("a list gave %+v, %v", l, err)
	}
	held := make(chan *envoy.Status, 1)
	go func() {
		s, err := c.Status(t.Context(), envoy.StatusRequest{Purchase: purchaseID(1), Args: now.Next.Args})
		if err != nil {
			t.Errorf("hold: %v", err)
		}
		held <- s
	}()
	ask[changed](t, ops, "change", changeArgs{Count: 1})
	if s := <-held; s == nil || s.Purchase.Revision != 2 || !s.Purchase.UpdatedAt.After(now.Purchase.UpdatedAt) {
		t.Errorf("a changed hold gave %+v", s)
	}
	if n := ask[int](t, ops, "held", struct{}{}); n != 0 {
		t.Errorf("%d reads are held after the only one ended", n)
	}
}

func TestStatusReplyFollowsThePublishedSchema(t *testing.T) {
	file, err := os.Open("../internal/envoy/testdata/get_purchase_status.output.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	doc, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("status.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("status.json")
	if err != nil {
		t.Fatal(err)
	}
	reply, err := newStatusReply()
	if err != nil {
		t.Fatal(err)
	}
	text := reply.fill(nil, purchaseID(7), 3, time.Now(), time.Now())
	if len(text) < replyBytes/2 || len(text) > 2*replyBytes {
		t.Errorf("the reply has %d bytes", len(text))
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Error(err)
	}
}

func TestReceiverTellsRepeatsApart(t *testing.T) {
	ops, stop, err := newReceiverRole(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	hook := ask[receiverURL](t, ops, "reset", struct{}{})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	body, e, err := (&drain{}).event(5, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{e.ID, e.ID, "other"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook.URL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Webhook-Id", id)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	got := ask[received](t, ops, "await", awaitArgs{Count: 2, Idle: time.Minute})
	if got.Count != 3 || got.Unique != 2 || got.P50 <= 0 || got.P99 < got.P50 {
		t.Errorf("three posts under two ids gave %+v", got)
	}
}

func TestBacklogIsWhatTheStreamHolds(t *testing.T) {
	body, e, err := (&drain{}).event(9, 4)
	if err != nil {
		t.Fatal(err)
	}
	back, err := events.Decode(body)
	if err != nil || back.ID != e.ID || back.Purchase.Reading.Revision != 4 {
		t.Errorf("decoded %+v, %v", back, err)
	}
	if match, err := compile(); err != nil {
		t.Error(err)
	} else if out, _, err := match.Eval(map[string]any{"situation": string(e.Purchase.Situation)}); err != nil || out.Value() != true {
		t.Errorf("the backlog does not match the condition: %v, %v", out, err)
	}
}

func TestAnswerNamesWhatIsWrong(t *testing.T) {
	ops := map[string]handler{"usage": handle(usageOp)}
	for line, want := range map[string]string{
		`{`:                         "unexpected end",
		`{"op":"fly","args":{}}`:    `"fly"`,
		`{"op":"usage","args":"x"}`: "read arguments",
	} {
		if r := answer(t.Context(), ops, []byte(line)); !strings.Contains(r.Error, want) {
			t.Errorf("%s: error %q, want %q in it", line, r.Error, want)
		}
	}
	if u := ask[usage](t, ops, "usage", usageArgs{Collect: true}); u.RSS <= 0 || u.CPU <= 0 || u.Goroutines < 1 || u.Heap == 0 {
		t.Errorf("usage is %+v", u)
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"--short", "--only", "watch,hold", "--json"}, io.Discard)
	if err != nil || !o.short || !o.json || !slices.Equal(o.only, []string{"watch", "hold"}) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--only", "nothing"}, {"extra"}, {"--no-such-flag"}} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
		if code := run(t.Context(), bad, io.Discard, io.Discard); code != 2 {
			t.Errorf("%q: exit code %d", bad, code)
		}
	}
}

func TestFiguresAndTargets(t *testing.T) {
	r := newReport(true)
	r.add(row{Benchmark: "a", Figure: "speed", Sense: atLeast, Target: 0.5}, figures{[]float64{3, 1, 2}, []float64{4}})
	r.add(row{Benchmark: "b", Figure: "time", Sense: atMost, Target: 1.2}, figures{[]float64{5, 3}, []float64{2}})
	r.add(row{Benchmark: "c", Figure: "none"}, figures{[]float64{1}, nil})
	if one := r.Rows[0]; one.Herald != 2 || one.Ratio != 0.5 || !*one.Met {
		t.Errorf("speed: %+v", one)
	}
	if one := r.Rows[1]; one.Herald != 4 || one.Ratio != 2 || *one.Met {
		t.Errorf("time: %+v", one)
	}
	if one := r.Rows[2]; one.Ratio != 0 || one.Met != nil {
		t.Errorf("none: %+v", one)
	}
	var text bytes.Buffer
	if err := r.print(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MISSED", "met", ">= 0.50", "<= 1.20"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, text.String())
		}
	}
	text.Reset()
	if err := r.print(&text, true); err != nil || !json.Valid(text.Bytes()) {
		t.Errorf("no JSON: %v", err)
	}
}

func TestQuantileAndNumber(t *testing.T) {
	d := make([]time.Duration, 100)
	for i := range d {
		d[i] = time.Duration(100 - i)
	}
	if p50, p99, none := quantile(d, 0.5), quantile(d, 0.99), quantile(nil, 0.5); p50 != 50 || p99 != 99 || none != 0 {
		t.Errorf("quantiles %d, %d, %d", p50, p99, none)
	}
	for v, want := range map[float64]string{
		0: "0", 0.0456: "0.0456", 1.234: "1.23", 56.78: "56.8", 999: "999", 1234: "1,234", 1234567: "1,234,567", -2: "-2.00",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) is %s, want %s", v, got, want)
		}
	}
}

package webhook_test

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", path, got)
	}
}

// A template that puts a text of others between quotes of its own would let that
// text write members of the body, so it is refused, whichever text it is.
func TestNoTextOfOthersMayWriteTheBody(t *testing.T) {
	for _, text := range []string{
		"Subject", "Purchase.Merchant.Name", "Purchase.Say", "Purchase.Description", "Purchase.Agent.DisplayName", "Purchase.Agent.ID",
		"Purchase.Amount.Display", "Purchase.MoneyStatus.MerchantOrderRef", "Purchase.Support.Ref", "Purchase.Support.RequestID",
		"Purchase.Support.TraceID", "Notice.Text", "Notice.Support.RequestID",
	} {
		root, _, _ := strings.Cut(text, ".")
		form := `{"a":"{{with .` + root + `}}{{$.` + text + `}}{{end}}"}`
		if s, err := webhook.New(webhook.Config{URL: secret.New("https://hooks.example.test/x"), Template: form}); err == nil {
			_ = s.Close()
			t.Errorf("%s was accepted", form)
		}
		form = strings.ReplaceAll(strings.ReplaceAll(form, `"{{with`, `{{with`), `{{$.`+text+`}}{{end}}"`, `{{json $.`+text+`}}{{else}}""{{end}}`)
		newSink(t, webhook.Config{URL: secret.New("https://hooks.example.test/x"), Template: form})
	}
}

// TestGolden pins what receivers get, headers included.
func TestGolden(t *testing.T) {
	const text = `{{define "amount"}}{{with .Purchase}}{{json (amount .Amount)}}{{else}}""{{end}}{{end}}{"title": {{json (upper .Title)}}, "amount": {{template "amount" .}}, "at": {{json (time .Event.Time)}}, "short": {{json (trunc 24 .Text)}}}`
	configs := map[string]webhook.Config{
		"structured": {Secrets: keys("key")}, "binary": {Mode: webhook.ModeBinary},
		"pagerduty": {Preset: webhook.PresetPagerDuty, Secrets: keys("routing-key")},
		"teams":     {Preset: webhook.PresetTeams}, "discord": {Preset: webhook.PresetDiscord}, "ntfy": {Preset: webhook.PresetNtfy},
		"template": {Template: text},
	}
	for name, c := range configs {
		t.Run(name, func(t *testing.T) {
			hook := newHook(t)
			c.URL, c.AllowCIDRs, c.Now = secret.New(hook.URL("/")), loopback(), now
			s := newSink(t, c)
			for _, n := range notable() {
				send(t, s, n)
			}
			var b strings.Builder
			for _, r := range hook.Received() {
				r.Header.Del("Accept-Encoding")
				r.Header.Del("Content-Length")
				_ = r.Header.Write(&b)
				b.WriteString("\n" + string(r.Body) + "\n\n")
			}
			golden(t, name+".txt", strings.ReplaceAll(b.String(), "\r\n", "\n"))
		})
	}
}

// notable are the notifications of the golden files.
func notable() []sinks.Notification {
	var out []sinks.Notification
	for _, e := range events.Samples() {
		n := sinkstest.Notification(e)
		if p := e.Purchase; p != nil && p.Situation == events.SituationNeedsSupport {
			n.Kind, n.Urgent = sinks.KindOpen, true
		}
		if p := e.Purchase; p != nil && p.Situation == events.SituationDone {
			n.Kind = sinks.KindResolve
		}
		out = append(out, n)
	}
	return out
}

func TestHeadersOfTries(t *testing.T) {
	hook := newHook(t)
	at := now()
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Secrets: keys("key"), Now: func() time.Time { return at }})
	e := sinkstest.Confirming()
	const traced = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	n := sinkstest.Notification(e)
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": traced})
	if _, err := s.Send(ctx, n); err != nil {
		t.Fatal(err)
	}
	at = at.Add(time.Minute)
	n.Attempt, n.Replay = 2, true
	send(t, s, n)
	n.Kind, n.Reminded = sinks.KindRemind, 3
	send(t, s, n)
	r := hook.Received()
	for i, want := range []map[string]string{
		{"Webhook-Id": e.ID, "Webhook-Timestamp": "1790687100", "Herald-Attempt": "1", "Herald-Replay": "", "Herald-Kind": "", "Traceparent": traced},
		{"Webhook-Id": e.ID, "Webhook-Timestamp": "1790687160", "Herald-Attempt": "2", "Herald-Replay": "1"},
		{"Webhook-Id": e.ID + "-remind-3", "Herald-Kind": "remind"},
	} {
		for name, value := range want {
			if got := r[i].Header.Get(name); got != value {
				t.Errorf("try %d: %s is %q, want %q", i, name, got, value)
			}
		}
	}
	if r[0].Header.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" {
		t.Errorf("content type is %q", r[0].Header.Get("Content-Type"))
	}
	if r[0].Header.Get("Webhook-Signature") == r[1].Header.Get("Webhook-Signature") {
		t.Error("the signature did not change with the timestamp")
	}
}

func TestNewRefuses(t *testing.T) {
	ok := secret.New("https://hooks.example.test/x")
	for name, c := range map[string]webhook.Config{
		"two bodies":          {URL: ok, Preset: webhook.PresetTeams, Template: "{}"},
		"unknown preset":      {URL: ok, Preset: "pigeon"},
		"unknown mode":        {URL: ok, Mode: "quantum"},
		"pager without key":   {URL: ok, Preset: webhook.PresetPagerDuty},
		"header of ours":      {URL: ok, Headers: map[string]secret.Value{"webhook-id": secret.New("x")}},
		"header with newline": {URL: ok, Headers: map[string]secret.Value{"X-A": secret.New("a\r\nB: c")}},
		"header name":         {URL: ok, Headers: map[string]secret.Value{"X A": secret.New("a")}},
		"broken template":     {URL: ok, Template: "{{.Nope"},
		"unknown field":       {URL: ok, Template: `{"a": {{json .Nope}}}`},
		"quotes of its own":   {URL: ok, Template: `{"a": "{{.Subject}}"}`},
		"not json":            {URL: ok, Template: `{"a": {{.Subject}}}`},
		"nil on notices":      {URL: ok, Template: `{"a": {{json .Purchase.Merchant.Name}}}`},
		"placeholder":         {URL: ok, Template: `{{.Notice}}`, ContentType: "text/plain"},
		"content type":        {URL: ok, Template: `{}`, ContentType: "no/such/thing;;"},
		"proxy":               {URL: ok, Proxy: "::"},
		"authorities":         {URL: ok, TLS: sinks.TLS{CA: "does-not-exist.pem"}},
		"half a certificate":  {URL: ok, TLS: sinks.TLS{Cert: "only.pem"}},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := webhook.New(c); err == nil {
				_ = s.Close()
				t.Error("New accepted it")
			}
		})
	}
}

func TestPagerDutyKeepsOneIncidentPerChain(t *testing.T) {
	hook := newHook(t)
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Preset: webhook.PresetPagerDuty, Secrets: keys("routing-key")})
	e := sinkstest.Confirming()
	open, resolve := sinkstest.Notification(e), sinkstest.Notification(e)
	open.Kind, open.Urgent, resolve.Kind = sinks.KindOpen, true, sinks.KindResolve
	parked := events.NewNotice("host-a", events.NoticeParked, now(), events.Notice{Connection: "host-a", Text: "x"})
	resumed := events.NewNotice("host-a", events.NoticeResumed, now(), events.Notice{Connection: "host-a", Text: "x"})
	for _, n := range []sinks.Notification{open, resolve, sinkstest.Notification(parked), sinkstest.Notification(resumed)} {
		send(t, s, n)
	}
	var got [4]struct {
		RoutingKey string         `json:"routing_key"`
		Action     string         `json:"event_action"`
		Key        string         `json:"dedup_key"`
		Payload    map[string]any `json:"payload"`
	}
	for i, r := range hook.Received() {
		if err := json.Unmarshal(r.Body, &got[i]); err != nil {
			t.Fatal(err)
		}
		if r.Header.Get("Webhook-Signature") != "" || got[i].RoutingKey != "routing-key" {
			t.Errorf("call %d: signed, or without routing key", i)
		}
	}
	if got[0].Action != "trigger" || got[1].Action != "resolve" || got[0].Key != e.Purchase.ChainRoot || got[1].Key != got[0].Key {
		t.Errorf("purchase: %+v", got[:2])
	}
	if got[0].Payload["severity"] != "critical" {
		t.Errorf("payload: %v", got[0].Payload)
	}
	if got[2].Action != "trigger" || got[3].Action != "resolve" || got[2].Key != got[3].Key || got[2].Key == got[0].Key {
		t.Errorf("notices: %+v", got[2:])
	}
}

// The end of an alarm takes the place of its beginning; what has to be heard does not.
func TestNtfyResolvesWithTheSameKey(t *testing.T) {
	hook := newHook(t)
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Preset: webhook.PresetNtfy})
	form := regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`) // what ntfy takes
	n := sinkstest.Notification(sinkstest.Confirming())
	for _, kind := range []sinks.Kind{sinks.KindOpen, sinks.KindResolve, sinks.KindRemind, sinks.KindUpdate} {
		n.Kind, n.Urgent = kind, kind == sinks.KindUpdate
		send(t, s, n)
	}
	var ids []string
	for _, r := range hook.Received() {
		ids = append(ids, r.Header.Get("X-Sequence-Id"))
	}
	if !form.MatchString(ids[0]) || ids[1] != ids[0] || ids[2] != "" || ids[3] != "" {
		t.Errorf("open, resolve, remind and an urgent change have the ids %q", ids)
	}
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMutualTLS(t *testing.T) {
	authority, err := sinkfakes.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, authority.Pool()
	hook, err := sinkfakes.NewHook("127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hook.Close() })
	cert, key, err := authority.Issue("client")
	if err != nil {
		t.Fatal(err)
	}
	files := sinks.TLS{CA: writeFile(t, "ca.pem", authority.PEM()), Cert: writeFile(t, "cert.pem", cert), Key: writeFile(t, "key.pem", key)}
	c := webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), TLS: files}
	send(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming()))

	c.TLS = sinks.TLS{CA: files.CA}
	// TLS 1.3 refuses a client after the handshake, so the refusal races with the request.
	if f := failure(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming())); f.Reason != sinks.ReasonTLS && f.Reason != sinks.ReasonReset {
		t.Errorf("without a client certificate: %v", f)
	}
	if n := len(hook.Received()); n != 1 {
		t.Errorf("%d deliveries, want the one with the certificate", n)
	}
	c.TLS = sinks.TLS{}
	if f := failure(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming())); f.Verdict != sinks.Down || f.Reason != sinks.ReasonTLS {
		t.Errorf("without the authority: %v", f)
	}
}

func TestProxyCarriesTheTryAndLiteralsAreStillJudged(t *testing.T) {
	hook, proxy := newHook(t), newHook(t)
	target, err := url.Parse(hook.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	proxy.Always(&sinkfakes.Answer{Handler: func(w http.ResponseWriter, r *http.Request) { forward.ServeHTTP(w, r) }})
	c := webhook.Config{URL: secret.New("http://hooks.example.test/h"), Proxy: proxy.URL("")}
	send(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming()))
	if len(hook.Received()) != 1 || len(proxy.Received()) != 1 {
		t.Errorf("the proxy saw %d and the receiver %d", len(proxy.Received()), len(hook.Received()))
	}
	for _, host := range []string{
		"169.254.169.254", "2852039166", "0xa9fea9fe", "0XA9.254.0xa9fe", "169.254.43518", "0251.0376.0251.0376", "127.1", "127.0.0.1.", "0x7f.1", "[::1]",
		"[::ffff:169.254.169.254]", "0", "09.1.1.1", "99999999999999999999",
	} {
		c.URL = secret.New("http://" + host + "/h")
		if f := failure(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming())); f.Reason != sinks.ReasonBlocked || !strings.Contains(f.Error(), "not allowed") {
			t.Errorf("%s through the proxy gave %v", host, f)
		}
	}
	for _, host := range []string{"hooks.example.test.", "1.example.test", "x0x7f", "1e3", "0b1", "0xg"} {
		c.URL = secret.New("http://" + host + "/h")
		send(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming()))
	}
}

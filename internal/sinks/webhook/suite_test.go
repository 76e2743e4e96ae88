package webhook_test

import (
	"context"
	"mime"
	"net/http"
	"net/netip"
	"path"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	canaryPath   = sinkstest.Canary + "-in-path"
	canaryQuery  = sinkstest.Canary + "-in-query"
	canaryUser   = sinkstest.Canary + "-in-password"
	canaryHeader = sinkstest.Canary + "-in-header"
	canarySecret = sinkstest.Canary + "-signing-key"
)

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func newHook(t *testing.T) *sinkfakes.Hook {
	t.Helper()
	h, err := sinkfakes.NewHook("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func newSink(t *testing.T, c webhook.Config) *webhook.Sink {
	t.Helper()
	if c.Name == "" {
		c.Name = sinkstest.SinkName
	}
	s, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func keys(texts ...string) func(context.Context) ([]secret.Value, error) {
	return func(context.Context) ([]secret.Value, error) {
		out := make([]secret.Value, len(texts))
		for i, text := range texts {
			out[i] = secret.New(text)
		}
		return out, nil
	}
}

// secretURL is an address full of canaries.
func secretURL(h *sinkfakes.Hook) secret.Value {
	base := h.URL("/hook/" + canaryPath + "?token=" + canaryQuery)
	return secret.New("http://user:" + canaryUser + "@" + base[len("http://"):])
}

// echo answers with everything that the request carried, as careless receivers do.
func echo(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(path.Base(r.URL.Path) + " " + r.URL.Query().Get("token") + " " + r.URL.RequestURI() + " " + r.Header.Get("Authorization") + " " + r.Header.Get("X-Key") + " " + canarySecret))
	}
}

type named struct {
	answer sinkfakes.Answer
	want   sinkstest.Want
}

func status(code int) sinkfakes.Answer { return sinkfakes.Answer{Status: code, Handler: echo(code)} }

func wait(code int, after string) sinkfakes.Answer {
	return sinkfakes.Answer{Status: code, Header: map[string]string{"Retry-After": after}}
}

func table() map[string]named {
	refused := sinkstest.Want{Verdict: sinks.Refused, Reason: sinks.ReasonStatus}
	temporary := sinkstest.Want{Verdict: sinks.Temporary}
	paused := sinkstest.Want{Verdict: sinks.Paused, Reason: sinks.ReasonAuth}
	redirect := sinkstest.Want{Verdict: sinks.Refused, Reason: sinks.ReasonRedirect}
	down := func(r sinks.Reason, d time.Duration) sinkstest.Want {
		return sinkstest.Want{Verdict: sinks.Down, Reason: r, After: d}
	}
	to := func(code int) sinkfakes.Answer {
		return sinkfakes.Answer{Status: code, Header: map[string]string{"Location": "http://127.0.0.1:1/"}}
	}
	return map[string]named{
		"200": {status(200), sinkstest.Want{}}, "201": {status(201), sinkstest.Want{}},
		"202": {status(202), sinkstest.Want{}}, "204": {sinkfakes.Answer{Status: 204}, sinkstest.Want{}},
		"301": {to(301), redirect}, "302": {to(302), redirect}, "303": {to(303), redirect}, "304": {to(304), redirect},
		"307": {to(307), redirect}, "308": {to(308), redirect},
		"400": {status(400), refused}, "404": {status(404), refused}, "405": {status(405), refused},
		"409": {status(409), refused}, "413": {status(413), refused}, "415": {status(415), refused},
		"418": {status(418), refused}, "422": {status(422), refused}, "499": {status(499), refused},
		"401": {status(401), paused}, "407": {status(407), paused},
		"403":                     {sinkfakes.Answer{Status: 403, Body: "not for events of this type"}, refused},
		"403 challenge":           {sinkfakes.Answer{Status: 403, Header: map[string]string{"WWW-Authenticate": "Bearer"}}, paused},
		"403 names credentials":   {sinkfakes.Answer{Status: 403, Body: `{"error":"Invalid API key"}`}, paused},
		"403 names authorization": {sinkfakes.Answer{Status: 403, Body: "request is Unauthenticated"}, paused},
		"408":                     {status(408), temporary}, "425": {status(425), temporary},
		"410":         {status(410), sinkstest.Want{Verdict: sinks.Gone, Reason: sinks.ReasonGone}},
		"429":         {status(429), down(sinks.ReasonRateLimit, 0)},
		"429 seconds": {wait(429, "7"), down(sinks.ReasonRateLimit, 7*time.Second)},
		"429 decimal": {wait(429, "1.5"), down(sinks.ReasonRateLimit, 1500*time.Millisecond)},
		"429 date":    {wait(429, now().Add(90*time.Second).Format(http.TimeFormat)), down(sinks.ReasonRateLimit, 90*time.Second)},
		"429 past":    {wait(429, now().Add(-time.Hour).Format(http.TimeFormat)), down(sinks.ReasonRateLimit, 0)},
		"429 endless": {wait(429, "99999999999999999999"), down(sinks.ReasonRateLimit, time.Hour)},
		"429 words":   {wait(429, "soon"), down(sinks.ReasonRateLimit, 0)},
		"500":         {status(500), sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonServer, Status: 500}},
		"502":         {status(502), temporary}, "504": {status(504), temporary},
		"503":      {status(503), temporary},
		"503 wait": {wait(503, "30"), down(sinks.ReasonServer, 30*time.Second)},
		"cut":      {sinkfakes.Answer{Handler: sinkfakes.Cut}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonReset}},
		"nonsense": {sinkfakes.Answer{Handler: nonsense}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol}},
	}
}

func nonsense(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = conn.Write([]byte("HTTP/1.1 " + canaryPath + "\r\n\r\n"))
		_ = conn.Close()
	}
}

func now() time.Time { return time.Date(2026, 9, 29, 13, 5, 0, 0, time.UTC) }

// harness tests one form of body.
func harness(c webhook.Config, verbatim bool) sinkstest.Harness {
	h := sinkstest.Harness{
		Stalled:     sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonTimeout},
		Unreachable: sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonDial},
		Flooded:     sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonServer, Status: 500},
		Verbatim:    verbatim,
		Open: func(t *testing.T, timeout time.Duration) *sinkstest.Bench {
			hook := newHook(t)
			c := c
			c.URL, c.Timeout, c.AllowCIDRs, c.Now = secretURL(hook), timeout, loopback(), now
			c.Secrets = keys(canarySecret)
			c.Headers = map[string]secret.Value{"X-Key": secret.New(canaryHeader)}
			return bench(hook, newSink(t, c))
		},
	}
	for name, n := range table() {
		h.Answers = append(h.Answers, sinkstest.Answer{Name: name, Want: n.want})
	}
	return h
}

func bench(hook *sinkfakes.Hook, s sinks.Sink) *sinkstest.Bench {
	return &sinkstest.Bench{
		Sink:     s,
		Canaries: []string{sinkstest.Canary},
		Answer:   func(name string) { hook.Script(table()[name].answer) },
		Stall: func() {
			hook.Always(&sinkfakes.Answer{Handler: sinkfakes.Drip(50 * time.Millisecond)})
		},
		Flood:   func() { hook.Script(sinkfakes.Answer{Handler: sinkfakes.Flood(500, 20<<20)}) },
		Kill:    func() { _ = hook.Close() },
		Arrived: hook.Changed,
		Accepted: func() int {
			return len(hook.Received())
		},
		Shown: func() string {
			all := hook.Received()
			last := all[len(all)-1]
			title, err := new(mime.WordDecoder).DecodeHeader(last.Header.Get("Title"))
			if err != nil {
				title = "undecodable title: " + err.Error()
			}
			return title + string(last.Body)
		},
	}
}

func TestSuite(t *testing.T) {
	for name, c := range map[string]webhook.Config{
		"structured": {}, "binary": {Mode: webhook.ModeBinary},
	} {
		t.Run(name, func(t *testing.T) { sinkstest.Run(t, harness(c, true)) })
	}
	for _, p := range []webhook.Preset{webhook.PresetPagerDuty, webhook.PresetTeams, webhook.PresetDiscord, webhook.PresetNtfy} {
		t.Run(string(p), func(t *testing.T) { sinkstest.Run(t, harness(webhook.Config{Preset: p}, false)) })
	}
	t.Run("template", func(t *testing.T) {
		const text = `{"text": {{json .Subject}}, "what": {{json .Text}}{{with .Purchase}}, "amount": {{json (amount .Amount)}}{{end}}}`
		sinkstest.Run(t, harness(webhook.Config{Template: text}, false))
	})
}

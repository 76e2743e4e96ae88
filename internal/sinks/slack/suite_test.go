package slack_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/slack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token   = "xoxb-" + sinkstest.Canary + "-token"
	hookURL = "/services/T0/B0/" + sinkstest.Canary + "-in-path"
	channel = "C0123456789"
)

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func now() time.Time { return time.Date(2026, 9, 29, 13, 5, 0, 0, time.UTC) }

func value(text string) func(context.Context) (secret.Value, error) {
	return func(context.Context) (secret.Value, error) { return secret.New(text), nil }
}

func newSlack(t *testing.T) *sinkfakes.Slack {
	t.Helper()
	f, err := sinkfakes.NewSlack("127.0.0.1:0", nil, sinkfakes.SlackOptions{Token: token, Channels: []string{channel}, WebhookPath: hookURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func newSink(t *testing.T, c slack.Config) *slack.Sink {
	t.Helper()
	c.Name, c.AllowCIDRs, c.Now = sinkstest.SinkName, loopback(), now
	s, err := slack.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func botConfig(f *sinkfakes.Slack) slack.Config {
	return slack.Config{BotToken: value(token), Channel: channel, APIURL: f.APIURL(), Mention: "<!subteam^S0123456789>"}
}

func webhookConfig(f *sinkfakes.Slack) slack.Config {
	return slack.Config{WebhookURL: value(f.WebhookURL()), Mention: "<!here>"}
}

type named struct {
	answer sinkfakes.Answer
	want   sinkstest.Want
}

func word(w string) sinkfakes.Answer {
	return sinkfakes.Answer{Status: 200, Header: map[string]string{"Content-Type": "application/json", "Retry-After": "3"}, Body: `{"ok":false,"error":"` + w + `"}`}
}

func shared(own string) map[string]named {
	html := "<html><body>Sign in " + own + "</body></html>"
	return map[string]named{
		"html": {sinkfakes.Answer{Status: 200, Body: html}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol, Text: "Sign in"}},
		"redirect": {sinkfakes.Answer{Status: 302, Header: map[string]string{"Location": "http://127.0.0.1:1/"}},
			sinkstest.Want{Verdict: sinks.Refused, Reason: sinks.ReasonRedirect}},
		"429": {sinkfakes.Answer{Status: 429, Header: map[string]string{"Retry-After": "3"}},
			sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonRateLimit, After: 3 * time.Second}},
		"429 bare": {sinkfakes.Answer{Status: 429}, sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonRateLimit}},
		"500":      {sinkfakes.Answer{Status: 500, Body: html}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonServer, Status: 500}},
		"503 wait": {sinkfakes.Answer{Status: 503, Header: map[string]string{"Retry-After": "30"}},
			sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonServer, After: 30 * time.Second}},
		"401":   {sinkfakes.Answer{Status: 401}, sinkstest.Want{Verdict: sinks.Paused, Reason: sinks.ReasonAuth}},
		"400":   {sinkfakes.Answer{Status: 400, Body: html}, sinkstest.Want{Verdict: sinks.Refused, Reason: sinks.ReasonStatus}},
		"408":   {sinkfakes.Answer{Status: 408}, sinkstest.Want{Verdict: sinks.Temporary}},
		"202":   {sinkfakes.Answer{Status: 202, Body: "ok"}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol}},
		"empty": {sinkfakes.Answer{Status: 200}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol}},
		"cut":   {sinkfakes.Answer{Handler: sinkfakes.Cut}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonReset}},
	}
}

func botTable() map[string]named {
	t := shared(token)
	paused := sinkstest.Want{Verdict: sinks.Paused, Reason: sinks.ReasonAuth}
	for _, w := range []string{"invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "missing_scope"} {
		paused.Text = w
		t[w] = named{word(w), paused}
	}
	for _, w := range []string{"channel_not_found", "not_in_channel", "is_archived", "invalid_blocks", "msg_too_long", "a_word_of_tomorrow"} {
		t[w] = named{word(w), sinkstest.Want{Verdict: sinks.Refused, Reason: sinks.ReasonStatus, Text: w}}
	}
	for _, w := range []string{"internal_error", "fatal_error", "service_unavailable"} {
		t[w] = named{word(w), sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonServer, Text: w}}
	}
	t["ratelimited"] = named{word("ratelimited"), sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonRateLimit, After: 3 * time.Second}}
	t["not a word"] = named{word("see " + token), sinkstest.Want{Verdict: sinks.Refused}}
	t["ok missing"] = named{sinkfakes.Answer{Status: 200, Body: `{"hello":1}`}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol}}
	return t
}

func webhookTable() map[string]named {
	t := shared(hookURL)
	add := func(status int, w string, v sinks.Verdict, r sinks.Reason) {
		t[fmt.Sprint(status, " ", w)] = named{sinkfakes.Answer{Status: status, Body: w}, sinkstest.Want{Verdict: v, Reason: r, Text: w, Status: status}}
	}
	add(400, "invalid_payload", sinks.Refused, sinks.ReasonStatus)
	add(400, "no_text", sinks.Refused, sinks.ReasonStatus)
	add(403, "action_prohibited", sinks.Refused, sinks.ReasonStatus)
	add(403, "invalid_token", sinks.Paused, sinks.ReasonAuth)
	add(404, "no_service", sinks.Paused, sinks.ReasonAuth)
	add(404, "channel_not_found", sinks.Refused, sinks.ReasonStatus)
	add(410, "channel_is_archived", sinks.Gone, sinks.ReasonGone)
	add(500, "rollup_error", sinks.Temporary, sinks.ReasonServer)
	t["200 not ok"] = named{sinkfakes.Answer{Status: 200, Body: "okay " + hookURL}, sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol}}
	return t
}

func harness(config func(*sinkfakes.Slack) slack.Config, table map[string]named) sinkstest.Harness {
	h := sinkstest.Harness{
		Stalled:     sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonTimeout},
		Unreachable: sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonDial},
		Flooded:     sinkstest.Want{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol},
		Open: func(t *testing.T, timeout time.Duration) *sinkstest.Bench {
			f := newSlack(t)
			c := config(f)
			c.Timeout = timeout
			return &sinkstest.Bench{
				Sink: newSink(t, c), Canaries: []string{sinkstest.Canary},
				Answer:   func(name string) { f.Script(table[name].answer) },
				Stall:    func() { f.Always(&sinkfakes.Answer{Handler: sinkfakes.Drip(50 * time.Millisecond)}) },
				Flood:    func() { f.Script(sinkfakes.Answer{Handler: sinkfakes.Flood(http.StatusOK, 20<<20)}) },
				Kill:     func() { _ = f.Close() },
				Arrived:  f.Changed,
				Accepted: func() int { return len(f.Posts()) },
				Shown:    func() string { return shown(last(f)) },
			}
		},
	}
	for name, n := range table {
		h.Answers = append(h.Answers, sinkstest.Answer{Name: name, Want: n.want})
	}
	return h
}

func last(f *sinkfakes.Slack) sinkfakes.Post {
	posts := f.Posts()
	return posts[len(posts)-1]
}

func shown(p sinkfakes.Post) string {
	all := []string{p.Text}
	for _, text := range p.Texts {
		all = append(all, text.Text)
	}
	return strings.Join(all, "\n")
}

func TestSuite(t *testing.T) {
	t.Run("bot", func(t *testing.T) { sinkstest.Run(t, harness(botConfig, botTable())) })
	t.Run("webhook", func(t *testing.T) { sinkstest.Run(t, harness(webhookConfig, webhookTable())) })
}

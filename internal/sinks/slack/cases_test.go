package slack_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/slack"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

var update = flag.Bool("update", false, "write the golden files")

func both() map[string]func(*sinkfakes.Slack) slack.Config {
	return map[string]func(*sinkfakes.Slack) slack.Config{"chat.postMessage": botConfig, "incoming webhook": webhookConfig}
}

func send(t *testing.T, s sinks.Sink, n sinks.Notification) sinks.Receipt {
	t.Helper()
	r, err := s.Send(t.Context(), n)
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	return r
}

func failure(t *testing.T, s sinks.Sink, n sinks.Notification) *sinks.Failure {
	t.Helper()
	_, err := s.Send(t.Context(), n)
	var f *sinks.Failure
	if !errors.As(err, &f) {
		t.Fatalf("send gave %v, want a failure", err)
	}
	return f
}

func TestB01_TextIsEscapedOnce(t *testing.T) {
	for name, config := range both() {
		t.Run(name, func(t *testing.T) {
			f := newSlack(t)
			e := sinkstest.Confirming()
			e.Purchase.Merchant.Name = "Acme & Sons <Retail>"
			e.Purchase.Description = `a < b > c & d &amp; e "quoted" it's`
			n := sinkstest.Notification(e)
			n.Urgent = true
			send(t, newSink(t, config(f)), n)
			p := last(f)
			if !strings.Contains(p.Text, "Acme &amp; Sons &lt;Retail&gt;") {
				t.Errorf("text is %q", p.Text)
			}
			all := shown(p)
			if !strings.Contains(all, "a &lt; b &gt; c &amp; d &amp;amp; e \"quoted\" it's") {
				t.Errorf("the description is not there as it should be: %s", all)
			}
			for _, bad := range []string{"&quot;", "&#39;", "&amp;lt;", "<Retail>"} {
				if strings.Contains(all, bad) {
					t.Errorf("the message holds %q", bad)
				}
			}
			if !strings.HasPrefix(p.Text, config(f).Mention+" ") || !strings.Contains(all, "<!date^") {
				t.Errorf("notation of our own was escaped: %s", all)
			}
			for _, text := range p.Texts {
				if text.Type != "mrkdwn" || !text.Verbatim {
					t.Errorf("a text object is %+v, want verbatim mrkdwn", text)
				}
			}
		})
	}
}

func TestB02_LimitsAreKept(t *testing.T) {
	items := make([]string, 120)
	for i := range items {
		items[i] = fmt.Sprintf("item %d", i)
	}
	long := strings.Repeat("x", 12000)
	for what, change := range map[string]func(p *events.Purchase){
		"note":      func(p *events.Purchase) { p.Description = long },
		"items":     func(p *events.Purchase) { p.DetailsMissing = items },
		"both":      func(p *events.Purchase) { p.Description, p.DetailsMissing, p.Say = long, items, long },
		"names":     func(p *events.Purchase) { p.Merchant.Name, p.Agent.DisplayName = long, long },
		"ampersand": func(p *events.Purchase) { p.Description = strings.Repeat("&", 12000) },
	} {
		for name, config := range both() {
			t.Run(what+"/"+name, func(t *testing.T) {
				f := newSlack(t)
				e := sinkstest.Confirming()
				change(e.Purchase)
				send(t, newSink(t, config(f)), sinkstest.Notification(e))
				all := shown(last(f))
				if !strings.Contains(all, e.Subject) || !strings.Contains(all, "not confirmed yet") {
					t.Errorf("purchase or status are missing: %.500s", all)
				}
				if !strings.Contains(all, strings.TrimSpace(words.Marker)) && !strings.Contains(all, "and 110 more") {
					t.Errorf("nothing says that text was left out: %.500s", all)
				}
				if len(f.Received()) != 1 {
					t.Errorf("%d tries", len(f.Received()))
				}
			})
		}
	}
}

func TestB03_RetryAfterIsHandedOn(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	limited := sinkfakes.Answer{Status: 429, Header: map[string]string{"Retry-After": "3"}}
	f.Script(limited, limited)
	for range 2 {
		if got := failure(t, s, sinkstest.Notification(sinkstest.Confirming())); got.Verdict != sinks.Down || got.After != 3*time.Second {
			t.Errorf("failure is %+v", got)
		}
	}
	send(t, s, sinkstest.Notification(sinkstest.Confirming()))
	if len(f.Received()) != 3 || len(f.Posts()) != 1 {
		t.Errorf("%d tries and %d posts: a sink must not retry by itself", len(f.Received()), len(f.Posts()))
	}
}

func TestB04_AnAnswerThatOnlyLooksFineIsAFailure(t *testing.T) {
	f := newSlack(t)
	target, err := sinkfakes.NewHook("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	c := botConfig(f)
	c.Channel = "C9999999999"
	got := failure(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming()))
	if got.Verdict != sinks.Refused || !strings.Contains(got.Error(), "channel_not_found") {
		t.Errorf("an unknown channel gave %v", got)
	}
	page := sinkfakes.Answer{Status: 200, Header: map[string]string{"Content-Type": "text/html"}, Body: "<html>ok</html>"}
	for name, config := range both() {
		f.Script(page)
		if got := failure(t, newSink(t, config(f)), sinkstest.Notification(sinkstest.Confirming())); got.Reason != sinks.ReasonProtocol {
			t.Errorf("%s: a page gave %v", name, got)
		}
		f.Script(sinkfakes.Answer{Status: 302, Header: map[string]string{"Location": target.URL("/")}})
		if got := failure(t, newSink(t, config(f)), sinkstest.Notification(sinkstest.Confirming())); got.Reason != sinks.ReasonRedirect {
			t.Errorf("%s: a redirect gave %v", name, got)
		}
	}
	if n := target.Connections(); n != 0 || len(f.Posts()) != 0 {
		t.Errorf("the redirect's target got %d connections, Slack took %d messages", n, len(f.Posts()))
	}
}

func TestB22_B23_TextsShowExactDigitsAndNoPlaceholders(t *testing.T) {
	f := newSlack(t)
	e := sinkstest.Confirming()
	e.Purchase.Amount = events.Amount{Minor: 9007199254740993, Currency: "INR"}
	e.Purchase.MoneyStatus.Paid, e.Purchase.Funding, e.Purchase.Held, e.Purchase.Receipt = nil, nil, nil, nil
	e.Purchase.PaymentReady.Closed, e.Purchase.SpendingClosed = nil, nil
	send(t, newSink(t, botConfig(f)), sinkstest.Notification(e))
	all := shown(last(f))
	if !strings.Contains(all, "INR 90071992547409.93") {
		t.Errorf("the digits are not there: %s", all)
	}
	for _, bad := range []string{"<nil>", "<no value>", "null", "%!", "e+"} {
		if strings.Contains(all, bad) {
			t.Errorf("the message holds %q: %s", bad, all)
		}
	}
}

func TestB39_NoErrorShowsTokenOrURL(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	for name, c := range map[string]slack.Config{
		"bot, refused port":     {BotToken: value(token), Channel: channel, APIURL: "http://" + l.Addr().String() + "/api/"},
		"webhook, refused port": {WebhookURL: value("http://" + l.Addr().String() + hookURL)},
		"webhook, unknown host": {WebhookURL: value("https://user:" + sinkstest.Canary + "@nowhere.invalid" + hookURL)},
		"webhook, no URL":       {WebhookURL: value("://" + hookURL)},
		"webhook, blocked":      {WebhookURL: value("https://10.0.0.5" + hookURL)},
		"webhook, empty":        {WebhookURL: value("")},
		"unreadable": {WebhookURL: func(context.Context) (secret.Value, error) {
			return secret.Value{}, errors.New("no such file")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Timeout = 5 * time.Second
			got := failure(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming()))
			for _, text := range []string{got.Error(), fmt.Sprintf("%+v %#v", got, got)} {
				if strings.Contains(text, sinkstest.Canary) {
					t.Errorf("a secret shows: %s", text)
				}
			}
			if !strings.Contains(got.Error(), sinkstest.SinkName) {
				t.Errorf("%q does not name the sink", got)
			}
		})
	}
}

func TestB40_OnlyTheStrippedEventIsShown(t *testing.T) {
	f := newSlack(t)
	e := sinkstest.Confirming()
	e.Purchase.Description, e.Purchase.MoneyStatus.MerchantOrderRef = sinkstest.Canary, sinkstest.Canary
	e.Purchase.Receipt = &events.Receipt{CardLast4: sinkstest.Canary, MerchantOrderRef: sinkstest.Canary}
	send(t, newSink(t, botConfig(f)), sinkstest.Notification(events.ForSink(e, nil)))
	for _, r := range f.Received() {
		if strings.Contains(strings.ReplaceAll(string(r.Body), token, ""), sinkstest.Canary) {
			t.Errorf("a personal field went out: %s", r.Body)
		}
	}
	if all := shown(last(f)); !strings.Contains(all, e.Purchase.Merchant.Name) {
		t.Errorf("the neighbours are gone: %s", all)
	}
}

func TestLivingMessage(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(sinkstest.Confirming())
	n.Kind, n.Urgent = sinks.KindOpen, true
	thread := send(t, s, n).Thread
	root := last(f)
	if thread["ts"] != root.TS || thread["channel"] != channel || root.Method != "postMessage" || root.ThreadTS != "" {
		t.Fatalf("the first message is %+v, its receipt %v", root, thread)
	}
	for _, step := range []struct {
		kind      sinks.Kind
		urgent    bool
		broadcast bool
	}{{sinks.KindEvent, false, false}, {sinks.KindUpdate, false, false}, {sinks.KindUpdate, true, true}, {sinks.KindRemind, false, true}, {sinks.KindResolve, false, true}} {
		n.Kind, n.Urgent, n.Thread = step.kind, step.urgent, thread
		before := len(f.Posts())
		thread = send(t, s, n).Thread
		posts := f.Posts()[before:]
		if len(posts) != 2 || posts[0].Method != "update" || posts[0].TS != root.TS || posts[1].Method != "postMessage" {
			t.Fatalf("%s made %+v", step.kind, posts)
		}
		if posts[1].ThreadTS != root.TS || posts[1].Broadcast != step.broadcast {
			t.Errorf("%s: thread %s, shown in the channel %v, want %v", step.kind, posts[1].ThreadTS, posts[1].Broadcast, step.broadcast)
		}
		mentions := strings.Contains(shown(posts[1]), "<!subteam^")
		if mentions != step.urgent || strings.Contains(shown(posts[0]), "<!subteam^") {
			t.Errorf("%s: mention %v, want %v, and never in the edit", step.kind, mentions, step.urgent)
		}
	}
}

func TestLostThreadBeginsANewMessage(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(sinkstest.Confirming())
	n.Thread = send(t, s, n).Thread
	f.Forget()
	first := n.Thread["ts"]
	again := send(t, s, n).Thread
	if p := last(f); p.Method != "postMessage" || p.ThreadTS != "" || again["ts"] == first {
		t.Errorf("the message is %+v, receipt %v", p, again)
	}
	for name, thread := range map[string]map[string]string{
		"other channel": {"ts": again["ts"], "channel": channel, "for": "C000"}, "emptied": {}, "half": {"ts": "1"},
	} {
		n.Thread = thread
		if got := send(t, s, n).Thread; got["ts"] == again["ts"] || last(f).ThreadTS != "" {
			t.Errorf("%s: no new message: %+v", name, last(f))
		}
	}
}

func TestNoticesArePostsOfTheirOwn(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(events.NewNotice("host-a", events.NoticeParked, now(), events.Notice{Connection: "host-a", Text: "x"}))
	n.Thread = map[string]string{"ts": "1", "channel": channel, "for": channel}
	if r := send(t, s, n); r.Thread != nil || last(f).Method != "postMessage" || last(f).ThreadTS != "" {
		t.Errorf("the notice became %+v, its receipt %v", last(f), r)
	}
}

// A try that fails between the update and the post says nothing twice when it is
// made again.
func TestRetryAfterTheUpdateRepeatsOnlyTheUpdate(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(sinkstest.Confirming())
	n.Thread = send(t, s, n).Thread
	f.Script(sinkfakes.Answer{Status: 200, Body: `{"ok":true,"channel":"` + channel + `","ts":"` + n.Thread["ts"] + `"}`}, sinkfakes.Answer{Status: 503})
	if got := failure(t, s, n); got.Verdict != sinks.Temporary {
		t.Fatalf("failure is %v", got)
	}
	send(t, s, n)
	replies := 0
	for _, p := range f.Posts() {
		if p.ThreadTS != "" {
			replies++
		}
	}
	if replies != 1 {
		t.Errorf("%d lines in the thread, want 1", replies)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]slack.Config{
		"neither":       {},
		"both":          {BotToken: value("x"), Channel: channel, WebhookURL: value("x")},
		"no channel":    {BotToken: value("x")},
		"api url":       {BotToken: value("x"), Channel: channel, APIURL: "slack.com"},
		"mention lines": {WebhookURL: value("x"), Mention: "a\nb"},
	} {
		if _, err := slack.New(c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestGolden(t *testing.T) {
	for _, e := range events.Samples() {
		n := sinkstest.Notification(e)
		name := string(events.SituationUnknown)
		if e.Purchase != nil {
			name = string(e.Purchase.Situation) + "-" + e.Subject[4:5]
			n.Urgent = e.Purchase.Situation == events.SituationNeedsSupport
		}
		if e.Notice != nil {
			name = "notice-" + string(e.Notice.Kind)
		}
		if e.Type == events.TypeOverdue {
			name = "overdue"
		}
		t.Run(name, func(t *testing.T) {
			f := newSlack(t)
			send(t, newSink(t, botConfig(f)), n)
			golden(t, name, last(f))
		})
	}
}

// One alarm from its beginning to its end, as the channel sees it.
func TestGoldenAlarm(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	samples := events.Samples()
	n := sinkstest.Notification(samples[3])
	for i, step := range []struct {
		kind   sinks.Kind
		event  events.Event
		urgent bool
		held   int
	}{
		{sinks.KindOpen, samples[3], false, 0}, {sinks.KindUpdate, samples[4], true, 2},
		{sinks.KindRemind, samples[4], false, 0}, {sinks.KindResolve, samples[5], false, 0},
	} {
		n.Kind, n.Event, n.Urgent, n.Held = step.kind, step.event, step.urgent, step.held
		n.Thread = send(t, s, n).Thread
		golden(t, fmt.Sprintf("alarm-%d-%s", i, step.kind), last(f))
	}
}

func golden(t *testing.T, name string, p sinkfakes.Post) {
	t.Helper()
	var message any
	if err := json.Unmarshal(p.Raw, &message); err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(message, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", path, got)
	}
}

package slack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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

// More facts than a section of fields holds come in several sections, and none is left out.
func TestB02_ManyFieldsAreSplit(t *testing.T) {
	at := now().Add(time.Hour)
	amount := &events.Amount{Minor: 100, Currency: "INR", Display: "₹1.00"}
	for name, config := range both() {
		t.Run(name, func(t *testing.T) {
			f := newSlack(t)
			e := sinkstest.Confirming()
			p := e.Purchase
			p.Deadlines = events.Deadlines{NextBy: &at, UserActionBy: &at, ApprovalBy: &at, FundingExpires: &at, SpendingExpires: &at}
			p.Funding, p.MoneyStatus.Paid = &events.Funding{Amount: *amount}, amount
			p.DetailsMissing = []string{"address", "phone"}
			n := sinkstest.Notification(e)
			n.Kind = sinks.KindRemind
			send(t, newSink(t, config(f)), n)
			var m struct {
				Attachments []struct {
					Blocks []struct{ Fields []struct{ Text string } }
				}
			}
			if err := json.Unmarshal(last(f).Raw, &m); err != nil {
				t.Fatal(err)
			}
			sections, fields := 0, 0
			for _, b := range m.Attachments[0].Blocks {
				if len(b.Fields) > 0 {
					sections++
				}
				fields += len(b.Fields)
			}
			want := len(words.Of(words.Occasion{Kind: words.KindRemind, Event: e, Since: n.Since, Now: now()}, nil).Major())
			if want <= 10 || fields != want || sections != (want+9)/10 {
				t.Errorf("%d fields in %d sections, want %d", fields, sections, want)
			}
		})
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

// Slack's sinks dial through the guard, too, with either way to post.
func TestB16_PrivateAddressesAreRefused(t *testing.T) {
	f := newSlack(t)
	for name, config := range both() {
		s, err := slack.New(config(f))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if got := failure(t, s, sinkstest.Notification(sinkstest.Confirming())); got.Verdict != sinks.Down || got.Reason != sinks.ReasonBlocked {
			t.Errorf("%s gave %s/%s: %v", name, got.Verdict, got.Reason, got)
		}
	}
	if n := f.Connections(); n != 0 {
		t.Errorf("%d connections", n)
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

func TestB40_NoSecretOfAnyTextIsShown(t *testing.T) {
	for name, config := range both() {
		t.Run(name, func(t *testing.T) {
			f := newSlack(t)
			c := config(f)
			s := newSink(t, c)
			n := sinkstest.Notification(sinkstest.Leaky())
			n.Thread = send(t, s, n).Thread
			sinkstest.Stripped(t, string(last(f).Raw))
			n.Kind = sinks.KindRemind
			send(t, s, n)
			for _, p := range f.Posts() {
				if p.ThreadTS == "" {
					sinkstest.Stripped(t, string(p.Raw))
				}
			}
		})
	}
}

// An answer that drips holds a try up to its time and is no success.
func TestAnswerThatDripsIsBounded(t *testing.T) {
	for name, config := range both() {
		t.Run(name, func(t *testing.T) {
			f := newSlack(t)
			c := config(f)
			c.Timeout = time.Second
			f.Script(sinkfakes.Answer{Handler: sinkfakes.DripBody})
			began := time.Now()
			got := failure(t, newSink(t, c), sinkstest.Notification(sinkstest.Confirming()))
			if took := time.Since(began); took > c.Timeout+2*time.Second || got.Verdict != sinks.Temporary {
				t.Errorf("took %v and gave %s/%s: %v", took, got.Verdict, got.Reason, got)
			}
		})
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

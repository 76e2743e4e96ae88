// Package slack posts notifications to a Slack channel: with a bot token one
// living message for each purchase, or as plain messages through an incoming
// webhook.
//
// With a bot token the first notification of a conversation posts a message. Later
// ones update it in place and add a line to its thread. Since an edit notifies
// nobody, an urgent change, a reminder and the end of an alarm are shown in the
// channel too. The update comes first and can be repeated; the post comes last, so a
// try that failed in between says nothing twice. When the message is gone, what was
// remembered of it is wrong, or the channel is another one, a new message begins.
//
// An answer counts as success only if it says so itself: ok true, or the word "ok"
// of an incoming webhook. Slack's error words decide what happens next; see verdict.go.
package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// Defaults of Config.
const (
	DefaultAPIURL  = "https://slack.com/api/"
	DefaultTimeout = 15 * time.Second
)

// Config describes one channel: BotToken with Channel, or WebhookURL.
type Config struct {
	Name       string
	BotToken   func(ctx context.Context) (secret.Value, error) // asked at each try
	Channel    string                                          // id, for BotToken
	WebhookURL func(ctx context.Context) (secret.Value, error) // asked at each try
	APIURL     string                                          // empty: DefaultAPIURL
	Mention    string                                          // added to urgent messages, in Slack's notation; empty: nobody
	Location   *time.Location                                  // of times where Slack cannot show the reader's own; nil: UTC
	Timeout    time.Duration                                   // of one try; zero: DefaultTimeout
	AllowCIDRs []netip.Prefix                                  // for a stand-in on a private address
	Client     *http.Client                                    // nil: a guarded one
	Now        func() time.Time                                // nil: time.Now
}

// Sink posts to one channel.
type Sink struct {
	config Config
	client *http.Client
	own    bool
	now    func() time.Time
}

// New checks a configuration and makes the sink.
func New(c Config) (*Sink, error) {
	s := &Sink{config: c, client: c.Client, now: c.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if s.config.Timeout <= 0 {
		s.config.Timeout = DefaultTimeout
	}
	var problems []error
	if (c.BotToken == nil) == (c.WebhookURL == nil) {
		problems = append(problems, errors.New("want either a bot token or a webhook url"))
	}
	if c.BotToken != nil && strings.TrimSpace(c.Channel) == "" {
		problems = append(problems, errors.New("a bot token needs a channel"))
	}
	if strings.ContainsAny(c.Mention, "\r\n") {
		problems = append(problems, errors.New("read mention: it holds a line break"))
	}
	endpoint, err := apiURL(c.APIURL)
	if err != nil {
		problems = append(problems, err)
	}
	s.config.APIURL = endpoint
	if s.client == nil {
		s.own = true
		if s.client, err = sinks.NewHTTPClient(sinks.ClientOptions{AllowCIDRs: c.AllowCIDRs}); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("build slack sink %s: %w", c.Name, errors.Join(problems...))
	}
	return s, nil
}

func apiURL(text string) (string, error) {
	if text == "" {
		return DefaultAPIURL, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("read api_url: want https:// and a host")
	}
	if !strings.HasSuffix(text, "/") {
		text += "/"
	}
	return text, nil
}

// Close gives up idle connections.
func (s *Sink) Close() error {
	if s.own {
		s.client.CloseIdleConnections()
	}
	return nil
}

// Send posts one notification, once.
func (s *Sink) Send(ctx context.Context, n sinks.Notification) (sinks.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	var receipt sinks.Receipt
	var f *sinks.Failure
	if s.config.BotToken != nil {
		receipt, f = s.sendBot(ctx, n)
	} else {
		receipt, f = s.sendWebhook(ctx, n)
	}
	if f != nil {
		return sinks.Receipt{}, f.At(s.config.Name)
	}
	return receipt, nil
}

func credential(ctx context.Context, read func(context.Context) (secret.Value, error)) (secret.Value, *sinks.Failure) {
	v, err := read(ctx)
	if err == nil && v.IsZero() {
		err = errors.New("it is empty")
	}
	if err != nil {
		return v, &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonAuth, Err: fmt.Errorf("read credential: %w", err)}
	}
	return v, nil
}

// sendWebhook posts to an incoming webhook, which has no threads and no edits.
func (s *Sink) sendWebhook(ctx context.Context, n sinks.Notification) (sinks.Receipt, *sinks.Failure) {
	address, f := credential(ctx, s.config.WebhookURL)
	if f != nil {
		return sinks.Receipt{}, f
	}
	u, err := url.Parse(address.Reveal())
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return sinks.Receipt{}, &sinks.Failure{Verdict: sinks.Paused, Reason: sinks.ReasonAuth, Err: errors.New("the webhook url is not a URL")}
	}
	mask := []secret.Value{address, secret.New(u.EscapedPath()), secret.New(u.RequestURI())}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if len(segment) > 5 {
			mask = append(mask, secret.New(segment))
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		mask = append(mask, secret.New(password), secret.New(u.User.Username()))
	}
	d := s.render(n, n.Urgent)
	blocks := api.Blocks{BlockSet: d.blocks}
	body, err := json.Marshal(api.WebhookMessage{
		Text: d.text, Blocks: &blocks, Attachments: d.attachments, Parse: "none", UnfurlLinks: new(bool), UnfurlMedia: new(bool),
	})
	if err != nil {
		return sinks.Receipt{}, &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender, Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address.Reveal(), bytes.NewReader(body))
	if err != nil {
		return sinks.Receipt{}, &sinks.Failure{Verdict: sinks.Paused, Reason: sinks.ReasonAuth, Err: errors.New("the webhook url is not a URL")}
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "Herald")
	a, err := sinks.Exchange(ctx, s.client, r, sinks.Bounds{}, func() []secret.Value { return mask })
	if err != nil {
		return sinks.Receipt{}, asFailure(err)
	}
	if f := webhookVerdict(a, s.now(), mask); f != nil {
		return sinks.Receipt{}, f
	}
	return sinks.Receipt{Detail: "ok"}, nil
}

func asFailure(err error) *sinks.Failure {
	var f *sinks.Failure
	if errors.As(err, &f) {
		return f
	}
	return &sinks.Failure{Verdict: sinks.Temporary, Reason: sinks.ReasonProtocol, Err: sinks.CleanError(err)}
}

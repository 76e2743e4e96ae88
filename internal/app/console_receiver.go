package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// ReceiverCheck is one thing that a webhook receiver was tried with.
type ReceiverCheck struct {
	Name   string `json:"name"`
	Want   string `json:"want"` // accept, refuse
	Status int    `json:"status,omitempty"`
	OK     bool   `json:"ok"`
	Says   string `json:"says"` // what it means, or what went wrong
	Millis int64  `json:"millis"`
}

// ReceiverOptions say which receiver to try.
type ReceiverOptions struct {
	URL     string
	Secret  secret.Value  // as in a webhook sink's secrets
	Timeout time.Duration // of one request; zero: 10 s
}

// slowReceiver is how long a receiver may take before a sender's usual time-out
// is near.
const slowReceiver = 5 * time.Second

// trial is one request and what a right receiver makes of it.
type trial struct {
	name   string
	want   string
	event  events.Event
	at     time.Time // of the signature
	sign   []secret.Value
	spoil  func(header http.Header, body []byte) []byte // changes what was signed
	if200  string                                       // what acceptance means
	ifFail string                                       // what a refusal means
}

const (
	accept = "accept"
	reject = "refuse"
)

// VerifyReceiver tries a webhook receiver with what a sender may send and with
// what a forger may. It says nothing about what the receiver does with an event;
// for the repeated one the operator has to look.
func VerifyReceiver(ctx context.Context, o ReceiverOptions) ([]ReceiverCheck, error) {
	target, err := url.Parse(o.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, &UsageError{errors.New("the receiver is not an http:// or https:// address")}
	}
	if o.Secret.IsZero() {
		return nil, &UsageError{errors.New("a secret is needed: an unsigned receiver has nothing to verify")}
	}
	if _, err := webhook.Sign([]secret.Value{o.Secret}, "msg", time.Now(), nil); err != nil {
		return nil, &UsageError{err}
	}
	everywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	client, err := sinks.NewHTTPClient(sinks.ClientOptions{AllowCIDRs: everywhere})
	if err != nil {
		return nil, fmt.Errorf("build client: %w", err)
	}
	defer client.CloseIdleConnections()
	if client.Timeout = o.Timeout; o.Timeout <= 0 {
		client.Timeout = webhook.DefaultTimeout
	}
	var out []ReceiverCheck
	for _, t := range trials(o.Secret, time.Now()) {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		out = append(out, try(ctx, client, o.URL, t))
	}
	return out, nil
}

// trials are the requests, in order: a repetition follows what it repeats.
func trials(key secret.Value, now time.Time) []trial {
	own := []secret.Value{key}
	other := []secret.Value{otherKey(key)}
	first, second, third := testEvent(1, now), testEvent(2, now), testEvent(3, now)
	const forger = "it accepts what anybody could have sent"
	return []trial{
		{name: "good", want: accept, event: first, at: now, sign: own, if200: "accepted", ifFail: "it refuses a rightly signed event"},
		{name: "repeated", want: accept, event: first, at: now, sign: own,
			if200: "accepted; see that it acted once only, by webhook-id", ifFail: "it refuses a repetition, which would then be repeated until it is buried"},
		{name: "newer", want: accept, event: third, at: now, sign: own, if200: "accepted", ifFail: "it refuses a rightly signed event"},
		{name: "out of order", want: accept, event: second, at: now, sign: own,
			if200: "accepted; see that the older revision changed nothing", ifFail: "it refuses an older revision, which would then be repeated until it is buried"},
		{name: "notice", want: accept, event: testNotice(now), at: now, sign: own,
			if200: "accepted", ifFail: "it refuses a type of event that it may not know: answer 2xx and pass over it"},
		{name: "rotated key", want: accept, event: testEvent(4, now), at: now, sign: []secret.Value{other[0], key},
			if200: "accepted by the second signature", ifFail: "it looks at the first signature only: during a rotation each delivery has two"},
		{name: "wrong signature", want: reject, event: testEvent(5, now), at: now, sign: other, if200: forger, ifFail: "refused"},
		{name: "no signature", want: reject, event: testEvent(6, now), at: now, sign: own, if200: forger, ifFail: "refused",
			spoil: func(h http.Header, b []byte) []byte { h.Del("Webhook-Signature"); return b }},
		{name: "changed body", want: reject, event: testEvent(7, now), at: now, sign: own, if200: forger, ifFail: "refused",
			spoil: func(_ http.Header, b []byte) []byte { return append(b, ' ') }},
		{name: "changed id", want: reject, event: testEvent(8, now), at: now, sign: own, if200: forger, ifFail: "refused",
			spoil: func(h http.Header, b []byte) []byte { h.Set("Webhook-Id", "another"); return b }},
		{name: "old timestamp", want: reject, event: testEvent(9, now), at: now.Add(-30 * time.Minute), sign: own,
			if200: "it accepts an old delivery that somebody recorded: refuse what is over 5 minutes off", ifFail: "refused"},
		{name: "future timestamp", want: reject, event: testEvent(10, now), at: now.Add(30 * time.Minute), sign: own,
			if200: "it accepts a delivery from the future: refuse what is over 5 minutes off", ifFail: "refused"},
	}
}

// testEvent is a marked purchase that does not exist, at a revision.
func testEvent(revision int64, now time.Time) events.Event {
	for _, e := range events.Samples() {
		if e.Purchase == nil || e.Purchase.Situation != events.SituationDone {
			continue
		}
		p := *e.Purchase
		p.Connection, p.Say = "herald-verify", "A test delivery. No such purchase exists."
		p.Reading.Revision, p.UpdatedAt = revision, now.UTC()
		e.Purchase, e.Source, e.Time = &p, "/connections/herald-verify", now.UTC()
		e.ID = events.EventID(e.Subject, events.Position{Epoch: now.Unix(), Revision: revision})
		return events.ForSink(e, nil)
	}
	return events.Event{}
}

func testNotice(now time.Time) events.Event {
	return events.NewNotice("herald-verify", events.NoticeSeeing, now, events.Notice{Text: "A test delivery. No such connection exists."})
}

// otherKey is a key of the same kind that nobody knows.
func otherKey(key secret.Value) secret.Value {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	text := base64.StdEncoding.EncodeToString(raw)
	for _, prefix := range []string{"whsec_", "whsk_"} {
		if strings.HasPrefix(key.Reveal(), prefix) {
			return secret.New(prefix + text)
		}
	}
	return secret.New(text)
}

// try sends one request and judges the answer.
func try(ctx context.Context, client *http.Client, target string, t trial) ReceiverCheck {
	c := ReceiverCheck{Name: t.name, Want: t.want}
	req, err := request(ctx, target, t)
	if err != nil {
		c.Says = err.Error()
		return c
	}
	begun := time.Now()
	resp, err := client.Do(req)
	took := time.Since(begun)
	c.Millis = took.Milliseconds()
	if err != nil {
		c.Says = "no answer: " + secret.CleanError(err).Error()
		return c
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	c.Status = resp.StatusCode
	accepted, refused := resp.StatusCode/100 == 2, resp.StatusCode/100 == 4
	switch {
	case accepted:
		c.OK, c.Says = t.want == accept, t.if200
	case refused && t.want == reject:
		c.OK, c.Says = true, t.ifFail
	case resp.StatusCode/100 == 3:
		c.Says = "it redirects, which is not followed: give the final address"
	case resp.StatusCode/100 == 5:
		c.Says = "it fails, and what fails is sent again"
	default:
		c.Says = t.ifFail
	}
	if c.OK && took > slowReceiver {
		c.Says += "; slowly: answer first and work after"
	}
	return c
}

func request(ctx context.Context, target string, t trial) (*http.Request, error) {
	body, err := events.Encode(t.event)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	signature, err := webhook.Sign(t.sign, t.event.ID, t.at, body)
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	h.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	h.Set("User-Agent", "Herald")
	h.Set("Herald-Kind", string(sinks.KindTest))
	h.Set("Webhook-Id", t.event.ID)
	h.Set("Webhook-Timestamp", strconv.FormatInt(t.at.Unix(), 10))
	h.Set("Webhook-Signature", signature)
	if t.spoil != nil {
		body = t.spoil(h, body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", secret.CleanError(err))
	}
	req.Header = h
	return req, nil
}

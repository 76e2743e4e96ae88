package slack

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// What a Receipt's Thread holds.
const (
	threadChannel = "channel" // id of the channel as Slack gave it
	threadTS      = "ts"      // the living message
	threadFor     = "for"     // the channel as configured then
)

// sendBot posts the living message, or updates it and adds to its thread.
func (s *Sink) sendBot(ctx context.Context, n sinks.Notification) (sinks.Receipt, *sinks.Failure) {
	token, f := credential(ctx, s.config.BotToken)
	if f != nil {
		return sinks.Receipt{}, f
	}
	b := &bot{sink: s, token: token}
	if n.Event.Purchase == nil { // a notice is news each time and must not hide in an old thread
		receipt, f := b.begin(ctx, n)
		receipt.Thread = nil
		return receipt, f
	}
	thread := n.Thread
	if thread[threadTS] == "" || thread[threadChannel] == "" || thread[threadFor] != s.config.Channel {
		return b.begin(ctx, n)
	}
	update := s.render(n, false)
	_, _, f = b.call(ctx, func(ctx context.Context, c *api.Client) (string, string, error) {
		channel, ts, _, err := c.UpdateMessageContext(ctx, thread[threadChannel], thread[threadTS], update.options()...)
		return channel, ts, err
	})
	if lost(f) {
		return b.begin(ctx, n)
	}
	if f != nil {
		return sinks.Receipt{}, f
	}
	options := append(s.history(n).options(), api.MsgOptionTS(thread[threadTS]))
	if loud(n) {
		options = append(options, api.MsgOptionBroadcast())
	}
	_, ts, f := b.call(ctx, func(ctx context.Context, c *api.Client) (string, string, error) {
		return c.PostMessageContext(ctx, thread[threadChannel], options...)
	})
	if lost(f) {
		return b.begin(ctx, n)
	}
	if f != nil {
		return sinks.Receipt{}, f
	}
	detail := "updated " + thread[threadTS]
	if isID(ts) {
		detail += ", posted " + ts
	}
	return sinks.Receipt{Thread: thread, Detail: detail}, nil
}

// isID reports what may be the id of a channel or the time stamp of a message. A
// receiver's answer is remembered for each purchase, so it has to be short.
func isID(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}

// loud reports what has to be seen in the channel: an edit or a reply would not be.
func loud(n sinks.Notification) bool {
	switch n.Kind {
	case sinks.KindRemind, sinks.KindResolve, sinks.KindTest, sinks.KindOpen:
		return true
	case sinks.KindEvent, sinks.KindUpdate:
	}
	return n.Urgent
}

type bot struct {
	sink  *Sink
	token secret.Value
}

// begin posts a new living message.
func (b *bot) begin(ctx context.Context, n sinks.Notification) (sinks.Receipt, *sinks.Failure) {
	options := b.sink.render(n, n.Urgent).options()
	channel, ts, f := b.call(ctx, func(ctx context.Context, c *api.Client) (string, string, error) {
		return c.PostMessageContext(ctx, b.sink.config.Channel, options...)
	})
	if f != nil {
		return sinks.Receipt{}, f
	}
	if channel == "" {
		channel = b.sink.config.Channel
	}
	if !isID(channel) || !isID(ts) { // no message of Slack's: nothing that could be kept or updated
		return sinks.Receipt{Detail: "posted"}, nil
	}
	return sinks.Receipt{
		Thread: map[string]string{threadChannel: channel, threadTS: ts, threadFor: b.sink.config.Channel},
		Detail: "posted " + ts,
	}, nil
}

// call makes one Web API call and reads its answer.
func (b *bot) call(ctx context.Context, f func(context.Context, *api.Client) (string, string, error)) (channel, ts string, _ *sinks.Failure) {
	w := &wire{client: b.sink.client, mask: []secret.Value{b.token}}
	c := api.New(b.token.Reveal(), api.OptionHTTPClient(w), api.OptionAPIURL(b.sink.config.APIURL))
	channel, ts, err := f(ctx, c)
	return channel, ts, w.verdict(err, b.sink.now())
}

// wire stands between the Slack library and the guarded client: it bounds what
// the library gets to read and keeps the answer for the verdict.
type wire struct {
	client *http.Client
	mask   []secret.Value
	answer *sinks.Answer
	failed *sinks.Failure
}

// apiBounds leave room for the message, which Slack repeats in its answer.
func apiBounds() sinks.Bounds { return sinks.Bounds{Keep: 512 << 10, Time: 10 * time.Second} }

// Do sends one request of the library.
func (w *wire) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("User-Agent", "Herald")
	a, err := sinks.Exchange(r.Context(), w.client, r, apiBounds(), func() []secret.Value { return w.mask })
	if err != nil {
		w.failed = asFailure(err)
		return nil, err
	}
	w.answer = &a
	return &http.Response{
		StatusCode: a.Status, Status: http.StatusText(a.Status), Header: a.Header, Request: r,
		Body: io.NopCloser(bytes.NewReader(a.Body)),
	}, nil
}

func (w *wire) verdict(err error, now time.Time) *sinks.Failure {
	switch {
	case w.failed != nil:
		return w.failed
	case w.answer == nil && err != nil:
		return &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender, Err: sinks.CleanError(err, w.mask...)}
	case w.answer == nil:
		return nil
	}
	return apiVerdict(*w.answer, err, now, w.mask)
}

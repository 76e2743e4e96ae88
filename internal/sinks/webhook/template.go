package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"text/template"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

// maxBody bounds what a template may make, in bytes.
const maxBody = 1 << 20

// View is what a template is given.
type View struct {
	Kind         sinks.Kind
	Urgent       bool
	Replay       bool
	Subscription string
	Since        time.Time
	Title        string       // what is the matter, a few words
	Subject      string       // Title with what it is about
	Text         string       // the sentences, one line
	Avoid        string       // what nobody should do, as at the end of Text; "": nothing
	Next         string       // what comes now, as at the end of Text; "": nothing
	Facts        []words.Fact // names and values, as in Slack and mail
	ID           string       // of the event
	Key          string       // the same for all purchases of a chain; for notices the connection
	Event        events.Event
	Purchase     *events.Purchase // nil on notices
	Notice       *events.Notice   // nil on purchases
}

func view(n sinks.Notification, m words.Message) View {
	return View{
		Kind: n.Kind, Urgent: n.Urgent, Replay: n.Replay, Subscription: n.Subscription, Since: n.Since,
		Title: m.Title, Subject: m.Subject, Text: m.Text(), Avoid: m.Avoid, Next: m.Next, Facts: m.Facts,
		ID: n.Event.ID, Key: n.Key(), Event: n.Event, Purchase: n.Event.Purchase, Notice: n.Event.Notice,
	}
}

// newTemplate compiles a template and tries it on sample events, so that what
// cannot work is found before the first alert.
func newTemplate(c Config) (renderer, error) {
	contentType := c.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, errors.New("read content_type: not a media type")
	}
	isJSON := media == "application/json" || strings.HasSuffix(media, "+json")
	t, err := c.compile()
	if err != nil {
		return nil, fmt.Errorf("compile template: %w", err)
	}
	render := func(n sinks.Notification, stopped func() error) (payload, error) {
		one, err := t.Clone() // its functions count for this rendering alone
		if err != nil {
			return payload{}, fmt.Errorf("render template: %w", err)
		}
		b := bounded{limit: maxBody}
		if err := one.Funcs(functions(c.Location, newMeter(stopped))).Execute(&b, view(n, c.say(n))); err != nil {
			return payload{}, fmt.Errorf("render template: %w", err)
		}
		if isJSON && !json.Valid(b.Bytes()) {
			return payload{}, errors.New("render template: the result is not valid JSON; use the json function for values")
		}
		return payload{body: b.Bytes(), contentType: contentType}, nil
	}
	send := func(ctx context.Context, n sinks.Notification, _ []secret.Value) (payload, error) {
		return render(n, ctx.Err)
	}
	return send, try(render)
}

func (c *Config) compile() (*template.Template, error) {
	if len(c.Template) > maxTemplate {
		return nil, errors.New("it is too large")
	}
	t, err := template.New("body").Option("missingkey=error").Funcs(functions(c.Location, newMeter(nil))).Parse(c.Template)
	if err != nil {
		return nil, err
	}
	return t, metered(t)
}

// try renders the samples with every kind. Samples hold no placeholder words, so
// one in the result is a mistake of the template.
func try(render func(sinks.Notification, func() error) (payload, error)) error {
	never := func() error { return nil }
	for _, e := range samples() {
		for _, kind := range []sinks.Kind{sinks.KindEvent, sinks.KindRemind, sinks.KindResolve, sinks.KindTest} {
			p, err := render(sinks.Notification{Kind: kind, Event: e, Subscription: "sample", Since: e.Time}, never)
			if err != nil {
				return fmt.Errorf("try template on a sample (%s): %w", e.Type, err)
			}
			for _, placeholder := range []string{"<nil>", "<no value>", "%!"} {
				if bytes.Contains(p.body, []byte(placeholder)) {
					return fmt.Errorf("try template on a sample (%s): the result holds %s, a value that is not there", e.Type, placeholder)
				}
			}
		}
	}
	return nil
}

// samples are those of all events, and two whose texts hold what a template has
// to escape: one that puts them between quotes itself makes no valid JSON of them.
func samples() []events.Event {
	const awkward = `a "quoted" \ text`
	all := events.Samples()
	purchase, notice := all[0], all[0]
	for _, e := range all {
		switch {
		case e.Notice != nil:
			notice = e
		case e.Purchase.Situation == events.SituationConfirming:
			purchase = e
		}
	}
	p, sum := purchase.Purchase, events.Amount{Minor: 100, Currency: "INR", Display: awkward}
	p.Merchant.Name, p.Say, p.Description, p.Amount, p.DetailsMissing = awkward, awkward, awkward, sum, []string{awkward}
	p.Agent.ID, p.Agent.DisplayName, p.Question = awkward, awkward, &events.Question{ID: awkward, Prompt: awkward}
	p.MoneyStatus.Paid, p.MoneyStatus.MerchantOrderRef = &sum, awkward
	p.Receipt = &events.Receipt{Paid: sum, CardNetwork: awkward, CardLast4: awkward, MerchantOrderRef: awkward}
	p.Funding, p.Held = &events.Funding{Amount: sum}, &events.Held{Amount: &sum}
	p.Support = events.Support{Ref: awkward, RequestID: awkward, TraceID: awkward}
	notice.Notice.Text, notice.Notice.Support = awkward, p.Support
	return append(events.Samples(), purchase, notice)
}

// bounded is a buffer that refuses to grow without end.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, errors.New("the result is too large")
	}
	return b.Buffer.Write(p)
}

// say puts a notification into words.
func (c *Config) say(n sinks.Notification) words.Message {
	o := words.Occasion{
		Kind: words.Kind(n.Kind), Event: n.Event, Subscription: n.Subscription,
		Urgent: n.Urgent, Replay: n.Replay, Since: n.Since, Held: n.Held,
	}
	if c.Now != nil {
		o.Now = c.Now()
	}
	return words.Of(o, c.Location)
}

package webhook

import (
	"bytes"
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

// functions are few and total: a template that needs more should be a receiver
// of the event itself.
//
//	json V        V as JSON, strings with their quotes
//	amount A      an amount as Envoy displays it
//	major N       minor units as a decimal number: 249900 is 2499.00
//	time T        T as RFC 3339 in the configured time zone; "" for no time
//	upper, lower, plain (one line without invisible characters)
//	trunc N S     at most N characters of S, cut between whole ones
//	join SEP L    the items of L with SEP between them
func functions(loc *time.Location) template.FuncMap {
	if loc == nil {
		loc = time.UTC
	}
	return template.FuncMap{
		"json":   marshal,
		"amount": amount,
		"major":  words.Major,
		"time":   func(v any) (string, error) { return formatTime(v, loc) },
		"upper":  strings.ToUpper,
		"lower":  strings.ToLower,
		"plain":  words.Plain,
		"trunc":  func(n int, s string) string { return words.Cut(s, n, words.Units) },
		"join":   func(sep string, list []string) string { return strings.Join(list, sep) },
	}
}

func marshal(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("encode value: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func amount(v any) (string, error) {
	switch a := v.(type) {
	case events.Amount:
		return words.Amount(a), nil
	case *events.Amount:
		if a == nil {
			return "", nil
		}
		return words.Amount(*a), nil
	}
	return "", errors.New("amount wants an amount")
}

func formatTime(v any, loc *time.Location) (string, error) {
	switch t := v.(type) {
	case time.Time:
		if t.IsZero() {
			return "", nil
		}
		return t.In(loc).Format(time.RFC3339), nil
	case *time.Time:
		if t == nil {
			return "", nil
		}
		return formatTime(*t, loc)
	}
	return "", errors.New("time wants a time")
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
	t, err := template.New("body").Option("missingkey=error").Funcs(functions(c.Location)).Parse(c.Template)
	if err != nil {
		return nil, fmt.Errorf("compile template: %w", err)
	}
	render := func(n sinks.Notification, _ []secret.Value) (payload, error) {
		b := bounded{limit: maxBody}
		if err := t.Execute(&b, view(n, c.say(n))); err != nil {
			return payload{}, fmt.Errorf("render template: %w", err)
		}
		if isJSON && !json.Valid(b.Bytes()) {
			return payload{}, errors.New("render template: the result is not valid JSON; use the json function for values")
		}
		return payload{body: b.Bytes(), contentType: contentType}, nil
	}
	return render, try(render)
}

// try renders the samples with every kind. Samples hold no placeholder words, so
// one in the result is a mistake of the template.
func try(render renderer) error {
	for _, e := range samples() {
		for _, kind := range []sinks.Kind{sinks.KindEvent, sinks.KindRemind, sinks.KindResolve, sinks.KindTest} {
			p, err := render(sinks.Notification{Kind: kind, Event: e, Subscription: "sample", Since: e.Time}, nil)
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

func samples() []events.Event { return events.Samples() }

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

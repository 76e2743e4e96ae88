package email

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

const subjectLimit = 200

// compose writes the whole mail and gives its Message-ID without brackets.
func (s *Sink) compose(n sinks.Notification) (content []byte, id string, err error) {
	m := say(n, s.config.Location)
	html, err := page(m)
	if err != nil {
		return nil, "", err
	}
	id = s.messageID(n)
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithCharset(gomail.CharsetUTF8), gomail.WithEncoding(gomail.EncodingQP))
	msg.FromMailAddress(s.from)
	msg.ToMailAddress(s.to...)
	msg.Subject(subject(m))
	msg.SetDateWithValue(s.now())
	msg.SetMessageIDWithValue(id)
	root := "<" + s.rootID(n) + ">"
	msg.SetGenHeader(gomail.HeaderInReplyTo, root)
	msg.SetGenHeader(gomail.HeaderReferences, root)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.Urgent {
		msg.SetGenHeader("Importance", "high")
	}
	msg.SetBodyString(gomail.TypeTextPlain, text(m))
	msg.AddAlternativeString(gomail.TypeTextHTML, html)
	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		return nil, "", fmt.Errorf("write mail: %w", err)
	}
	return b.Bytes(), id, nil
}

// subject is one line that no reader takes for an encoded word of its own.
func subject(m words.Message) string {
	return strings.ReplaceAll(words.Cut(words.Plain(m.Subject), subjectLimit, words.Units), "=?", "= ?")
}

// messageID is the same for every try of a notification, and another for every
// other notification, reminders of one event among them.
func (s *Sink) messageID(n sinks.Notification) string {
	local := n.Event.ID
	if n.Kind != "" && n.Kind != sinks.KindEvent {
		local += "." + string(n.Kind)
	}
	if n.Kind == sinks.KindRemind {
		local += strconv.Itoa(n.Reminded)
	}
	if n.Replay {
		local += ".replay"
	}
	return atom(local) + "." + atom(s.config.Name) + "@" + s.domain()
}

// rootID names the conversation.
func (s *Sink) rootID(n sinks.Notification) string {
	key := strings.Trim(n.Key(), "/")
	if key == "" {
		key = n.Event.Subject
	}
	return "conversation." + atom(key) + "." + atom(s.config.Name) + "@" + s.domain()
}

func (s *Sink) domain() string {
	return s.from.Address[strings.LastIndexByte(s.from.Address, '@')+1:]
}

// atom keeps what may stand in a Message-ID, and replaces anything else by its hash.
func atom(text string) string {
	const limit = 150
	clean := text != "" && len(text) <= limit && !strings.HasPrefix(text, ".") && !strings.HasSuffix(text, ".") && !strings.Contains(text, "..")
	for _, c := range []byte(text) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		clean = clean && (letter || strings.IndexByte("-_.", c) >= 0)
	}
	if clean {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// text is the plain part: nothing in it is escaped.
func text(m words.Message) string {
	var b strings.Builder
	b.WriteString(m.Title + "\n\n")
	for _, line := range m.Lines {
		b.WriteString(line + "\n")
	}
	for _, q := range m.Quotes {
		b.WriteString("\n" + q.By + ":\n  " + q.Text + "\n")
	}
	b.WriteString("\n")
	for _, f := range m.Facts {
		b.WriteString(f.Name + ": " + f.Value + "\n")
	}
	b.WriteString("\n-- \nHerald · " + strings.Join(m.Footer, " · ") + "\n")
	return b.String()
}

// page is the HTML part. html/template escapes whatever is put in.
func page(m words.Message) (string, error) {
	t, err := template.New("mail").Parse(layout)
	if err != nil {
		return "", fmt.Errorf("compile mail: %w", err)
	}
	var b strings.Builder
	err = t.Execute(&b, struct {
		words.Message
		Color template.CSS
	}{m, template.CSS(m.Tone.Color())}) //nolint:gosec // a constant of ours
	if err != nil {
		return "", fmt.Errorf("render mail: %w", err)
	}
	return b.String(), nil
}

const layout = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Subject}}</title></head>
<body style="margin:0;padding:16px;font-family:sans-serif;font-size:15px;line-height:1.5;color:#222">
<div style="max-width:640px;border-left:6px solid {{.Color}};padding-left:16px">
<h1 style="font-size:19px;margin:0 0 12px">{{.Subject}}</h1>
{{range .Lines}}<p style="margin:0 0 8px">{{.}}</p>
{{end}}{{range .Quotes}}<p style="margin:12px 0 4px;color:#555">{{.By}}:</p><blockquote style="margin:0 0 8px;padding-left:12px;border-left:3px solid #ddd" dir="auto">{{.Text}}</blockquote>
{{end}}<table role="presentation" style="border-collapse:collapse;margin-top:12px">
{{range .Facts}}<tr><td style="padding:2px 16px 2px 0;color:#555;vertical-align:top">{{.Name}}</td><td style="padding:2px 0" dir="auto">{{.Value}}</td></tr>
{{end}}</table>
<p style="margin-top:16px;color:#777;font-size:12px">Herald{{range .Footer}} · {{.}}{{end}}</p>
</div></body></html>
`

// say puts a notification into words.
func say(n sinks.Notification, loc *time.Location) words.Message {
	return words.Of(words.Occasion{
		Kind: words.Kind(n.Kind), Event: n.Event, Subscription: n.Subscription,
		Urgent: n.Urgent, Replay: n.Replay, Since: n.Since, Held: n.Held,
	}, loc)
}

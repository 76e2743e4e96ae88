package email

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

const subjectLimit = 200

// compose writes the whole mail and gives its Message-ID without brackets.
func (s *Sink) compose(n sinks.Notification) (content []byte, id string, err error) {
	m := s.say(n)
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
	b.WriteString(m.Subject + "\n\n")
	for _, line := range m.Lines {
		b.WriteString(line + "\n")
	}
	if m.Avoid != "" {
		b.WriteString("\n" + m.Avoid + "\n")
	}
	if m.Next != "" {
		b.WriteString("\nNext: " + m.Next + "\n")
	}
	for _, q := range m.Quotes {
		b.WriteString("\n" + q.By + ":\n  " + q.Text + "\n")
	}
	for _, facts := range [][]words.Fact{m.Major(), m.Minor()} {
		if len(facts) > 0 {
			b.WriteString("\n")
		}
		for _, f := range facts {
			b.WriteString(f.Name + ": " + f.Value + "\n")
		}
	}
	b.WriteString("\n-- \nHerald · " + strings.Join(m.Footer, " · ") + "\n")
	return b.String()
}

// say puts a notification into words.
func (s *Sink) say(n sinks.Notification) words.Message {
	return words.Of(words.Occasion{
		Kind: words.Kind(n.Kind), Event: n.Event, Subscription: n.Subscription,
		Urgent: n.Urgent, Replay: n.Replay, Since: n.Since, Now: s.now(), Held: n.Held,
	}, s.config.Location)
}

package slack

import (
	"fmt"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

// Slack's published limits are 3,000 characters for the text of a section, 2,000
// for a field, 10 fields a section, 10 elements a context and 50 blocks a message.
// Ours stay below, counted in UTF-16 units after escaping.
const (
	sectionLimit  = 2900
	fieldLimit    = 500
	fieldsPerPart = 10
	headlineLimit = 700
	contextLimit  = 1500
)

// draft is a message before it is sent: a headline, and the details beside a
// coloured bar.
type draft struct {
	text        string // what notifications and old clients show
	blocks      []api.Block
	attachments []api.Attachment
}

func (d draft) options() []api.MsgOption {
	return []api.MsgOption{
		api.MsgOptionText(d.text, false), api.MsgOptionBlocks(d.blocks...), api.MsgOptionAttachments(d.attachments...),
		api.MsgOptionDisableLinkUnfurl(), api.MsgOptionDisableMediaUnfurl(),
		api.MsgOptionParse(false),
	}
}

// mrkdwn makes a text object in which Slack follows only notation that is written
// out, so that names and addresses in the text stay text.
func mrkdwn(text string) *api.TextBlockObject {
	return &api.TextBlockObject{Type: api.MarkdownType, Text: text, Verbatim: true}
}

// render makes the whole message; mention asks for the configured mention.
func (s *Sink) render(n sinks.Notification, mention bool) draft {
	m := say(n, s.config.Location)
	text := escape(m.Subject, headlineLimit)
	headline := "*" + text + "*"
	if mention && s.config.Mention != "" {
		text = s.config.Mention + " " + text
		headline = s.config.Mention + " " + headline
	}
	details := []api.Block{}
	if len(m.Lines) > 0 {
		details = append(details, api.NewSectionBlock(mrkdwn(escape(strings.Join(m.Lines, " "), sectionLimit)), nil, nil))
	}
	details = append(details, fields(m.Facts)...)
	for _, q := range m.Quotes {
		label := escape(q.By, fieldLimit) + ": "
		details = append(details, api.NewSectionBlock(mrkdwn(label+escape(q.Text, sectionLimit-len(label))), nil, nil))
	}
	if len(m.Footer) > 0 {
		details = append(details, api.NewContextBlock("", mrkdwn(escape(strings.Join(m.Footer, " · "), contextLimit))))
	}
	return draft{
		text:   text,
		blocks: []api.Block{api.NewSectionBlock(mrkdwn(headline), nil, nil)},
		attachments: []api.Attachment{{
			Color: m.Tone.Color(), Fallback: escape(m.Subject, headlineLimit), Blocks: api.Blocks{BlockSet: details},
		}},
	}
}

// fields puts facts into sections of ten.
func fields(facts []words.Fact) []api.Block {
	var blocks []api.Block
	for len(facts) > 0 {
		part := facts[:min(len(facts), fieldsPerPart)]
		facts = facts[len(part):]
		objects := make([]*api.TextBlockObject, 0, len(part))
		for _, f := range part {
			objects = append(objects, mrkdwn("*"+escape(f.Name, fieldLimit)+"*\n"+value(f)))
		}
		blocks = append(blocks, api.NewSectionBlock(nil, objects, nil))
	}
	return blocks
}

// value shows a moment in the time zone of whoever reads it.
func value(f words.Fact) string {
	text := escape(f.Value, fieldLimit)
	if f.At.IsZero() {
		return text
	}
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time_secs}|%s>", f.At.Unix(), text)
}

// history is the line that a change leaves in the thread.
func (s *Sink) history(n sinks.Notification) draft {
	m := say(n, s.config.Location)
	text := escape(m.Subject, headlineLimit)
	if at := n.Event.Time; !at.IsZero() {
		text = value(words.Fact{Value: words.Moment(at, s.zone()), At: at}) + " " + text
	}
	if n.Urgent && s.config.Mention != "" {
		text = s.config.Mention + " " + text
	}
	body := text
	if len(m.Lines) > 0 {
		body += "\n" + escape(strings.Join(m.Lines, " "), sectionLimit-2*headlineLimit)
	}
	if len(m.Footer) > 0 {
		body += "\n_" + escape(strings.Join(m.Footer, " · "), fieldLimit) + "_"
	}
	return draft{text: text, blocks: []api.Block{api.NewSectionBlock(mrkdwn(body), nil, nil)}}
}

func (s *Sink) zone() *time.Location {
	if s.config.Location == nil {
		return time.UTC
	}
	return s.config.Location
}

// say puts a notification into words.
func say(n sinks.Notification, loc *time.Location) words.Message {
	return words.Of(words.Occasion{
		Kind: words.Kind(n.Kind), Event: n.Event, Subscription: n.Subscription,
		Urgent: n.Urgent, Replay: n.Replay, Since: n.Since, Held: n.Held,
	}, loc)
}

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
	linesLimit    = 2000 // of our sentences, which leaves room for the warning and what comes next
	fieldLimit    = 500
	fieldsPerPart = 10
	headlineLimit = 700
	contextLimit  = 1500
	historyLimit  = 1000 // of our sentences in the thread
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
	m := s.say(n)
	text := escape(m.Subject, headlineLimit)
	headline := "*" + text + "*"
	if mention && s.config.Mention != "" {
		text = s.config.Mention + " " + text
		headline = s.config.Mention + " " + headline
	}
	details := []api.Block{}
	if body := sentences(m, linesLimit); body != "" {
		details = append(details, api.NewSectionBlock(mrkdwn(body), nil, nil))
	}
	details = append(details, s.fields(m.Major())...)
	for _, q := range m.Quotes {
		label := escape(q.By, fieldLimit) + ": "
		details = append(details, api.NewSectionBlock(mrkdwn(label+escape(q.Text, sectionLimit-len(label))), nil, nil))
	}
	if minor := listed(m.Minor()); minor != "" {
		details = append(details, api.NewContextBlock("", mrkdwn(minor)))
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

// sentences are what we say, with the warning where the eye falls on it.
func sentences(m words.Message, limit int) string {
	parts := []string{}
	if len(m.Lines) > 0 {
		parts = append(parts, escape(strings.Join(m.Lines, " "), limit))
	}
	if m.Avoid != "" {
		parts = append(parts, "*"+escape(m.Avoid, fieldLimit)+"*")
	}
	if m.Next != "" {
		parts = append(parts, "Next: "+escape(m.Next, fieldLimit))
	}
	return strings.Join(parts, "\n")
}

// listed puts the minor facts into one small line.
func listed(facts []words.Fact) string {
	parts := make([]string, 0, len(facts))
	for _, f := range facts {
		parts = append(parts, f.Name+" "+f.Value)
	}
	return escape(strings.Join(parts, " · "), contextLimit)
}

// fields puts facts into sections of ten.
func (s *Sink) fields(facts []words.Fact) []api.Block {
	var blocks []api.Block
	for len(facts) > 0 {
		part := facts[:min(len(facts), fieldsPerPart)]
		facts = facts[len(part):]
		objects := make([]*api.TextBlockObject, 0, len(part))
		for _, f := range part {
			objects = append(objects, mrkdwn("*"+escape(f.Name, fieldLimit)+"*\n"+s.value(f)))
		}
		blocks = append(blocks, api.NewSectionBlock(nil, objects, nil))
	}
	return blocks
}

// value shows a moment in the time zone of whoever reads it. A living message is
// read long after it was written, so the age of what is past is left to Slack.
func (s *Sink) value(f words.Fact) string {
	text := escape(f.Value, fieldLimit)
	if f.At.IsZero() {
		return text
	}
	form := "{date_short_pretty}, {time}"
	if f.At.Before(s.now()) {
		form += " ({ago})"
	}
	return fmt.Sprintf("<!date^%d^%s|%s>", f.At.Unix(), form, text)
}

// history is the line that a change leaves in the thread. Shown in the channel it
// has to be enough by itself.
func (s *Sink) history(n sinks.Notification) draft {
	m := s.say(n)
	text := escape(m.Subject, headlineLimit)
	body := "*" + text + "*"
	if n.Urgent && s.config.Mention != "" {
		text = s.config.Mention + " " + text
		body = s.config.Mention + " " + body
	}
	if said := sentences(m, historyLimit); said != "" {
		body += "\n" + said
	}
	blocks := []api.Block{api.NewSectionBlock(mrkdwn(body), nil, nil)}
	var small []string
	if reference := m.Reference(); reference != "" && m.Avoid != "" {
		small = append(small, escape(reference, fieldLimit))
	}
	if at := n.Event.Time; !at.IsZero() {
		small = append(small, "as of "+fmt.Sprintf("<!date^%d^{date_short_pretty}, {time}|%s>", at.Unix(), words.Moment(at, s.zone())))
	}
	if len(m.Footer) > 0 {
		small = append(small, escape(strings.Join(m.Footer, " · "), fieldLimit))
	}
	if len(small) > 0 {
		blocks = append(blocks, api.NewContextBlock("", mrkdwn(strings.Join(small, " · "))))
	}
	return draft{text: text, blocks: blocks}
}

func (s *Sink) zone() *time.Location {
	if s.config.Location == nil {
		return time.UTC
	}
	return s.config.Location
}

// say puts a notification into words.
func (s *Sink) say(n sinks.Notification) words.Message {
	return words.Of(words.Occasion{
		Kind: words.Kind(n.Kind), Event: n.Event, Subscription: n.Subscription,
		Urgent: n.Urgent, Replay: n.Replay, Since: n.Since, Now: s.now(), Held: n.Held,
	}, s.config.Location)
}

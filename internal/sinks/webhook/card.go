package webhook

import (
	"strconv"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

// maxCard keeps a card well below the 28 KB that Teams takes.
const maxCard = 20 << 10

type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	ContentType string       `json:"contentType"`
	Content     adaptiveCard `json:"content"`
}

type adaptiveCard struct {
	Schema  string        `json:"$schema"`
	Type    string        `json:"type"`
	Version string        `json:"version"`
	Body    []cardElement `json:"body"`
}

type cardElement struct {
	Type   string     `json:"type"`
	Text   string     `json:"text,omitempty"`
	Size   string     `json:"size,omitempty"`
	Weight string     `json:"weight,omitempty"`
	Color  string     `json:"color,omitempty"`
	Subtle bool       `json:"isSubtle,omitempty"`
	Wrap   bool       `json:"wrap,omitempty"`
	Facts  []cardFact `json:"facts,omitempty"`
}

type cardFact struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

// teams makes an Adaptive Card. Cards read Markdown, so text from outside is
// escaped: links and emphasis stay text.
func teams(n sinks.Notification, m words.Message) (payload, error) {
	body := []cardElement{{
		Type: "TextBlock", Text: markdown(words.Cut(m.Subject, 300, words.Units)), Size: "Large", Weight: "Bolder", Color: cardColor(m.Tone), Wrap: true,
	}}
	budget := maxCard
	add := func(e cardElement) {
		if budget -= len(e.Text) + 100; budget > 0 {
			body = append(body, e)
		}
	}
	add(cardElement{Type: "TextBlock", Text: markdown(strings.Join(m.Lines, " ")), Wrap: true})
	if m.Avoid != "" {
		add(cardElement{Type: "TextBlock", Text: markdown(m.Avoid), Weight: "Bolder", Wrap: true})
	}
	if m.Next != "" {
		add(cardElement{Type: "TextBlock", Text: "Next: " + markdown(m.Next), Wrap: true})
	}
	facts := make([]cardFact, 0, len(m.Facts))
	for _, f := range m.Facts {
		if budget -= len(f.Name) + 2*len(f.Value) + 50; budget > 0 {
			facts = append(facts, cardFact{f.Name, markdown(f.Value)})
		}
	}
	body = append(body, cardElement{Type: "FactSet", Facts: facts})
	for _, q := range m.Quotes {
		add(cardElement{Type: "TextBlock", Text: q.By + ": " + markdown(words.Cut(q.Text, 1000, words.Units)), Wrap: true})
	}
	add(cardElement{Type: "TextBlock", Text: markdown(strings.Join(append(m.Footer, "key "+dedupKey(n)), " · ")), Subtle: true, Size: "Small", Wrap: true})
	return jsonPayload(teamsMessage{Type: "message", Attachments: []teamsAttachment{{
		ContentType: "application/vnd.microsoft.card.adaptive",
		Content:     adaptiveCard{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4", Body: body},
	}}})
}

func cardColor(t words.Tone) string {
	switch t {
	case words.ToneGood:
		return "Good"
	case words.ToneWarn:
		return "Warning"
	case words.ToneBad:
		return "Attention"
	case words.ToneWait:
		return "Accent"
	case words.ToneCalm:
	}
	return "Default"
}

type discordMessage struct {
	Embeds  []discordEmbed  `json:"embeds"`
	Allowed discordMentions `json:"allowed_mentions"`
}

type discordMentions struct {
	Parse []string `json:"parse"` // empty: nothing in the text notifies anybody
}

type discordEmbed struct {
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Color       int64          `json:"color"`
	Timestamp   string         `json:"timestamp,omitempty"`
	Fields      []discordField `json:"fields,omitempty"`
	Footer      *discordFooter `json:"footer,omitempty"`
}

type discordField struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Inline bool   `json:"inline"`
}

type discordFooter struct {
	Text string `json:"text"`
}

// Discord's published limits, 6,000 for the whole embed among them.
const (
	discordTitle       = 256
	discordDescription = 2000
	discordFields      = 20
	discordValue       = 120
)

func discord(n sinks.Notification, m words.Message) (payload, error) {
	var text strings.Builder
	text.WriteString(markdown(strings.Join(m.Lines, " ")))
	if m.Avoid != "" {
		text.WriteString("\n**" + markdown(m.Avoid) + "**")
	}
	if m.Next != "" {
		text.WriteString("\nNext: " + markdown(m.Next))
	}
	for _, q := range m.Quotes {
		text.WriteString("\n\n" + q.By + ": " + markdown(words.Cut(q.Text, 600, words.Units)))
	}
	embed := discordEmbed{
		Title:       words.Cut(markdown(words.Cut(m.Subject, discordTitle/2, words.Units)), discordTitle, words.Units),
		Description: words.Cut(text.String(), discordDescription, words.Units),
		Footer:      &discordFooter{words.Cut(strings.Join(append(m.Footer, "key "+dedupKey(n)), " · "), 500, words.Units)},
	}
	embed.Color, _ = strconv.ParseInt(m.Tone.Color()[1:], 16, 32)
	if !n.Event.Time.IsZero() {
		embed.Timestamp = n.Event.Time.UTC().Format(time.RFC3339)
	}
	for _, f := range m.Facts[:min(len(m.Facts), discordFields)] {
		embed.Fields = append(embed.Fields, discordField{f.Name, words.Cut(markdown(f.Value), discordValue, words.Units), true})
	}
	return jsonPayload(discordMessage{Embeds: []discordEmbed{embed}, Allowed: discordMentions{Parse: []string{}}})
}

// markdown escapes the characters that Markdown reads, and breaks addresses so
// that they do not become links, and the {{DATE()}} of cards.
func markdown(s string) string {
	s = strings.NewReplacer(
		`\`, `\\`, `*`, `\*`, `_`, `\_`, `~`, `\~`, "`", "\\`", `[`, `\[`, `]`, `\]`,
		`<`, `\<`, `>`, `\>`, `|`, `\|`, `#`, `\#`, `@`, "@\u2060", `{{`, "{\u2060{",
	).Replace(s)
	return unlinked(s)
}

// unlinked breaks addresses: readers make links of them by themselves.
func unlinked(s string) string { return strings.ReplaceAll(s, "://", ":\u2060//") }

package sinkfakes

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
)

// Slack plays the parts of Slack that Herald speaks to: chat.postMessage,
// chat.update and incoming webhooks, with Slack's answers and limits. Its Hook
// records the raw requests and takes scripted answers.
type Slack struct {
	Hook
	options SlackOptions

	mu    sync.Mutex
	next  int
	posts []Post
}

// SlackOptions shape the workspace.
type SlackOptions struct {
	Token       string   // the one valid bot token
	Channels    []string // ids that the bot may post to
	WebhookPath string   // of the incoming webhook: /services/T0/B0/secret
}

// Post is a message that Slack took.
type Post struct {
	Method    string // postMessage, update or webhook
	Channel   string
	TS        string
	ThreadTS  string
	Broadcast bool
	Text      string
	Texts     []TextObject // every text object of blocks and attachments, in order
	Color     string       // of the first attachment
	Raw       []byte       // the whole message as JSON
}

// TextObject is one text of a message.
type TextObject struct {
	Type     string // mrkdwn or plain_text
	Text     string
	Verbatim bool
}

// NewSlack begins a workspace.
func NewSlack(address string, config *tls.Config, o SlackOptions) (*Slack, error) {
	s := &Slack{options: o}
	return s, s.serve(address, config, http.HandlerFunc(s.answer))
}

// APIURL is the address of the Web API.
func (s *Slack) APIURL() string { return s.URL("/api/") }

// WebhookURL is the address of the incoming webhook.
func (s *Slack) WebhookURL() string { return s.URL(s.options.WebhookPath) }

// Posts gives the messages that were taken so far.
func (s *Slack) Posts() []Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Post(nil), s.posts...)
}

// Forget drops all messages, as if they had been deleted.
func (s *Slack) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts = nil
}

func (s *Slack) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	a, scripted := s.log.next()
	if !scripted {
		a = s.decide(r, body)
	}
	s.log.record(r, body, a.Status)
	a.write(w, r, body)
}

func (s *Slack) decide(r *http.Request, body []byte) Answer {
	switch {
	case r.Method == http.MethodPost && r.URL.Path == s.options.WebhookPath && s.options.WebhookPath != "":
		return s.webhook(body)
	case strings.HasPrefix(r.URL.Path, "/services/"):
		return Answer{Status: http.StatusNotFound, Body: "no_service"}
	case r.URL.Path == "/api/chat.postMessage", r.URL.Path == "/api/chat.update":
		return s.api(r, body)
	}
	return Answer{Status: http.StatusOK, Header: jsonHeader(), Body: `{"ok":false,"error":"unknown_method"}`}
}

func jsonHeader() map[string]string {
	return map[string]string{"Content-Type": "application/json; charset=utf-8"}
}

func no(word string) Answer {
	return Answer{Status: http.StatusOK, Header: jsonHeader(), Body: `{"ok":false,"error":"` + word + `"}`}
}

func (s *Slack) api(r *http.Request, body []byte) Answer {
	m, token, err := decodeCall(r, body)
	if err != nil {
		return no("invalid_form_data")
	}
	switch {
	case token == "":
		return no("not_authed")
	case token != s.options.Token:
		return no("invalid_auth")
	}
	known := false
	for _, c := range s.options.Channels {
		known = known || c == m.Channel
	}
	if !known {
		return no("channel_not_found")
	}
	p, word := m.check()
	if word != "" {
		return no(word)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Method, p.TS = strings.TrimPrefix(r.URL.Path, "/api/chat."), m.TS
	if p.Method == "update" && s.find(m.Channel, m.TS) == nil {
		return no("message_not_found")
	}
	if m.ThreadTS != "" && s.find(m.Channel, m.ThreadTS) == nil {
		return no("thread_not_found")
	}
	if p.Method == "postMessage" {
		s.next++
		p.TS = fmt.Sprintf("1790000000.%06d", s.next)
	}
	s.posts = append(s.posts, p)
	answer, _ := json.Marshal(map[string]any{"ok": true, "channel": p.Channel, "ts": p.TS, "text": p.Text, "message": json.RawMessage(p.Raw)})
	return Answer{Status: http.StatusOK, Header: jsonHeader(), Body: string(answer)}
}

func (s *Slack) find(channel, ts string) *Post {
	for i := range s.posts {
		if s.posts[i].Channel == channel && s.posts[i].TS == ts {
			return &s.posts[i]
		}
	}
	return nil
}

func (s *Slack) webhook(body []byte) Answer {
	var m message
	if json.Unmarshal(body, &m) != nil {
		return Answer{Status: http.StatusBadRequest, Body: "invalid_payload"}
	}
	m.raw = body
	p, word := m.check()
	if word != "" {
		return Answer{Status: http.StatusBadRequest, Body: word}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Method = "webhook"
	s.posts = append(s.posts, p)
	return Answer{Status: http.StatusOK, Header: map[string]string{"Content-Type": "text/html"}, Body: "ok"}
}

// message is a call as Slack reads it.
type message struct {
	Channel     string       `json:"channel"`
	Text        string       `json:"text"`
	TS          string       `json:"ts"`
	ThreadTS    string       `json:"thread_ts"`
	Broadcast   bool         `json:"reply_broadcast"`
	Blocks      []block      `json:"blocks"`
	Attachments []attachment `json:"attachments"`
	raw         []byte
}

type attachment struct {
	Color  string  `json:"color"`
	Text   string  `json:"text"`
	Blocks []block `json:"blocks"`
}

type block struct {
	Type     string            `json:"type"`
	Text     *text             `json:"text"`
	Fields   []text            `json:"fields"`
	Elements []json.RawMessage `json:"elements"`
}

type text struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Verbatim bool   `json:"verbatim"`
}

func decodeCall(r *http.Request, body []byte) (message, string, error) {
	var m message
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		m.raw = body
		return m, token, json.Unmarshal(body, &m)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return m, token, err
	}
	if t := form.Get("token"); t != "" {
		token = t
	}
	parts := map[string]json.RawMessage{}
	for _, name := range []string{"channel", "text", "ts", "thread_ts"} {
		parts[name], _ = json.Marshal(form.Get(name))
	}
	broadcast, _ := strconv.ParseBool(form.Get("reply_broadcast"))
	parts["reply_broadcast"] = json.RawMessage(strconv.FormatBool(broadcast))
	for _, name := range []string{"blocks", "attachments"} {
		if form.Get(name) != "" {
			parts[name] = json.RawMessage(form.Get(name))
		}
	}
	m.raw, err = json.Marshal(parts)
	if err != nil {
		return m, token, err
	}
	return m, token, json.Unmarshal(m.raw, &m)
}

// check keeps the published limits; word is Slack's error word.
func (m message) check() (p Post, word string) {
	p = Post{Channel: m.Channel, ThreadTS: m.ThreadTS, Broadcast: m.Broadcast, Text: m.Text, Raw: m.raw}
	if m.Text == "" && len(m.Blocks) == 0 && len(m.Attachments) == 0 {
		return p, "no_text"
	}
	if length(m.Text) > 40000 {
		return p, "msg_too_long"
	}
	if len(m.Attachments) > 100 {
		return p, "too_many_attachments"
	}
	blocks := m.Blocks
	for i, a := range m.Attachments {
		if i == 0 {
			p.Color = a.Color
		}
		if a.Text != "" {
			p.Texts = append(p.Texts, TextObject{Type: "mrkdwn", Text: a.Text})
		}
		if len(a.Blocks) > 50 {
			return p, "invalid_blocks"
		}
		blocks = append(blocks, a.Blocks...)
	}
	if len(m.Blocks) > 50 {
		return p, "invalid_blocks"
	}
	for _, b := range blocks {
		texts, ok := b.check()
		if !ok {
			return p, "invalid_blocks"
		}
		p.Texts = append(p.Texts, texts...)
	}
	return p, ""
}

func (b block) check() ([]TextObject, bool) {
	var out []TextObject
	take := func(t text, limit int, types string) bool {
		out = append(out, TextObject(t))
		return strings.Contains(types, t.Type) && t.Type != "" && t.Text != "" && length(t.Text) <= limit
	}
	switch b.Type {
	case "divider":
		return nil, true
	case "header":
		return out, b.Text != nil && take(*b.Text, 150, "plain_text") || false
	case "section":
		if b.Text == nil && len(b.Fields) == 0 || len(b.Fields) > 10 {
			return nil, false
		}
		if b.Text != nil && !take(*b.Text, 3000, "mrkdwn plain_text") {
			return nil, false
		}
		for _, f := range b.Fields {
			if !take(f, 2000, "mrkdwn plain_text") {
				return nil, false
			}
		}
		return out, true
	case "context":
		if len(b.Elements) == 0 || len(b.Elements) > 10 {
			return nil, false
		}
		for _, raw := range b.Elements {
			var t text
			if json.Unmarshal(raw, &t) != nil || !take(t, 3000, "mrkdwn plain_text") {
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}

func length(s string) int { return len(utf16.Encode([]rune(s))) }

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// newRenderer picks how bodies are made.
func newRenderer(c Config) (renderer, error) {
	switch {
	case c.Preset != "" && c.Template != "":
		return nil, fmt.Errorf("choose body: preset and template exclude each other")
	case c.Template != "":
		return newTemplate(c)
	case c.Preset != "":
		return newPreset(c)
	}
	switch c.Mode {
	case "", ModeStructured:
		return structured, nil
	case ModeBinary:
		return binary, nil
	}
	return nil, fmt.Errorf("choose body: mode is neither structured nor binary")
}

// document is the event as it is sent: the stored bytes where they hold nothing but
// fields that this version knows, else written from those fields. Stored bytes may
// hold more: a member that a newer watcher put in, or one spelt otherwise. None of that was
// judged here, so none of it goes out.
func document(n sinks.Notification) ([]byte, error) {
	if stored := n.Document.Bytes(); stored != nil {
		return stored, nil
	}
	raw, err := events.Encode(n.Event)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return raw, nil
}

func structured(_ context.Context, n sinks.Notification, _ []secret.Value) (payload, error) {
	raw, err := document(n)
	return payload{body: raw, contentType: "application/cloudevents+json; charset=utf-8"}, err
}

// binary takes the data out of the document byte for byte.
func binary(_ context.Context, n sinks.Notification, _ []secret.Value) (payload, error) {
	raw, err := document(n)
	if err != nil {
		return payload{}, err
	}
	var attributes map[string]json.RawMessage
	if err := json.Unmarshal(raw, &attributes); err != nil {
		return payload{}, fmt.Errorf("decode event: %w", err)
	}
	p := payload{body: attributes["data"], contentType: "application/json", header: http.Header{}}
	for name, value := range attributes {
		if name == "data" || name == "datacontenttype" {
			continue
		}
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		if text != "" && text != "null" {
			p.header.Set("Ce-"+name, escapeHeader(text))
		}
	}
	return p, nil
}

// escapeHeader percent-encodes as the HTTP binding of CloudEvents asks: space,
// double quote, percent and all outside printable ASCII.
func escapeHeader(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c > 0x20 && c < 0x7f && c != '"' && c != '%' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

// Preset is a receiver whose format is built in.
type Preset string

// The presets.
const (
	PresetPagerDuty Preset = "pagerduty" // Events API v2; the first secret is the routing key
	PresetTeams     Preset = "teams"     // Adaptive Card to a workflow's address
	PresetDiscord   Preset = "discord"   // embed to a channel's webhook
	PresetNtfy      Preset = "ntfy"      // text to a topic's address
)

func newPreset(c Config) (renderer, error) {
	switch c.Preset {
	case PresetPagerDuty:
		if c.Secrets == nil {
			return nil, errors.New("choose body: preset pagerduty needs its routing key as the first of secrets")
		}
		return func(_ context.Context, n sinks.Notification, keys []secret.Value) (payload, error) {
			return pagerDuty(n, keys, c.say(n))
		}, nil
	case PresetTeams:
		return func(_ context.Context, n sinks.Notification, _ []secret.Value) (payload, error) {
			return teams(n, c.say(n))
		}, nil
	case PresetDiscord:
		return func(_ context.Context, n sinks.Notification, _ []secret.Value) (payload, error) {
			return discord(n, c.say(n))
		}, nil
	case PresetNtfy:
		return func(_ context.Context, n sinks.Notification, _ []secret.Value) (payload, error) {
			return ntfy(n, c.say(n)), nil
		}, nil
	}
	return nil, errors.New("choose body: unknown preset")
}

func jsonPayload(v any) (payload, error) {
	text, err := marshal(v)
	return payload{body: []byte(text), contentType: "application/json"}, err
}

// PagerDuty's published limits.
const (
	pagerSummary = 1024
	pagerKey     = 255
)

type pagerEvent struct {
	RoutingKey string        `json:"routing_key"`
	Action     string        `json:"event_action"`
	DedupKey   string        `json:"dedup_key"`
	Payload    *pagerPayload `json:"payload,omitempty"`
}

type pagerPayload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`
	Severity  string            `json:"severity"`
	Timestamp string            `json:"timestamp,omitempty"`
	Component string            `json:"component,omitempty"`
	Class     string            `json:"class,omitempty"`
	Details   map[string]string `json:"custom_details"`
}

// pagerDuty triggers and resolves one incident per chain of purchases. A purchase
// whose money is settled resolves too, for subscriptions that pass every event on.
func pagerDuty(n sinks.Notification, keys []secret.Value, m words.Message) (payload, error) {
	if len(keys) == 0 {
		return payload{}, errors.New("render: the routing key is missing")
	}
	e := pagerEvent{RoutingKey: keys[0].Reveal(), Action: "trigger", DedupKey: words.Cut(dedupKey(n), pagerKey, words.Bytes)}
	if ends(n) {
		e.Action = "resolve"
		return jsonPayload(e)
	}
	e.Payload = &pagerPayload{
		Summary: words.Cut(m.Subject, pagerSummary, words.Units), Source: "herald" + n.Event.Source,
		Severity: severity(m), Component: n.Subscription, Class: string(n.Event.Type),
		Details: map[string]string{"what": m.Text()},
	}
	if !n.Event.Time.IsZero() {
		e.Payload.Timestamp = n.Event.Time.UTC().Format(time.RFC3339)
	}
	for _, f := range m.Facts {
		e.Payload.Details[f.Name] = f.Value
	}
	for _, q := range m.Quotes {
		e.Payload.Details[q.By] = q.Text
	}
	return jsonPayload(e)
}

// dedupKey joins what belongs to one incident. Notices that end each other share one.
func dedupKey(n sinks.Notification) string {
	key := n.Key()
	if n.Kind == sinks.KindTest {
		return "herald-test-" + key
	}
	if notice := n.Event.Notice; notice != nil {
		key += "/" + noticeTopic(notice.Kind)
		if notice.Sink != "" {
			key += "/" + notice.Sink
		}
		if notice.PurchaseID != "" {
			key += "/" + notice.PurchaseID
		}
	}
	return key
}

func noticeTopic(k events.NoticeKind) string {
	switch k {
	case events.NoticeParked, events.NoticeResumed:
		return "parked"
	case events.NoticeBlind, events.NoticeSeeing:
		return "blind"
	case events.NoticeSinkPaused, events.NoticeSinkResumed:
		return "sink_paused"
	default:
		return string(k)
	}
}

func ends(n sinks.Notification) bool {
	if n.Kind == sinks.KindTest {
		return false
	}
	if n.Kind == sinks.KindResolve {
		return true
	}
	if p := n.Event.Purchase; p != nil {
		return p.Terminal && !p.Unsettled
	}
	if notice := n.Event.Notice; notice != nil {
		switch notice.Kind {
		case events.NoticeResumed, events.NoticeSeeing, events.NoticeSinkResumed:
			return true
		default:
		}
	}
	return false
}

func severity(m words.Message) string {
	if m.Urgent {
		return "critical"
	}
	switch m.Tone {
	case words.ToneBad:
		return "error"
	case words.ToneWarn:
		return "warning"
	case words.ToneCalm, words.ToneGood, words.ToneWait:
	}
	return "info"
}

// ntfy takes text in the body and the rest in headers. Its messages may have 4,096 bytes.
func ntfy(n sinks.Notification, m words.Message) payload {
	const limit = 4000
	var b strings.Builder
	b.WriteString(m.Text() + "\n")
	for _, q := range m.Quotes {
		b.WriteString(q.By + ": " + q.Text + "\n")
	}
	for _, f := range m.Facts {
		b.WriteString(f.Name + ": " + f.Value + "\n")
	}
	h := http.Header{}
	title := strings.ReplaceAll(unlinked(m.Subject), "=?", "= ?") // or an encoded word of others would be decoded
	h.Set("Title", mime.QEncoding.Encode("utf-8", words.Cut(title, 200, words.Units)))
	h.Set("Priority", fmt.Sprint(ntfyPriority(m)))
	if replaces(n) {
		h.Set("X-Sequence-Id", sequenceID(n))
	}
	body := words.Cut(unlinked(strings.TrimSpace(b.String())), limit, words.Bytes)
	return payload{body: []byte(body), contentType: "text/plain; charset=utf-8", header: h}
}

// replaces reports what may take the place of the earlier notification, as the
// end of an alarm does. Clients may do that without a sound, so what has to be heard
// is a notification of its own. Servers before 2.16 ignore the header.
func replaces(n sinks.Notification) bool {
	switch n.Kind {
	case sinks.KindRemind, sinks.KindTest:
		return false
	case sinks.KindUpdate:
		return !n.Urgent
	case sinks.KindEvent, sinks.KindOpen, sinks.KindResolve:
	}
	return true
}

// sequenceID is the dedup key in the 64 characters that ntfy takes.
func sequenceID(n sinks.Notification) string {
	sum := sha256.Sum256([]byte(dedupKey(n)))
	return "herald-" + hex.EncodeToString(sum[:20])
}

func ntfyPriority(m words.Message) int {
	if m.Urgent {
		return 5
	}
	switch m.Tone {
	case words.ToneBad:
		return 4
	case words.ToneCalm, words.ToneGood:
		return 2
	case words.ToneWarn, words.ToneWait:
	}
	return 3
}

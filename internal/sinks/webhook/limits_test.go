package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// units is the strictest reading of a limit in characters.
func units(s string) int { return len(utf16.Encode([]rune(s))) }

// limits give what a receiver would refuse a request for, by its published limits; "": nothing.
func limits() map[webhook.Preset]func(sinkfakes.Request) string {
	return map[webhook.Preset]func(sinkfakes.Request) string{
		webhook.PresetPagerDuty: pagerDutyRefuses, webhook.PresetDiscord: discordRefuses,
		webhook.PresetTeams: func(r sinkfakes.Request) string {
			if !json.Valid(r.Body) || len(r.Body) > 28<<10 {
				return "not JSON, or over 28 KB"
			}
			return ""
		},
		webhook.PresetNtfy: func(r sinkfakes.Request) string {
			if len(r.Body) == 0 || len(r.Body) > 4096 {
				return "no text, or over 4,096 bytes"
			}
			return ""
		},
	}
}

func pagerDutyRefuses(r sinkfakes.Request) string {
	var e struct {
		Key     string `json:"dedup_key"`
		Payload *struct {
			Summary  string `json:"summary"`
			Source   string `json:"source"`
			Severity string `json:"severity"`
		} `json:"payload"`
	}
	switch err := json.Unmarshal(r.Body, &e); {
	case err != nil || len(r.Body) > 512<<10:
		return "not JSON, or over 512 KB"
	case e.Key == "" || units(e.Key) > 255:
		return "dedup_key"
	case e.Payload == nil:
		return ""
	case e.Payload.Summary == "" || units(e.Payload.Summary) > 1024 || e.Payload.Source == "":
		return "summary or source"
	case !strings.Contains("critical error warning info", e.Payload.Severity):
		return "severity"
	}
	return ""
}

func discordRefuses(r sinkfakes.Request) string {
	var m struct {
		Embeds []struct {
			Title       string
			Description string
			Fields      []struct{ Name, Value string }
			Footer      struct{ Text string }
		}
		Mentions struct{ Parse []string } `json:"allowed_mentions"`
	}
	if err := json.Unmarshal(r.Body, &m); err != nil || len(m.Embeds) != 1 || m.Mentions.Parse == nil || len(m.Mentions.Parse) != 0 {
		return "the form"
	}
	e := m.Embeds[0]
	total := units(e.Title) + units(e.Description) + units(e.Footer.Text)
	if units(e.Title) > 256 || units(e.Description) > 4096 || units(e.Footer.Text) > 2048 || len(e.Fields) > 25 {
		return "title, description, footer or fields"
	}
	for _, f := range e.Fields {
		if f.Name == "" || f.Value == "" || units(f.Name) > 256 || units(f.Value) > 1024 {
			return "field " + f.Name
		}
		total += units(f.Name) + units(f.Value)
	}
	if total > 6000 {
		return "the sum of all texts"
	}
	return ""
}

func TestPresetsKeepTheLimitsOfTheirReceivers(t *testing.T) {
	for preset, refuses := range limits() {
		t.Run(string(preset), func(t *testing.T) {
			hook := newHook(t)
			s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Preset: preset, Secrets: keys("routing-key")})
			for name, text := range sinkstest.Hostile() {
				for _, e := range []events.Event{sinkstest.HostilePurchase(text), sinkstest.HostileNotice(text)} {
					n := sinkstest.Notification(e)
					n.Subscription, n.Held = strings.Repeat("s", 200), 7
					send(t, s, n)
					all := hook.Received()
					if why := refuses(all[len(all)-1]); why != "" {
						t.Errorf("%s, %s: the receiver would refuse %s", name, e.Type, why)
					}
				}
			}
		})
	}
}

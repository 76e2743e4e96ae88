package webhook_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// texts gathers every text of a JSON value.
func texts(v any) []string {
	var out []string
	switch v := v.(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, inner := range v {
			out = append(out, texts(inner)...)
		}
	case map[string]any:
		for _, inner := range v {
			out = append(out, texts(inner)...)
		}
	}
	return out
}

// Whatever a merchant calls itself, Teams and Discord find nothing in it to follow, to
// show otherwise or to notify.
func TestNothingOfOthersIsFollowed(t *testing.T) {
	escaped := regexp.MustCompile("\\\\[\\\\*_~`\\[\\]<>|#]")
	ours := regexp.MustCompile(`^https?://adaptivecards\.io/schemas/adaptive-card\.json$|^\d{4}-\d\d-\d\dT[\d:]+Z$|^event \S+ · (revision \d+ · )?subscription unsettled · key \S+$| … \[cut\]$`)
	warning := regexp.MustCompile(`\*\*(Nobody should pay again or start a new purchase for it\.)\*\*`)
	live := regexp.MustCompile("[*_~`\\[\\]<>|]|://|@[\\pL\\pN]|\\{\\{|#[\\pL\\pN ]")
	for _, preset := range []webhook.Preset{webhook.PresetTeams, webhook.PresetDiscord} {
		t.Run(string(preset), func(t *testing.T) {
			hook := newHook(t)
			s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Preset: preset})
			for name, text := range sinkstest.Hostile() {
				for _, e := range []events.Event{sinkstest.HostilePurchase(text), sinkstest.HostileNotice(text)} {
					n := sinkstest.Notification(e)
					n.Subscription = "unsettled"
					send(t, s, n)
					all := hook.Received()
					var body map[string]any
					if err := json.Unmarshal(all[len(all)-1].Body, &body); err != nil {
						t.Fatal(err)
					}
					for _, shown := range texts(body) {
						rest := escaped.ReplaceAllString(warning.ReplaceAllString(ours.ReplaceAllString(shown, ""), "$1"), "")
						if found := live.FindString(rest); found != "" {
							t.Errorf("%s: %q is live in %.300q", name, found, rest)
						}
					}
				}
			}
		})
	}
}

// Texts of others stay values: no member comes, goes or changes its kind.
func TestNoTextOfOthersChangesTheForm(t *testing.T) {
	awkward := `","routing_key":"x","a":{"b":"\u0022}]}` + "\u2028\\"
	for _, c := range []webhook.Config{
		{Preset: webhook.PresetPagerDuty}, {Preset: webhook.PresetTeams}, {Preset: webhook.PresetDiscord}, {},
		{Template: `{"a": {{json .Subject}}, "b": {{json .Purchase}}, "c": [{{range $i, $f := .Facts}}{{if $i}},{{end}}{{json .Value}}{{end}}]}`},
	} {
		hook := newHook(t)
		c.URL, c.AllowCIDRs, c.Secrets = secret.New(hook.URL("/")), loopback(), keys("routing-key")
		s := newSink(t, c)
		send(t, s, sinkstest.Notification(sinkstest.HostilePurchase("plain text")))
		send(t, s, sinkstest.Notification(sinkstest.HostilePurchase(awkward)))
		var forms [2]string
		for i, r := range hook.Received() {
			var body any
			if err := json.Unmarshal(r.Body, &body); err != nil {
				t.Fatal(err)
			}
			form, err := json.Marshal(formOf(body))
			if err != nil {
				t.Fatal(err)
			}
			forms[i] = string(form)
		}
		if forms[0] != forms[1] {
			t.Errorf("%s: the form became\n%s, was\n%s", c.Preset, forms[1], forms[0])
		}
	}
}

// formOf is a JSON value without its texts.
func formOf(v any) any {
	switch v := v.(type) {
	case string:
		return ""
	case []any:
		out := []any{}
		for _, inner := range v {
			out = append(out, formOf(inner))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, inner := range v {
			out[name] = formOf(inner)
		}
		return out
	}
	return v
}

package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
)

// Whatever comes instead of a reply, to every tool, for a quarter of an hour: it is counted as what it is, nothing of it is
// said, and what changed meanwhile is told once it is shown.
func TestBadInputIsCountedAndLosesNothing(t *testing.T) {
	revision := func(value any) func(map[string]any) {
		return func(reply map[string]any) {
			if p, ok := reply["purchase"].(map[string]any); ok {
				p["revision"] = value
			}
		}
	}
	all := []string{string(envoy.ToolStatus), string(envoy.ToolAccount), string(envoy.ToolList)}
	status := all[:1]
	for _, c := range []struct {
		name  string
		fault envoysim.Fault
		tools []string
		label string // under which calls are counted
	}{
		{"half of the JSON", envoysim.Fault{Kind: envoysim.FaultCut}, all, "reset"},
		{"a proxy's page", envoysim.Fault{Kind: envoysim.FaultHTML, Status: 200}, all, "malformed"},
		{"a proxy's page with 502", envoysim.Fault{Kind: envoysim.FaultHTML}, all, "status"},
		{"2 MB", envoysim.Fault{Kind: envoysim.FaultHuge, Size: 2 << 20}, all, "too_large"},
		{"another purchase", envoysim.Fault{Kind: envoysim.FaultForeign}, status, "foreign"},
		{"no revision", envoysim.Fault{Kind: envoysim.FaultMissingField}, status, "malformed"},
		{"no ok", envoysim.Fault{Kind: envoysim.FaultMissingField, Field: "ok"}, all, "malformed"},
		{"no state", envoysim.Fault{Kind: envoysim.FaultMissingField, Field: "purchase.state"}, status, "malformed"},
		{"a negative revision", envoysim.Fault{Kind: envoysim.FaultRewrite, Rewrite: revision(-1)}, status, "malformed"},
		{"a revision that is none", envoysim.Fault{Kind: envoysim.FaultRewrite, Rewrite: revision("7")}, status, "malformed"},
		{"a state that is no word", envoysim.Fault{Kind: envoysim.FaultUnknownWord, Word: "<script>"}, status, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, envoysim.Options{Seed: 1}, []string{"asha"})
				defer w.quit()
				w.pass(30 * time.Second)
				id := w.start(envoysim.Spec{Rail: envoysim.OperatedCheckout, State: envoysim.Processing})
				w.pass(2 * time.Minute)
				var remove []func()
				for _, tool := range c.tools {
					f := c.fault
					f.Tool = tool
					remove = append(remove, w.sim.Inject(f))
				}
				if len(c.tools) < len(all) { // the looks cannot help
					remove = append(remove, w.sim.Inject(envoysim.Fault{Kind: envoysim.FaultError, Code: envoysim.Unavailable, Tool: string(envoy.ToolAccount), Wait: -1}))
				}
				w.pass(time.Minute) // the hold under way is none the worse for it
				w.move(id, envoysim.Verifying)
				w.pass(15 * time.Minute)
				w.wantStates(id, "processing:revision")
				for _, tool := range c.tools {
					if n := counter(t, w.w.metrics.calls.WithLabelValues(tool, c.label)); n < 2 {
						t.Errorf("%v calls of %s are counted as %s", n, tool, c.label)
					}
				}
				if n := len(w.store.noticed(events.NoticeBlind)); n != 1 {
					t.Errorf("%d notices of blindness", n)
				}
				for _, f := range remove {
					f()
				}
				w.pass(15 * time.Minute)
				// A look after the read may tell more of its money.
				if got := strings.TrimSuffix(w.states(id), " verifying:reading"); got != "processing:revision verifying:revision" {
					t.Errorf("told after all: %s", got)
				}
				if all, its := w.store.purchases(""), w.store.purchases(id); len(all) != len(its) {
					t.Errorf("%d events, %d of them about the purchase", len(all), len(its))
				}
			})
		})
	}
}

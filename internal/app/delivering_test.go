package app

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/dedupe"
)

// People and their pagers are told the newest only, and ask the stream for it; a
// machine gets every event. Each kind has its number of sends at once.
func TestWhoIsToldTheNewestOnly(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), hookSecret)
	write(t, filepath.Join(dir, "herald.yaml"), `
shutdown_grace: 7s
sinks:
  - { name: chat, slack: { bot_token: "file:key", channel: C0123456789 } }
  - { name: mail, email: { smtp: "smtp://mail.example.test", from: a@example.com, to: [b@example.com] } }
  - { name: pager, webhook: { url: "https://pager.example.test", preset: pagerduty, secrets: ["file:key"] } }
  - { name: machine, webhook: { url: "https://hooks.example.test", secrets: ["file:key"] } }
  - { name: slow, concurrency: 3, webhook: { url: "https://hooks.example.test", secrets: ["file:key"] } }
subscriptions:
  - { name: all, match: 'true', sinks: [chat, mail, pager, machine, slow] }
`)
	cfg, err := config.Load(filepath.Join(dir, "herald.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), Options{Config: cfg, Role: config.RoleNotifier, Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		newest bool
		atOnce int
	}{"chat": {true, 1}, "mail": {true, 2}, "pager": {true, 16}, "machine": {false, 16}, "slow": {false, 3}}
	for _, s := range a.wiring().sinks {
		o := a.deliverOptions(t.Context(), a.wiring(), s, &stores{leases: dedupe.Sole{}}, nil)
		w := want[s.cfg.Name]
		if o.NewestOnly != w.newest || o.Concurrency != w.atOnce || o.Latest == nil || o.Grace != 7*time.Second || len(o.Schedule) != 7 {
			t.Errorf("%s: newest only %v, %d at once, %s to stop, %d waits", o.Name, o.NewestOnly, o.Concurrency, o.Grace, len(o.Schedule))
		}
		if o.Pace == nil != (s.cfg.Name != "chat") {
			t.Errorf("%s: pace %v", o.Name, o.Pace)
		}
		delete(want, s.cfg.Name)
	}
	if len(want) > 0 {
		t.Errorf("not built: %v", want)
	}
}

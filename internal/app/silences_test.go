package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
)

// Silences hold for the first alarm after a start: they are read before any sink
// begins. The loop that reads them again is left out here, as if it were slow.
func TestSilencesAreReadBeforeTheFirstAlarm(t *testing.T) {
	hook, dir := newReceiver(t), t.TempDir()
	write(t, filepath.Join(dir, "key"), hookSecret)
	write(t, filepath.Join(dir, "herald.yaml"), `
sinks:
  - name: ops
    webhook: { url: "`+hook.server.URL+`", secrets: ["file:key"], allow_cidrs: [127.0.0.0/8] }
subscriptions:
  - { name: unsettled, match: unsettled, repeat: 1h, sinks: [ops] }
`)
	a, bus := newNotifier(t, filepath.Join(dir, "herald.yaml"), slog.New(slog.DiscardHandler))
	kv, err := dedupe.OpenKV(t.Context(), bus.JetStream(), dedupe.KVOptions{})
	if err != nil {
		t.Fatal(err)
	}
	known := events.Silence{ID: "known", Match: "true", Until: time.Now().Add(time.Hour), Why: "it is being looked at"}
	if err := kv.PutSilence(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	hanging := events.Samples()[3]
	if !hanging.Purchase.Unsettled {
		t.Fatalf("the sample is %s", hanging.Purchase.Situation)
	}
	if _, err := bus.Publish(t.Context(), hanging, 0); err != nil {
		t.Fatal(err)
	}

	loops, err := a.loops(t.Context(), &stores{bus: bus, state: kv, leases: dedupe.Sole{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait(); a.notices.Wait() })
	for _, l := range loops {
		if l.name != "silences" {
			running.Go(func() { _ = l.run(ctx) })
		}
	}
	var first events.Delivery
	poll(t, "the event is decided", func() bool {
		for d, err := range bus.Deliveries(t.Context(), stream.DeliveryFilter{Sink: "ops"}) {
			if err != nil {
				t.Fatal(err)
			}
			first = d
			return true
		}
		return false
	})
	if first.EventID != hanging.ID || first.Outcome != deliver.OutcomeWaiting || first.Reason != "silenced" || hook.last() != nil {
		t.Errorf("the first outcome is %+v", first)
	}
}

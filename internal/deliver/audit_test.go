package deliver

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// What operators are told of each try and each end, in the order in which it was.
func TestEveryOutcomeIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fails := map[string][]*sinks.Failure{
			"pur_server":  {errServer},
			"pur_refused": {errRefused, errRefused, errRefused},
			"pur_dial":    {errDial, errDial},
			"pur_old":     {errServer, errServer, errServer, errServer},
		}
		w.sink.answers(func(n sinks.Notification) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			left := fails[n.Event.Subject]
			if n.Event.Purchase.Reading.Revision > 1 || len(left) == 0 {
				return nil
			}
			fails[n.Event.Subject] = left[1:]
			return left[0]
		})
		w.sink.takes = 20 * time.Millisecond
		_, stop := w.run()
		for _, p := range []string{"pur_server", "pur_refused", "pur_dial", "pur_old", "pur_baseline"} {
			e := event(p, 1, events.SituationWorking)
			if p == "pur_baseline" {
				e.Purchase.Reading.Cause = events.CauseBaseline
			}
			w.stream.publish(e)
			if p == "pur_old" {
				w.stream.publish(event(p, 2, events.SituationWorking))
			}
			pass(10 * time.Minute)
		}
		stop()
		got := map[string][]string{}
		for _, d := range w.audits {
			if d.Sink != "ops" || d.Type != events.TypeChanged || d.At.IsZero() || d.PurchaseID+fmt.Sprintf("-0-%d-0", d.Revision) != d.EventID {
				t.Errorf("record %+v", d)
			}
			if tried := d.Outcome == OutcomeRetried || d.Outcome == OutcomeSent; tried != (d.Millis == 20) {
				t.Errorf("%s of %s took %d ms", d.Outcome, d.EventID, d.Millis)
			}
			if failed := d.Outcome == OutcomeRetried || d.Outcome == OutcomeBuried; failed != (d.Detail != "") {
				t.Errorf("%s of %s says %q", d.Outcome, d.EventID, d.Detail)
			}
			got[d.EventID] = append(got[d.EventID], fmt.Sprintf("%s %s %d", d.Outcome, d.Reason, d.Attempt))
		}
		for id, want := range map[string][]string{
			"pur_server-0-1-0":   {"retried server_error 1", "sent event 2"},
			"pur_refused-0-1-0":  {"retried status 1", "retried status 2", "buried refused 3"},
			"pur_dial-0-1-0":     {"retried dial 1", "retried dial 1", "sent event 1"}, // the sink's tries are not the message's
			"pur_old-0-1-0":      {"retried server_error 1", "retried server_error 2", "retried server_error 3", "buried superseded 3"},
			"pur_old-0-2-0":      {"sent event 1"},
			"pur_baseline-0-1-0": {"skipped baseline 0"},
		} {
			if !slices.Equal(got[id], want) {
				t.Errorf("%s: %v, want %v", id, got[id], want)
			}
		}
	})
}

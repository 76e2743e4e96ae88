package slack_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestGolden(t *testing.T) {
	for _, e := range events.Samples() {
		n := sinkstest.Notification(e)
		name := string(events.SituationUnknown)
		if e.Purchase != nil {
			name = string(e.Purchase.Situation) + "-" + e.Subject[4:5]
			n.Urgent = e.Purchase.Situation == events.SituationNeedsSupport
		}
		if e.Notice != nil {
			name = "notice-" + string(e.Notice.Kind)
		}
		if e.Type == events.TypeOverdue {
			name = "overdue"
		}
		t.Run(name, func(t *testing.T) {
			f := newSlack(t)
			send(t, newSink(t, botConfig(f)), n)
			golden(t, name, last(f))
		})
	}
}

// One alarm from its beginning to its end, as the channel sees it.
func TestGoldenAlarm(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	samples := events.Samples()
	n := sinkstest.Notification(samples[3])
	for i, step := range []struct {
		kind   sinks.Kind
		event  events.Event
		urgent bool
		held   int
	}{
		{sinks.KindOpen, samples[3], false, 0}, {sinks.KindUpdate, samples[4], true, 2},
		{sinks.KindRemind, samples[4], false, 0}, {sinks.KindResolve, samples[5], false, 0},
	} {
		n.Kind, n.Event, n.Urgent, n.Held = step.kind, step.event, step.urgent, step.held
		n.Thread = send(t, s, n).Thread
		golden(t, fmt.Sprintf("alarm-%d-%s", i, step.kind), last(f))
	}
}

func golden(t *testing.T, name string, p sinkfakes.Post) {
	t.Helper()
	var message any
	if err := json.Unmarshal(p.Raw, &message); err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(message, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", path, got)
	}
}

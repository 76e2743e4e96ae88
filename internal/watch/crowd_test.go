package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/heraldbridge/herald/internal/events"
)

// Two connections are one crowd; what is not watched here any more leaves it, and the oldest goes with it.
func TestCrowdPutsConnectionsTogether(t *testing.T) {
	c, now := newCrowd(), time.Now()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	c.set("a", map[events.Situation]group{events.SituationConfirming: group{}.join(now.Add(-time.Minute)).join(now.Add(-time.Hour))})
	c.set("b", map[events.Situation]group{
		events.SituationConfirming: group{}.join(now.Add(-10 * time.Minute)),
		events.SituationWorking:    group{}.join(now.Add(time.Hour)), // another clock
	})
	check := func(metric, situation string, low, high float64) {
		t.Helper()
		if v := sample(t, reg, metric, situation); v < low || v > high {
			t.Errorf("%s of %s is %v, want %v to %v", metric, situation, v, low, high)
		}
	}
	check("herald_watch_purchases", "confirming", 3, 3)
	check("herald_watch_oldest_seconds", "confirming", 3600, 3700)
	check("herald_watch_purchases", "working", 1, 1)
	check("herald_watch_oldest_seconds", "working", 0, 0)
	c.set("a", nil)
	check("herald_watch_purchases", "confirming", 1, 1)
	check("herald_watch_oldest_seconds", "confirming", 600, 700)
}

func sample(t *testing.T, reg prometheus.Gatherer, metric, situation string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			if hasLabel(m, situation) {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s of %s", metric, situation)
	return 0
}

func hasLabel(m *dto.Metric, value string) bool {
	for _, l := range m.GetLabel() {
		if strings.EqualFold(l.GetValue(), value) {
			return true
		}
	}
	return false
}

package app

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRatesAreOfTheLastMinute(t *testing.T) {
	sent := prometheus.NewCounterVec(prometheus.CounterOpts{Name: rateMetric}, []string{"sink"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(sent)
	r, now := &rates{}, time.Now()
	if got := r.perMinute("orders"); got != 0 {
		t.Errorf("before anything is known: %v", got)
	}
	for i := range 30 { // five minutes, the last of them quiet
		if i < 24 {
			sent.WithLabelValues("orders").Add(5)
		}
		r.add(now.Add(time.Duration(i)*rateEvery), sentBySink(registry))
		if got := r.perMinute("orders"); i == 23 && got != 30 {
			t.Errorf("30 in a minute are %v", got)
		}
	}
	if got := r.perMinute("orders"); got != 0 {
		t.Errorf("after a quiet minute: %v", got)
	}
	if len(r.samples) > 8 {
		t.Errorf("%d samples are kept", len(r.samples))
	}
}

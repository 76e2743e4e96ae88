package app

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	rateEvery  = 10 * time.Second
	rateWindow = time.Minute
	rateMetric = "herald_deliver_sent_total"
)

// rates tells how much each sink's receiver accepted of late, by what the counters were before.
type rates struct {
	mu      sync.Mutex
	samples []rateSample // the oldest first, over one window
}

type rateSample struct {
	at   time.Time
	sent map[string]float64 // by sink
}

// add takes the counters of now.
func (r *rates) add(now time.Time, sent map[string]float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, rateSample{now, sent})
	for len(r.samples) > 2 && now.Sub(r.samples[1].at) >= rateWindow {
		r.samples = r.samples[1:]
	}
}

// perMinute is how many notifications of a sink were accepted in a minute, over the last one; 0 while not known.
func (r *rates) perMinute(sink string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) < 2 {
		return 0
	}
	first, last := r.samples[0], r.samples[len(r.samples)-1]
	return max(0, last.sent[sink]-first.sent[sink]) / last.at.Sub(first.at).Minutes()
}

// sentBySink reads the counters.
func sentBySink(g prometheus.Gatherer) map[string]float64 {
	out := map[string]float64{}
	families, err := g.Gather()
	if err != nil {
		return out // a collector that fails says so at /metrics
	}
	for _, f := range families {
		if f.GetName() != rateMetric {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "sink" {
					out[l.GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	return out
}

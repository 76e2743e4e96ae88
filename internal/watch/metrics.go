package watch

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/events"
)

// metrics counts what the watcher does. Every label comes from a closed set: no id, no name, no word of Envoy's.
type metrics struct {
	calls         *prometheus.CounterVec // tool, outcome
	readyReplies  *prometheus.CounterVec // during: the state when the request went out
	events        *prometheus.CounterVec // cause
	notices       *prometheus.CounterVec // kind
	publishErrors prometheus.Counter
	storeErrors   *prometheus.CounterVec // record
	duplicates    prometheus.Counter
	lower         prometheus.Counter
	foreign       prometheus.Counter
	unknown       prometheus.Counter
	strange       prometheus.Counter
	budgetWaits   prometheus.Histogram

	blind  prometheus.Gauge
	parked prometheus.Gauge
	holds  prometheus.Gauge
	open   prometheus.Gauge
	owned  prometheus.Gauge
	crowd  *crowd
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "herald_watch_" + name, Help: help})
	}
	counts := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "herald_watch_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "herald_watch_" + name, Help: help})
	}
	m := &metrics{
		calls:         counts("calls_total", "Calls to Envoy by tool and outcome.", "tool", "outcome"),
		readyReplies:  counts("ready_replies_total", "Status replies that were ready, by the state last known before.", "during"),
		events:        counts("events_total", "Purchase events stored, by cause.", "cause"),
		notices:       counts("notices_total", "Connection notices stored, by kind.", "kind"),
		publishErrors: count("publish_failures_total", "Tries to store an event that failed; each is tried again."),
		storeErrors:   counts("store_failures_total", "Failed reads and writes of the state store, by record.", "record"),
		duplicates:    count("duplicates_total", "Replies that said nothing new."),
		lower:         count("lower_total", "Replies with a revision below the published one."),
		foreign:       count("foreign_total", "Replies about another purchase than the one asked for."),
		unknown:       count("unknown_fields_total", "Fields of replies that the contract does not name; they were dropped."),
		strange:       count("strange_states_total", "Readings with a state that the contract does not name."),
		budgetWaits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "herald_watch_budget_waits_seconds", Help: "Time from when a call was due to when the budget let it go.",
			Buckets: []float64{0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600},
			// Beside these the native form, for servers that take it.
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
		blind:  gauge("blind", "Connections that have seen nothing of a purchase, or at all, for too long."),
		parked: gauge("parked", "Connections that make no calls until something is changed."),
		holds:  gauge("holds", "Held reads that are open."),
		open:   gauge("open_purchases", "Purchases that are followed."),
		owned:  gauge("owned_connections", "Connections that this process watches."),
		crowd:  newCrowd(),
	}
	for _, c := range m.all() {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the watcher: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.calls, m.readyReplies, m.events, m.notices, m.publishErrors, m.storeErrors, m.duplicates, m.lower, m.foreign,
		m.unknown, m.strange, m.budgetWaits, m.blind, m.parked, m.holds, m.open, m.owned, m.crowd,
	}
}

// stateLabel keeps words of tomorrow out of labels.
func stateLabel(s events.State) string {
	switch {
	case s == "":
		return "unknown"
	case strange(s):
		return "other"
	default:
		return string(s)
	}
}

// level is a gauge's share of one connection; moving it moves the sum.
type level struct {
	gauge prometheus.Gauge
	value float64
}

func (l *level) set(v float64) {
	if v != l.value {
		l.gauge.Add(v - l.value)
		l.value = v
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

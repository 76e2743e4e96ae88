package deliver

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the numbers of one sink. Their labels are the sink's name and
// words from closed sets.
type metrics struct {
	sent     prometheus.Counter
	failures *prometheus.CounterVec
	buried   *prometheus.CounterVec
	absorbed prometheus.Counter
	skipped  prometheus.Counter
	store    *prometheus.CounterVec
	begins   prometheus.Counter
	latency  prometheus.Observer

	// What a sink is like is for its owner to tell: see giveUp.
	sink                         string
	inHand, backlog, waiting, up *prometheus.GaugeVec
}

// set shows one of the numbers that only the owner of the sink knows.
func (m *metrics) set(g *prometheus.GaugeVec, value float64) { g.WithLabelValues(m.sink).Set(value) }

// giveUp takes them away: another process may own the sink from now on, and what
// stood here last would be taken for the truth.
func (m *metrics) giveUp() {
	for _, g := range []*prometheus.GaugeVec{m.inHand, m.backlog, m.waiting, m.up} {
		g.DeleteLabelValues(m.sink)
	}
}

// newMetrics registers the numbers, or takes those that another loop has
// registered; nothing is registered where r is nil.
func newMetrics(r prometheus.Registerer, sink string) (*metrics, error) {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	g := registrar{r: r}
	label := prometheus.Labels{"sink": sink}
	m := &metrics{
		sent:     g.counter("sent_total", "Notifications that the receiver accepted.", "sink").With(label),
		failures: g.counter("failures_total", "Failed tries, by cause.", "sink", "reason").MustCurryWith(label),
		buried:   g.counter("buried_total", "Events moved to the dead letters, by reason.", "sink", "reason").MustCurryWith(label),
		absorbed: g.counter("repeats_absorbed_total", "Messages that came again after they were settled.", "sink").With(label),
		skipped:  g.counter("skipped_total", "Events that the sink was not to be told.", "sink").With(label),
		store:    g.counter("store_errors_total", "Standings that could not be read or written.", "sink", "operation").MustCurryWith(label),
		begins:   g.counter("begins_total", "Beginnings of the sink's consumer.", "sink").With(label),
		inHand:   g.gauge("in_hand", "Messages taken from the stream and not settled.", "sink"),
		backlog:  g.gauge("backlog", "Messages that wait in the stream.", "sink"),
		waiting:  g.gauge("waiting", "Purchases with an alarm that waits for a moment.", "sink"),
		up:       g.gauge("up", "1 while the sink is served, 0 while it is down, paused or gone.", "sink"),
		latency:  g.histogram("latency_seconds", "Time from the event's storage to its acceptance.", "sink").With(label),
		sink:     sink,
	}
	if g.err != nil {
		return nil, fmt.Errorf("register delivery metrics: %w", g.err)
	}
	return m, nil
}

// registrar registers collectors and remembers the first trouble.
type registrar struct {
	r   prometheus.Registerer
	err error
}

func (g *registrar) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return register(g, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "herald_deliver_" + name, Help: help}, labels))
}

func (g *registrar) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(g, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "herald_deliver_" + name, Help: help}, labels))
}

func (g *registrar) histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return register(g, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "herald_deliver_" + name, Help: help,
		Buckets:                     []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 36000},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, labels))
}

// register gives the collector itself, or its twin that is registered already:
// every sink's loop, and its successor after a reload, shares one.
func register[C prometheus.Collector](g *registrar, c C) C {
	err := g.r.Register(c)
	var twin prometheus.AlreadyRegisteredError
	if errors.As(err, &twin) {
		if same, ok := twin.ExistingCollector.(C); ok {
			return same
		}
	}
	if err != nil && g.err == nil {
		g.err = err
	}
	return c
}

package stream

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what goes wrong on the bus. No label has an open set of values.
type metrics struct {
	publishFailures prometheus.Counter
	conflicts       prometheus.Counter
	repeats         prometheus.Counter
	undecodable     prometheus.Counter
	disconnects     prometheus.Counter
	recreated       *prometheus.CounterVec
	beginnings      *prometheus.CounterVec
	auditDropped    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "herald_stream_" + name, Help: help})
	}
	m := &metrics{
		publishFailures: counter("publish_failures_total", "Publishes that were not acknowledged."),
		conflicts:       counter("conflicts_total", "Publishes whose subject had moved on."),
		repeats:         counter("repeats_total", "Publishes of an event that was there already."),
		undecodable:     counter("undecodable_total", "Stored messages that are no event of ours."),
		disconnects:     counter("disconnects_total", "Losses of the connection."),
		auditDropped:    counter("audit_dropped_total", "Audit records that were not stored."),
		recreated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "herald_stream_recreated_total", Help: "Streams and consumers found missing or changed, and put right.",
		}, []string{"what"}),
		beginnings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "herald_stream_beginnings_total", Help: "Beginnings of a sink's consumer, by reason.",
		}, []string{"reason"}),
	}
	if reg != nil {
		reg.MustRegister(m.publishFailures, m.conflicts, m.repeats, m.undecodable,
			m.disconnects, m.auditDropped, m.recreated, m.beginnings)
	}
	return m
}

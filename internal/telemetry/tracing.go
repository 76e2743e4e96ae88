package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	traceQueue   = 4096            // spans that wait for the collector; more are dropped, never waited for
	traceTimeout = 5 * time.Second // of one export
)

// TracingOptions say where traces go and who sends them.
type TracingOptions struct {
	Endpoint string // http:// or https:// address of an OTLP collector; without a path, /v1/traces is asked. Empty: off
	Service  string // service.name
	Version  string // service.version
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// Tracing makes the tracer, nil without an endpoint, and what hands in the last spans and ends it. A collector that is away costs spans, never work: what does not fit
// the queue is dropped, and failures are counted and logged once until it answers again. Sampling follows the standard
// variables OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG; by default every trace is kept.
func Tracing(ctx context.Context, o TracingOptions) (trace.Tracer, func(context.Context) error, error) {
	const scope = "github.com/heraldbridge/herald"
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "herald_trace_export_failures_total", Help: "Batches of spans that the collector did not take; they are lost.",
	})
	if err := o.Metrics.Register(failures); err != nil {
		return nil, nil, fmt.Errorf("register trace metrics: %w", err)
	}
	if o.Endpoint == "" {
		return nil, func(context.Context) error { return nil }, nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, nil, errors.New("read the address of the trace collector: it is no URL")
	}
	if u.Path == "" || u.Path == "/" {
		u = u.JoinPath("v1", "traces")
	}
	client, err := newCollector(u, o.Version)
	if err != nil {
		return nil, nil, err
	}
	sender, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, nil, fmt.Errorf("make the trace exporter: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&quietExporter{SpanExporter: sender, log: o.Log, failures: failures},
			sdktrace.WithMaxQueueSize(traceQueue), sdktrace.WithExportTimeout(traceTimeout)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))),
	)
	return provider.Tracer(scope, trace.WithInstrumentationVersion(o.Version)), provider.Shutdown, nil
}

// quietExporter tells of failures itself. The SDK would hand them to a handler of the whole process, which writes each to
// the standard error.
type quietExporter struct {
	sdktrace.SpanExporter
	log      *slog.Logger
	failures prometheus.Counter
	failing  atomic.Bool
}

// ExportSpans sends spans, and never fails.
func (e *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.failures.Inc()
		if e.failing.CompareAndSwap(false, true) {
			e.log.Warn("the trace collector does not take spans; they are lost until it does", "err", cause(err))
		}
		return nil
	}
	if e.failing.CompareAndSwap(true, false) {
		e.log.Info("the trace collector takes spans again")
	}
	return nil
}

// cause is what is at the bottom of an error. The address is above it: it can hold a password.
func cause(err error) error {
	for below := err; below != nil; below = errors.Unwrap(below) {
		err = below
	}
	return err
}

package watch

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// origin is the call that showed what is decided now. Zero: nothing was asked, what was known is judged anew.
type origin struct {
	tool        envoy.Tool
	asked, came time.Time
}

// trace begins the trace of a new event: from the call that showed it to the moment in which it is stored. The event
// carries its context on. Calls that bring nothing new leave no trace.
func (t *term) trace(ctx context.Context, pub *publication, now time.Time) (end func(error)) {
	from, tracer := t.origin, t.w.tracer
	if tracer == nil {
		return func(error) {}
	}
	if from.asked.IsZero() {
		from.asked = now
	}
	ctx, whole := tracer.Start(ctx, "purchase revision", trace.WithNewRoot(), trace.WithTimestamp(from.asked))
	if from.tool != "" {
		_, call := tracer.Start(ctx, string(from.tool), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(from.asked))
		call.End(trace.WithTimestamp(from.came))
	}
	ctx, stored := tracer.Start(ctx, "publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(now))
	if whole.IsRecording() {
		whole.SetAttributes(traced(pub.event)...)
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		pub.event.TraceParent = carrier.Get("traceparent")
	}
	return func(err error) {
		if err != nil {
			stored.SetStatus(codes.Error, "not stored")
		}
		stored.End()
		whole.End()
	}
}

// traced is what a trace tells about an event: nothing personal, nothing secret.
func traced(e events.Event) []attribute.KeyValue {
	p := e.Purchase
	return []attribute.KeyValue{
		attribute.String("herald.event.id", e.ID), attribute.String("herald.event.type", string(e.Type)),
		attribute.String("herald.connection", p.Connection), attribute.String("herald.purchase.id", e.Subject),
		attribute.Int64("herald.purchase.revision", p.Reading.Revision),
		attribute.String("herald.purchase.state", string(p.State)),
		attribute.String("herald.purchase.situation", string(p.Situation)),
		attribute.String("herald.cause", string(p.Reading.Cause)),
		attribute.String("herald.envoy.trace_id", p.Support.TraceID),
	}
}

package deliver

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/heraldbridge/herald/internal/sinks"
)

// trace begins the span of one try, in the trace that the event's publisher began. The sink finds its context in ctx, and
// hands it on.
func (s *shift) trace(ctx context.Context, n sinks.Notification) (context.Context, func(error)) {
	if parent := n.Event.TraceParent; parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
	}
	if s.o.Tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := s.o.Tracer.Start(ctx, "deliver", trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("herald.sink", s.o.Name), attribute.String("herald.event.id", n.Event.ID),
			attribute.String("herald.notification", string(n.Kind)), attribute.Int("herald.attempt", n.Attempt))
	}
	return ctx, func(err error) {
		if err != nil {
			reason := "failed"
			if f := (*sinks.Failure)(nil); errors.As(err, &f) {
				reason = string(f.Reason)
			}
			span.SetStatus(codes.Error, reason)
		}
		span.End()
	}
}

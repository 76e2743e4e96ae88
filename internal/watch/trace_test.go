package watch

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// Only what is new is traced, from the call that showed it; what is judged anew begins with itself.
func TestTracesBeginWithTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rec := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
		f := newFar()
		b := start(t, f, func(o *Options) { o.Tracer = provider.Tracer("test") })
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		n := len(rec.Ended())
		b.pass(10 * time.Minute) // holds that bring nothing
		if more := len(rec.Ended()) - n; more != 0 {
			t.Errorf("%d spans of calls that brought nothing", more)
		}
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(time.Minute)
		spans := map[string]sdktrace.ReadOnlySpan{}
		for _, s := range rec.Ended()[n:] {
			spans[s.Name()] = s
		}
		hold, whole := spans[string(envoy.ToolStatus)], spans["purchase revision"]
		if len(spans) != 3 || hold == nil || whole == nil {
			t.Fatalf("spans: %v", spans)
		}
		if !hold.StartTime().Equal(whole.StartTime()) || hold.EndTime().Sub(hold.StartTime()) > 45*time.Second || hold.EndTime().Equal(hold.StartTime()) {
			t.Errorf("the hold is from %s to %s, the whole from %s", hold.StartTime(), hold.EndTime(), whole.StartTime())
		}
		list := b.store.purchases(pid(1))
		if got := list[len(list)-1].TraceParent; got == "" || got == list[0].TraceParent {
			t.Errorf("the event carries %q", got)
		}
	})
}

// What a trace costs the watcher, for one event: three spans that are handed to a batch.
func BenchmarkTrace(b *testing.B) {
	batched := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
	b.Cleanup(func() { _ = batched.Shutdown(context.Background()) })
	for name, tracer := range map[string]trace.Tracer{"off": nil, "on": batched.Tracer("")} {
		b.Run(name, func(b *testing.B) {
			now := time.Now()
			t := &term{w: &Watcher{tracer: tracer}, origin: origin{envoy.ToolStatus, now, now}}
			e := events.Event{ID: pid(1) + "-0-1-0", Subject: pid(1), Purchase: &events.Purchase{Connection: "host-a", State: events.StateProcessing}}
			b.ReportAllocs()
			for b.Loop() {
				pub := publication{event: e}
				t.trace(b.Context(), &pub, now)(nil)
			}
		})
	}
}

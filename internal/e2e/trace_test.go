package e2e_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/heraldbridge/herald/internal/envoysim"
)

// gatherer is a trace collector.
type gatherer struct {
	mu  sync.Mutex
	all map[string][]*spans.Span // by service
	raw strings.Builder
}

func (g *gatherer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var got collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &got) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.raw.Write(body)
	for _, of := range got.GetResourceSpans() {
		service := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			g.all[service] = append(g.all[service], scope.GetSpans()...)
		}
	}
}

// of gives the spans of a service with a name, about an event.
func (g *gatherer) of(service, name string) []*spans.Span {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*spans.Span
	for _, s := range g.all[service] {
		if s.GetName() == name {
			out = append(out, s)
		}
	}
	return out
}

func attribute(s *spans.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// One trace leads from the read that showed a change, through the stream, to the webhook's receiver; the event and the
// request carry it on, and no secret is in it.
func TestOneTraceFromReadToReceiver(t *testing.T) {
	w := newWorld(t)
	g := &gatherer{all: map[string][]*spans.Span{}}
	server := httptest.NewServer(g)
	defer server.Close()
	file := w.config("traced", w.outside())
	text := readFile(t, file) + fmt.Sprintf("tracing: { otlp_endpoint: %q }\n", server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	watcher, notifier := w.start("watcher", "-c", file), w.start("notifier", "-c", file)
	watcher.says(`"msg":"running"`)
	notifier.says(`"msg":"running"`)
	said := func() string { return watcher.out.String() + notifier.out.String() }
	id := w.envoyCheckout()
	await(t, 30*time.Second, "the purchase is held", func() bool { return w.sim.Holds() > 0 }, said)
	w.move(id, envoysim.Processing)
	event := eventID(w, id, 1)
	await(t, 30*time.Second, "the change is delivered", func() bool { return slices.Contains(w.accepted(), event) }, said)
	for _, p := range []*proc{watcher, notifier} { // the end of a process hands in the last spans
		if code := p.stop(); code != 0 {
			t.Errorf("exit code %d\n%s", code, p.out)
		}
	}

	about := func(list []*spans.Span) *spans.Span {
		t.Helper()
		for _, s := range list {
			if attribute(s, "herald.event.id") == event {
				return s
			}
		}
		t.Fatalf("no span about %s among %d", event, len(list))
		return nil
	}
	whole, sent := about(g.of("watcher", "purchase revision")), about(g.of("notifier", "deliver"))
	if !slices.Equal(whole.GetTraceId(), sent.GetTraceId()) {
		t.Error("the delivery is not in the trace of the reading")
	}
	parts := map[string]*spans.Span{}
	for _, name := range []string{"get_purchase_status", "publish"} {
		for _, s := range g.of("watcher", name) {
			if slices.Equal(s.GetParentSpanId(), whole.GetSpanId()) {
				parts[name] = s
			}
		}
	}
	hold, publish := parts["get_purchase_status"], parts["publish"]
	if hold == nil || publish == nil {
		t.Fatalf("the trace lacks the hold or the publication: %v", parts)
	}
	if !slices.Equal(sent.GetParentSpanId(), publish.GetSpanId()) {
		t.Error("the delivery does not follow the publication")
	}
	if hold.GetStartTimeUnixNano() > hold.GetEndTimeUnixNano() || hold.GetEndTimeUnixNano() > publish.GetEndTimeUnixNano() {
		t.Error("the times are out of order")
	}
	stored := ""
	for _, e := range w.stored() {
		if e.Event.ID == event {
			stored = e.Event.TraceParent
		}
	}
	if want := fmt.Sprintf("00-%s-%s-01", hex.EncodeToString(whole.GetTraceId()), hex.EncodeToString(publish.GetSpanId())); stored != want {
		t.Errorf("the event carries %q, want %q", stored, want)
	}
	for _, r := range w.hook.Received() {
		if want := fmt.Sprintf("00-%s-%s-01", hex.EncodeToString(sent.GetTraceId()), hex.EncodeToString(sent.GetSpanId())); r.Header.Get("webhook-id") == event && r.Header.Get("traceparent") != want {
			t.Errorf("the request carries %q, want %q", r.Header.Get("traceparent"), want)
		}
	}
	if strings.Contains(g.raw.String(), "canary") {
		t.Error("a secret is in the spans")
	}
}

// A collector that is away is told once, and costs nothing else.
func TestTraceCollectorAway(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	file := w.config("traced", places{})
	text := readFile(t, file) + fmt.Sprintf("tracing: { otlp_endpoint: %q }\n", server.URL+"/canary-word")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := w.start("herald", "run", "-c", file)
	h.says(`"msg":"running"`)
	id := w.envoyCheckout()
	await(t, 30*time.Second, "the purchase is held", func() bool { return w.sim.Holds() > 0 }, h.out.String)
	w.move(id, envoysim.Processing)
	await(t, 30*time.Second, "the change is delivered", func() bool { return slices.Contains(w.accepted(), eventID(w, id, 1)) }, h.out.String)
	h.says("the trace collector does not take spans")
	if code := h.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, h.out)
	}
	if n := strings.Count(h.out.String(), "the trace collector does not take spans"); n != 1 || strings.Contains(h.out.String(), "canary-word") {
		t.Errorf("told %d times:\n%s", n, h.out)
	}
}

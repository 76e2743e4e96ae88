package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/heraldbridge/herald/internal/telemetry"
)

// gathering is a trace collector that gives these answers in turn, then takes everything.
type gathering struct {
	answers []http.HandlerFunc
	got     []*http.Request
	bodies  []*spans.TracesData
}

func (g *gathering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzip, err := gzip.NewReader(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		in = unzip
	}
	body, err := io.ReadAll(in)
	data := &spans.TracesData{}
	if err != nil || proto.Unmarshal(body, data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	g.got, g.bodies = append(g.got, r), append(g.bodies, data)
	if len(g.answers) >= len(g.got) {
		g.answers[len(g.got)-1](w, r)
	}
}

// export sends one span to an address, and gives how many batches were not taken, and the log.
func export(t *testing.T, endpoint string) (lost int, said string) {
	t.Helper()
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	tracer, stop, err := telemetry.Tracing(t.Context(), telemetry.TracingOptions{
		Endpoint: endpoint, Service: "watcher", Version: "1.2.3", Log: telemetry.NewLogger(&log, "debug", "text"), Metrics: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(t.Context(), "publish")
	span.End()
	if err := stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return int(families[0].GetMetric()[0].GetCounter().GetValue()), log.String()
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestSpansReachTheCollector(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"plain":  {},
		"zipped": {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
		"keyed":  {"OTEL_EXPORTER_OTLP_HEADERS": "x-other=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "X-Key=a%20key, x-team = ops"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range env {
				t.Setenv(k, v)
			}
			g := &gathering{}
			server := httptest.NewServer(g)
			defer server.Close()
			lost, said := export(t, server.URL)
			if lost != 0 || said != "" || len(g.bodies) != 1 {
				t.Fatalf("%d lost, %d taken, log %q", lost, len(g.bodies), said)
			}
			of := g.bodies[0].GetResourceSpans()[0]
			if a := of.GetResource().GetAttributes()[0]; a.GetKey() != "service.name" || a.GetValue().GetStringValue() != "watcher" {
				t.Errorf("resource %v", of.GetResource())
			}
			if got := of.GetScopeSpans()[0].GetSpans(); len(got) != 1 || got[0].GetName() != "publish" {
				t.Errorf("spans %v", got)
			}
			r := g.got[0]
			if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("User-Agent") != "herald/1.2.3" {
				t.Errorf("asked %s with %v", r.URL.Path, r.Header)
			}
			if env["OTEL_EXPORTER_OTLP_HEADERS"] != "" && (r.Header.Get("X-Key") != "a key" || r.Header.Get("X-Team") != "ops" || r.Header.Get("X-Other") != "") {
				t.Errorf("headers %v", r.Header)
			}
		})
	}
}

func TestCollectorThatDoesNotTakeSpans(t *testing.T) {
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		lost    int
		asked   int
		says    string
	}{
		"busy":    {[]http.HandlerFunc{status(503), status(429)}, 0, 3, ""},
		"refuses": {[]http.HandlerFunc{status(400)}, 1, 1, "status 400"},
		"redirects": {[]http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}}, 1, 1, "status 307"},
		// partial_success { rejected_spans: 1, error_message: "no" }
		"takes a part": {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte{0x0a, 6, 0x08, 1, 0x12, 2, 'n', 'o'})
		}}, 1, 1, "a part"},
		"takes all, and warns": {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte{0x0a, 4, 0x12, 2, 'n', 'o'})
		}}, 0, 1, ""},
		"takes all, and talks": {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("thanks")) }}, 0, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gathering{answers: c.answers}
			server := httptest.NewServer(g)
			defer server.Close()
			lost, said := export(t, server.URL+"/canary-path")
			if lost != c.lost || len(g.got) != c.asked || !strings.Contains(said, c.says) || (c.lost == 0) != (said == "") {
				t.Errorf("%d lost, asked %d times, log %q", lost, len(g.got), said)
			}
			if strings.Contains(said, "canary") {
				t.Errorf("the address is in the log: %s", said)
			}
		})
	}
}

func TestCollectorOverTLS(t *testing.T) {
	g := &gathering{}
	server := httptest.NewUnstartedServer(g)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	defer server.Close()
	if lost, _ := export(t, server.URL); lost != 1 || len(g.got) != 0 {
		t.Errorf("an unknown authority is trusted: %d lost, %d taken", lost, len(g.got))
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
	if lost, said := export(t, server.URL); lost != 0 || len(g.got) != 1 {
		t.Errorf("%d lost, %d taken, log %q", lost, len(g.got), said)
	}
	if v := g.got[0].TLS.Version; v < tls.VersionTLS12 {
		t.Errorf("TLS version %x", v)
	}
}

func TestCollectorVariablesThatAreWrong(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"HEADERS", "x-key=good,canary"}, {"HEADERS", "x-key=%zz-canary"}, {"COMPRESSION", "zstd"},
		{"CERTIFICATE", empty}, {"CERTIFICATE", "no-such-file"}, {"CLIENT_CERTIFICATE", empty},
	} {
		t.Run(c[0]+" "+filepath.Base(c[1]), func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+c[0], c[1])
			_, _, err := telemetry.Tracing(t.Context(), telemetry.TracingOptions{
				Endpoint: "http://127.0.0.1:9", Log: telemetry.NewLogger(io.Discard, "info", "text"), Metrics: prometheus.NewRegistry(),
			})
			if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+c[0]) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error %v", err)
			}
		})
	}
}

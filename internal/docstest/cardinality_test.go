package docstest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/envoysim"
)

// strangeEnvoy is the stand-in, with a new word in place of a state now and then.
type strangeEnvoy struct {
	inner http.Handler
	words atomic.Int64
}

// ServeHTTP answers as the stand-in does, and spoils every third reply that is in processing.
func (s *strangeEnvoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := httptest.NewRecorder()
	s.inner.ServeHTTP(rec, r)
	body := rec.Body.String()
	if n := s.words.Add(1); n%3 == 0 {
		body = strings.Replace(body, `"state":"processing"`, fmt.Sprintf(`"state":"word_%d"`, n), 1)
	}
	for name, values := range rec.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(rec.Code)
	_, _ = io.WriteString(w, body)
}

// samples counts the lines of /metrics that are Herald's, and gives them.
func samples(t *testing.T, addr string) (int, string) {
	t.Helper()
	status, text := get(t, "http://"+addr+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d", status)
	}
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "herald_") {
			n++
		}
	}
	return n, text
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// published counts stored events.
func published(t *testing.T, r *prometheus.Registry) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "herald_watch_events_total" {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestB41_LabelsStayBounded lets many purchases of many users pass, with states that nobody has heard of, asks for paths
// that do not exist, and finds none of it in /metrics.
func TestB41_LabelsStayBounded(t *testing.T) {
	const hosts = 40
	sim, err := envoysim.New(envoysim.Options{Seed: 41, Speed: 60, Quirks: envoysim.DefaultQuirks()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	requests, cut := context.WithCancel(t.Context())
	envoy := &strangeEnvoy{inner: sim.Handler()}
	server := &http.Server{Handler: envoy, BaseContext: func(net.Listener) context.Context { return requests }}
	ended := make(chan error, 2)
	go func() { ended <- sim.Run(ctx) }()
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() { cut(); stop(); _ = server.Close(); <-ended; <-ended })

	var text strings.Builder
	secrets := map[string]string{}
	fmt.Fprintf(&text, "data_dir: \"@dir/data\"\nhttp: { listen: \"127.0.0.1:0\" }\nwatch: { requests_per_minute: 120, look_every: 1s, discover_every: 1s }\nconnections:\n")
	var tokens []string
	for i := range hosts {
		name := fmt.Sprintf("host-%d", i)
		tokens = append(tokens, "token-"+name+"-0123456789abcdef")
		secrets[name] = tokens[i]
		fmt.Fprintf(&text, "  - { name: %s, base_url: \"http://%s\", token: \"file:@dir/%s\" }\n", name, l.Addr(), name)
	}
	if _, err := sim.Populate(envoysim.Cast{Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	a := runningApp(t, text.String(), secrets)
	eventually(t, "the first purchases are published", func() bool { return published(t, a.Registry()) >= 60 })
	before, _ := samples(t, a.Addr())
	eventually(t, "many purchases are published", func() bool { return published(t, a.Registry()) >= 400 })
	for i := range 500 {
		get(t, fmt.Sprintf("http://%s/random-%d/pur_%032x", a.Addr(), i, i))
	}
	after, page := samples(t, a.Addr())
	if after > before+20 {
		t.Errorf("/metrics grew from %d to %d lines", before, after)
	}
	if envoy.words.Load() < 150 {
		t.Errorf("only %d replies", envoy.words.Load())
	}
	for _, word := range []string{"pur_", "word_", "host-", "random", "example", "127.0.0.1", "token-"} {
		if strings.Contains(page, word) {
			t.Errorf("/metrics holds %q", word)
		}
	}
}

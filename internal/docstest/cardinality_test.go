package docstest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// strangeEnvoy is the stand-in, with a new word in place of a state now and then.
type strangeEnvoy struct {
	inner   http.Handler
	replies atomic.Int64
	words   atomic.Int64 // that nobody has heard of, so far
}

// ServeHTTP answers as the stand-in does, and spoils every ninth reply if it is about a purchase in processing.
func (s *strangeEnvoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const state = `"state":"processing"`
	rec := httptest.NewRecorder()
	s.inner.ServeHTTP(rec, r)
	body := rec.Body.String()
	if s.replies.Add(1)%9 == 0 && strings.Contains(body, state) {
		body = strings.Replace(body, state, fmt.Sprintf(`"state":"word_%d"`, s.words.Add(1)), 1)
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

// crowd is a process that watches for many hosts, each with a user of its own.
type crowd struct {
	sim    *envoysim.Sim
	envoy  *strangeEnvoy
	app    *app.App
	orders *sinkfakes.Hook
}

// newCrowd runs it. The first hosts have agents that buy by themselves.
func newCrowd(t *testing.T, hosts, buying int) *crowd {
	t.Helper()
	sim, err := envoysim.New(envoysim.Options{Seed: 41, Speed: 60, Quirks: envoysim.DefaultQuirks()})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := sinkfakes.NewHook("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = orders.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{sim: sim, envoy: &strangeEnvoy{inner: sim.Handler()}, orders: orders}
	ctx, stop := context.WithCancel(t.Context())
	requests, cut := context.WithCancel(t.Context())
	server := &http.Server{Handler: c.envoy, BaseContext: func(net.Listener) context.Context { return requests }}
	ended := make(chan error, 2)
	go func() { ended <- sim.Run(ctx) }()
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() { cut(); stop(); _ = server.Close(); <-ended; <-ended })

	var text strings.Builder
	fmt.Fprintf(&text, `data_dir: "@dir/data"
http: { listen: "127.0.0.1:0" }
watch: { requests_per_minute: 120, look_every: 4s, discover_every: 10s }
sinks: [{ name: orders, webhook: { url: %q, secrets: ["file:@dir/secret"], allow_cidrs: [127.0.0.0/8] } }]
subscriptions: [{ name: orders, match: "true", sinks: [orders] }]
connections:
`, orders.URL("/"))
	var tokens []string
	secrets := map[string]string{}
	for i := range hosts {
		name := fmt.Sprintf("host-%d", i)
		tokens = append(tokens, "token-"+name+"-0123456789abcdef")
		secrets[name] = tokens[i]
		sim.SetToken(userOf(i), agentOf(i), tokens[i])
		fmt.Fprintf(&text, "  - { name: %s, base_url: \"http://%s\", token: \"file:@dir/%s\" }\n", name, l.Addr(), name)
	}
	if _, err := sim.Populate(envoysim.Cast{Tokens: tokens[:buying]}); err != nil {
		t.Fatal(err)
	}
	c.app = runningApp(t, text.String(), secrets)
	return c
}

func userOf(host int) string { return fmt.Sprintf("buyer-%d", host) }

func agentOf(host int) string { return fmt.Sprintf("origin:https://host-%d.example.test", host) }

// buy begins a purchase at a merchant that nobody has bought from, and registers it as an agent host does.
func (c *crowd) buy(t *testing.T, host, n int) {
	t.Helper()
	id, err := c.sim.Put(userOf(host), envoysim.Purchase{
		State: envoysim.Processing, Rail: envoysim.OperatedCheckout, CheckoutBy: envoysim.ByEnvoy, Amount: int64(100 + n),
		MerchantName: fmt.Sprintf("Merchant %d", n), MerchantURL: fmt.Sprintf("https://merchant-%d.example.test/", n),
		Agent: envoysim.AgentIdentity{ID: agentOf(host)},
	})
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"connection":"host-%d","purchase":%q}`, host, id)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.app.Addr()+"/v1/watches", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		t.Fatalf("register %s: %d %s", id, resp.StatusCode, said)
	}
}

// told counts the merchants of whose purchases the sink was told.
func (c *crowd) told() int {
	seen := map[string]bool{}
	for _, r := range c.orders.Received() {
		seen[string(merchant.Find(r.Body))] = true
	}
	delete(seen, "")
	return len(seen)
}

var merchant = regexp.MustCompile(`Merchant [0-9]+`)

// TestB41_LabelsStayBounded lets twenty purchases pass, then two thousand of other users and merchants, with states that
// nobody has heard of, asks for paths that do not exist, and finds none of it in /metrics.
func TestB41_LabelsStayBounded(t *testing.T) {
	const hosts, buying, more = 120, 20, 2000
	c := newCrowd(t, hosts, buying)
	eventually(t, "the first purchases are published", func() bool { return published(t, c.app.Registry()) >= 3*buying })
	before, _ := samples(t, c.app.Addr())
	for n := range more {
		c.buy(t, buying+n%(hosts-buying), n)
	}
	for want := more / 10; want <= more; want += more / 10 {
		eventually(t, fmt.Sprintf("%d more purchases are published and told of", want), func() bool { return c.told() >= want })
	}
	for i := range 500 {
		get(t, fmt.Sprintf("http://%s/random-%d/pur_%032x", c.app.Addr(), i, i))
	}
	after, page := samples(t, c.app.Addr())
	if after > before+20 {
		t.Errorf("/metrics grew from %d to %d lines", before, after)
	}
	if n := c.envoy.words.Load(); n < 50 {
		t.Errorf("only %d unheard words", n)
	}
	for _, word := range []string{"pur_", "word_", "host-", "buyer", "erchant", "random", "example", "127.0.0.1", "token-"} {
		if strings.Contains(page, word) {
			t.Errorf("/metrics holds %q", word)
		}
	}
}

// TestHistogramsComeInBothForms looks at every histogram of a process that has watched and delivered.
func TestHistogramsComeInBothForms(t *testing.T) {
	c := newCrowd(t, 2, 2)
	eventually(t, "something is delivered", func() bool { return len(c.orders.Received()) > 0 })
	seen := 0
	eventually(t, "what watching and delivering took is counted", func() bool {
		families, err := c.app.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen = 0
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "herald_") || f.GetType() != dto.MetricType_HISTOGRAM {
				continue
			}
			seen++
			for _, m := range f.GetMetric() {
				if h := m.GetHistogram(); len(h.GetBucket()) == 0 || h.GetZeroThreshold() == 0 {
					t.Errorf("%s: %d classic buckets, native zero threshold %g", f.GetName(), len(h.GetBucket()), h.GetZeroThreshold())
				}
			}
		}
		return seen >= 2
	})
}

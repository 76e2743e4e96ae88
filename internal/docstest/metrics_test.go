package docstest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/app"
)

// metric is one metric as it is registered or documented.
type metric struct {
	name, kind string
	help       string
	labels     []string
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// idle is a configuration with a sink and a connection that lead nowhere.
const idle = `
data_dir: "@dir/data"
http: { listen: "127.0.0.1:0" }
connections: [{ name: host-a, base_url: "http://127.0.0.1:9", token: "file:@dir/secret" }]
sinks: [{ name: orders, webhook: { url: "http://127.0.0.1:9/", secrets: ["file:@dir/secret"], allow_cidrs: [127.0.0.0/8] } }]
subscriptions: [{ name: orders, match: "true", sinks: [orders] }]
`

// runningApp runs everything in one process.
func runningApp(t *testing.T, text string, secrets map[string]string) *app.App {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"herald.yaml": strings.ReplaceAll(text, "@dir", dir), "secret": "stand-in"}
	maps.Copy(files, secrets)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "herald.yaml")
	cfg, err := config.LoadFor(file, config.RoleHerald)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	a, err := app.New(ctx, app.Options{Config: cfg, Role: config.RoleHerald, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	select {
	case <-a.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("the process ended: %v", err)
	}
	return a
}

// registered gives every metric of a running process, those without a sample too.
func registered(t *testing.T, r *prometheus.Registry) map[string]metric {
	t.Helper()
	desc := regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)
	descs := make(chan *prometheus.Desc, 1000)
	r.Describe(descs)
	close(descs)
	out := map[string]metric{}
	for d := range descs {
		m := desc.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("read description %s", d)
		}
		if !strings.HasPrefix(m[1], "herald_") {
			continue
		}
		one := metric{name: m[1]}
		if err := json.Unmarshal([]byte(m[2]), &one.help); err != nil {
			t.Fatal(err)
		}
		if m[3] != "" {
			one.labels = strings.Split(m[3], ",")
		}
		if strings.HasSuffix(one.name, "_total") {
			one.kind = "counter"
		}
		out[one.name] = one
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if one, ours := out[f.GetName()]; ours {
			one.kind = strings.ToLower(f.GetType().String())
			out[f.GetName()] = one
		}
	}
	return out
}

// hasSample tells whether a metric has a sample.
func hasSample(t *testing.T, r prometheus.Gatherer, name string) bool {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
}

// documented reads the tables of the page.
func documented(t *testing.T) map[string]metric {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `(herald_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*)\\| ([^|]+) \\| ([^|]+) \\|$")
	out := map[string]metric{}
	for _, m := range row.FindAllStringSubmatch(read(t, "docs", "metrics.md"), -1) {
		one := metric{name: m[1], kind: m[2], help: m[4]}
		for _, label := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(m[3], -1) {
			one.labels = append(one.labels, label[1])
		}
		if _, twice := out[one.name]; twice {
			t.Errorf("%s is documented twice", one.name)
		}
		out[one.name] = one
	}
	return out
}

func TestMetricsAreDocumented(t *testing.T) {
	a := runningApp(t, idle, nil)
	eventually(t, "the sink is owned, and has its gauges", func() bool {
		return hasSample(t, a.Registry(), "herald_deliver_up") && hasSample(t, a.Registry(), "herald_deliver_backlog")
	})
	exposed, page := registered(t, a.Registry()), documented(t)
	if len(exposed) < 20 {
		t.Fatalf("only %d metrics are registered", len(exposed))
	}
	for name, m := range exposed {
		d, ok := page[name]
		switch {
		case !ok:
			t.Errorf("docs/metrics.md lacks %s (%s %v): %s", name, m.kind, m.labels, m.help)
		case d.kind != m.kind || !slices.Equal(d.labels, m.labels):
			t.Errorf("docs/metrics.md has %s as %s %v; it is %s %v", name, d.kind, d.labels, m.kind, m.labels)
		}
	}
	for name := range page {
		if _, ok := exposed[name]; !ok {
			t.Errorf("docs/metrics.md has %s, which does not exist", name)
		}
	}
	lint(t, a.Registry(), exposed)
	closedLabels(t, exposed)
}

// lint asks client_golang about names and helps: of what has samples, and of all the rest by its description.
func lint(t *testing.T, r *prometheus.Registry, exposed map[string]metric) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sampled := map[string]bool{}
	for _, f := range families {
		sampled[f.GetName()] = true
	}
	for name, m := range exposed {
		if sampled[name] {
			continue
		}
		if m.kind != "counter" {
			t.Errorf("%s has no sample and is no counter", name)
		}
		kind := dto.MetricType_COUNTER
		families = append(families, &dto.MetricFamily{Name: &name, Help: &m.help, Type: &kind, Metric: []*dto.Metric{{Counter: &dto.Counter{}}}})
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "herald_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// closedLabels refuses a label whose values nobody has thought about.
func closedLabels(t *testing.T, exposed map[string]metric) {
	t.Helper()
	closed := []string{"tool", "outcome", "during", "cause", "kind", "record", "sink", "reason", "operation", "what", "result", "situation"}
	for name, m := range exposed {
		for _, l := range m.labels {
			if !slices.Contains(closed, l) {
				t.Errorf("%s has the label %s: are its values bounded?", name, l)
			}
		}
	}
}

package docstest

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// used gives the metrics of ours that a text names, as they are registered.
func used(text string) []string {
	names := regexp.MustCompile(`\bherald_[a-z_]+`).FindAllString(text, -1)
	for i, n := range names {
		names[i] = strings.TrimSuffix(n, "_bucket")
	}
	return names
}

func TestAlertsAreExplained(t *testing.T) {
	var rules struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions([]byte(read(t, "deploy", "prometheus", "rules.yaml")), &rules, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	page, cases, index := documented(t), read(t, "deploy", "prometheus", "rules_test.yaml"), read(t, "docs", "runbook", "README.md")
	pages := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			pages[r.Alert] = true
			if got, want := r.Annotations["runbook_url"], "https://github.com/heraldbridge/herald/blob/main/docs/runbook/"+r.Alert+".md"; got != want {
				t.Errorf("%s leads to %q, want %q", r.Alert, got, want)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks summary or description", r.Alert)
			}
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s has the severity %q", r.Alert, s)
			}
			for _, name := range used(r.Expr) {
				if _, ok := page[name]; !ok {
					t.Errorf("%s asks for %s, which does not exist", r.Alert, name)
				}
			}
			if !strings.Contains(cases, `ALERTS{alertname="`+r.Alert+`", alertstate="firing"`) && !strings.Contains(cases, "alertname: "+r.Alert+"\n        exp_alerts") {
				t.Errorf("no case sets %s off", r.Alert)
			}
			if !strings.Contains(index, "["+r.Alert+"]("+r.Alert+".md)") {
				t.Errorf("the runbook's index lacks %s", r.Alert)
			}
			text := read(t, "docs", "runbook", r.Alert+".md")
			for _, part := range []string{"# " + r.Alert + "\n", "**Means.**", "**Do.**", "**Ends**"} {
				if !strings.Contains(text, part) {
					t.Errorf("the page of %s lacks %q", r.Alert, part)
				}
			}
		}
	}
	files, err := filepath.Glob("../../docs/runbook/Herald*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no alerts, or no pages", err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".md"); !pages[name] {
			t.Errorf("docs/runbook/%s.md has no alert", name)
		}
	}
}

func TestDashboardShowsWhatExists(t *testing.T) {
	text := read(t, "deploy", "grafana", "herald.json")
	var board struct {
		UID    string `json:"uid"`
		Panels []struct {
			ID      int    `json:"id"`
			Type    string `json:"type"`
			Title   string `json:"title"`
			GridPos struct {
				H, W, X, Y int
			} `json:"gridPos"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatal(err)
	}
	page, shown, rows, ids := documented(t), map[string]bool{}, map[string]bool{}, map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			rows[p.Title] = true
		} else if len(p.Targets) == 0 {
			t.Errorf("%s asks nothing", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, full := taken[[2]int{x, y}]; full || x >= 24 {
					t.Fatalf("%s lies over %s, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			for _, name := range used(target.Expr) {
				shown[name] = true
				if _, ok := page[name]; !ok {
					t.Errorf("%s asks for %s, which does not exist", p.Title, name)
				}
			}
		}
	}
	for _, want := range []string{"At a glance", "Watcher", "Notifier", "Bus and state"} {
		if !rows[want] {
			t.Errorf("the dashboard has no row %q", want)
		}
	}
	for name := range page {
		if !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

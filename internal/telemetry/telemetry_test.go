package telemetry_test

import (
	"bytes"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/heraldbridge/herald/internal/telemetry"
)

func TestLoggerKeepsItsLevelAndFormat(t *testing.T) {
	tests := []struct {
		level, format string
		want          []string
		not           []string
	}{
		{"info", "json", []string{`"msg":"two"`, `"msg":"three"`, `"purchase":"p"`}, []string{"one"}},
		{"debug", "text", []string{"msg=one", "msg=two", "purchase=p"}, []string{"{"}},
		{"error", "json", nil, []string{"one", "two", "three"}},
		{"no such level", "no such format", []string{`"msg":"two"`}, []string{"one"}},
	}
	for _, tt := range tests {
		t.Run(tt.level+" "+tt.format, func(t *testing.T) {
			var out bytes.Buffer
			log := telemetry.NewLogger(&out, tt.level, tt.format)
			log.Debug("one")
			log.Info("two", "purchase", "p")
			log.Warn("three")
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %s in %s", want, out.String())
				}
			}
			for _, not := range tt.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("%s in %s", not, out.String())
				}
			}
		})
	}
}

func TestRegistriesAreIndependent(t *testing.T) {
	a, b := telemetry.NewRegistry(), telemetry.NewRegistry()
	for _, r := range []interface {
		Gather() ([]*dto.MetricFamily, error)
	}{a, b} {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range families {
			found = found || f.GetName() == "go_goroutines"
		}
		if !found {
			t.Error("no go_goroutines")
		}
	}
}

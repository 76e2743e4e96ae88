package watch

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Servers of both kinds find what they read: classic buckets, and the native form.
func TestHistogramsAreNativeAndClassic(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m, err := newMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	m.budgetWaits.Observe(3)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		for _, s := range f.GetMetric() {
			h := s.GetHistogram()
			if h == nil {
				continue
			}
			seen++
			if len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 {
				t.Errorf("%s: %d classic buckets, %d native spans", f.GetName(), len(h.GetBucket()), len(h.GetPositiveSpan()))
			}
		}
	}
	if seen == 0 {
		t.Error("no histogram was seen")
	}
}

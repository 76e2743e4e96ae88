package watch

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counter reads a counter or gauge.
func counter(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	if out.Counter != nil {
		return out.Counter.GetValue()
	}
	return out.Gauge.GetValue()
}

// times are when the events of a purchase were stored.
func (s *store) times(id string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []time.Time
	for i, e := range s.stored {
		if e.Purchase != nil && e.Subject == id {
			out = append(out, s.when[i])
		}
	}
	return out
}

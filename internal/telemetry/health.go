package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Health knows which parts of a process are in order. The zero Health has no parts and is ready. It is safe for use by
// many goroutines at once.
type Health struct {
	mu    sync.Mutex
	parts map[string]error
}

// NewHealth makes a Health that is not ready until each named part has been set.
func NewHealth(parts ...string) *Health {
	h := &Health{parts: map[string]error{}}
	for _, name := range parts {
		h.parts[name] = errStarting
	}
	return h
}

// errStarting is what a part has that has not said anything yet.
var errStarting = startingError{}

type startingError struct{}

func (startingError) Error() string { return "is starting" }

// Set says how a part is; nil means in order. The text of the error is shown to anybody who can reach the listener, so it must
// hold no secret.
func (h *Health) Set(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.parts == nil {
		h.parts = map[string]error{}
	}
	h.parts[name] = err
}

// Remove forgets a part that is no longer wanted.
func (h *Health) Remove(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.parts, name)
}

// Ready reports whether every part is in order.
func (h *Health) Ready() bool { return len(h.Missing()) == 0 }

// Register exposes as herald_ready what /readyz answers: 1 or 0.
func (h *Health) Register(r prometheus.Registerer) error {
	g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "herald_ready", Help: "1 while /readyz answers that the process is ready, else 0."},
		func() float64 {
			if h.Ready() {
				return 1
			}
			return 0
		})
	if err := r.Register(g); err != nil {
		return fmt.Errorf("register readiness: %w", err)
	}
	return nil
}

// Part is one part of a process that is not in order.
type Part struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Missing gives the parts that are not in order, by name.
func (h *Health) Missing() []Part {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := []Part{}
	for name, err := range h.parts {
		if err != nil {
			missing = append(missing, Part{Name: name, Reason: err.Error()})
		}
	}
	slices.SortFunc(missing, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	return missing
}

// ServeAlive answers 200 as long as the process can answer at all. A part out of order is no reason to be killed: what
// is in hand would be lost, and it would be out of order again.
func (h *Health) ServeAlive(w http.ResponseWriter, r *http.Request) {
	answer(w, r, http.StatusOK, "alive", nil)
}

// ServeReady answers 200 when every part is in order, and 503 with the names and reasons of those that are not; as JSON
// to those who ask for it, else as text.
func (h *Health) ServeReady(w http.ResponseWriter, r *http.Request) {
	missing := h.Missing()
	if len(missing) > 0 {
		answer(w, r, http.StatusServiceUnavailable, "not ready", missing)
		return
	}
	answer(w, r, http.StatusOK, "ready", missing)
}

func answer(w http.ResponseWriter, r *http.Request, status int, word string, missing []Part) {
	w.Header().Set("Cache-Control", "no-store")
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(struct {
			Status  string `json:"status"`
			Missing []Part `json:"missing,omitempty"`
		}{word, missing})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, word+"\n")
	for _, p := range missing {
		_, _ = fmt.Fprintf(w, "%s: %s\n", p.Name, p.Reason)
	}
}

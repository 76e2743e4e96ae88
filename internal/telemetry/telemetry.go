// Package telemetry is how a process is observed: its logger, its registry of metrics, its health, and the one HTTP
// listener that serves them together with whatever pages the process has. Nothing here is global; each process makes
// its own and hands the parts in.
package telemetry

import (
	"io"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewLogger makes a logger that writes lines of the level and above: debug, info, warn or error; any other word means
// info. The format is text for a terminal; anything else means json.
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		least = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: least}
	if strings.EqualFold(format, "text") {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// NewRegistry makes a registry that already tells about the Go runtime and the process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

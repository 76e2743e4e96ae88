package telemetry

import (
	"io"
	"log/slog"
	"strings"
)

// Strange takes what libraries write to the log package's own logger: net/http does so with bytes that a peer has sent,
// which may hold anything. Only the library's own words are kept: up to the first quote, and 120 bytes at the most.
func Strange(log *slog.Logger) io.Writer { return strange{log} }

type strange struct{ log *slog.Logger }

func (s strange) Write(p []byte) (int, error) {
	text, _, _ := strings.Cut(string(p[:min(len(p), 120)]), `"`)
	s.log.Debug("a library says", "text", strings.ToValidUTF8(strings.TrimSpace(text), ""))
	return len(p), nil
}

package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
)

func TestNewerFormatsAreRefused(t *testing.T) {
	dir := t.TempDir()
	open := func() *stream.Bus {
		t.Helper()
		bus, err := stream.Open(t.Context(), stream.Options{Embedded: &stream.Embedded{Dir: dir}, MaxBytes: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return bus
	}
	mark := func(bus *stream.Bus, change string) string {
		t.Helper()
		s, err := bus.JetStream().Stream(t.Context(), events.StreamPurchases)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		if change != "" {
			cfg.Metadata[formatMark] = change
			if _, err := bus.JetStream().UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
		return cfg.Metadata[formatMark]
	}
	bus := open()
	if got := mark(bus, ""); got != "" {
		t.Fatalf("a new stream is marked %q", got)
	}
	for range 2 { // the second finds the mark of the first
		if err := claimFormat(t.Context(), bus.JetStream(), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	if got := mark(bus, ""); got != "1" {
		t.Errorf("marked %q", got)
	}
	for _, newer := range []string{"2", "tomorrow"} {
		mark(bus, newer)
		err := claimFormat(t.Context(), bus.JetStream(), slog.New(slog.DiscardHandler))
		if !errors.Is(err, errNewerFormat) || !strings.Contains(err.Error(), newer) || !strings.Contains(err.Error(), "run the newest version") {
			t.Errorf("format %s: %v", newer, err)
		}
	}
	// The mark outlives the program, and its keeping of streams.
	if err := bus.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	bus = open()
	if got := mark(bus, ""); got != "tomorrow" {
		t.Errorf("after another start it is marked %q", got)
	}
	if err := bus.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

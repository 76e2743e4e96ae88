package app

import (
	"context"
	"log/slog"
	"testing"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

// newNotifier builds a notifier of a file, and opens a bus of its own.
func newNotifier(t *testing.T, file string, log *slog.Logger) (*App, *stream.Bus) {
	t.Helper()
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), Options{Config: cfg, Role: config.RoleNotifier, Log: log, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	bus, err := stream.Open(t.Context(), stream.Options{URL: natstest.Start(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close(context.WithoutCancel(t.Context())) })
	return a, bus
}

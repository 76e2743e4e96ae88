package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	// storedFormat numbers the form of everything that is stored: subjects, types of events, streams, records of state
	// in key-value and in Redis. It rises when programs of the number before could not go on with what newer ones
	// store; a member or a word more is no reason. What carries no number is of format 1.
	storedFormat = 1
	// formatMark is where the number is: in the metadata of ENVOY_PURCHASES, which every role opens before anything else.
	formatMark    = "herald.format"
	formatTimeout = 10 * time.Second
)

// errNewerFormat is wrapped by the refusal to touch what a newer program has stored.
var errNewerFormat = errors.New("stored by a newer version of Herald")

// claimFormat refuses stores of a newer format, and marks those that it may go on with.
func claimFormat(ctx context.Context, js jetstream.JetStream, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, formatTimeout)
	defer cancel()
	s, err := js.Stream(ctx, events.StreamPurchases)
	if err != nil {
		return fmt.Errorf("read the format of what is stored: %w", err)
	}
	cfg := s.CachedInfo().Config
	found, err := formatOf(cfg.Metadata[formatMark])
	if err != nil {
		return err
	}
	if found == storedFormat && cfg.Metadata[formatMark] != "" {
		return nil
	}
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[formatMark] = strconv.Itoa(storedFormat)
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		// Another process may be marking it, or its user may not change streams: nothing here depends on the mark.
		log.Warn("format of what is stored could not be marked", "stream", events.StreamPurchases, "format", storedFormat, "err", err)
	}
	return nil
}

// formatOf reads a mark. One that is no number was not written by Herald, or by one that nobody knows yet.
func formatOf(mark string) (int, error) {
	if mark == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(mark)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: stream %s has the format %.16q and this program knows up to %d: run the newest version of Herald that was here",
			errNewerFormat, events.StreamPurchases, mark, storedFormat)
	case n > storedFormat:
		return 0, fmt.Errorf("%w: stream %s has format %d and this program knows up to %d: run the newest version of Herald that was here",
			errNewerFormat, events.StreamPurchases, n, storedFormat)
	}
	return n, nil
}

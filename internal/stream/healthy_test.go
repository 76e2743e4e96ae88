package stream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
)

// A bus that has stored nothing for a while is unhealthy until something is
// stored again; a passing failure is not.
func TestHealthyNeedsPublishesToSucceed(t *testing.T) {
	b := open(t, stream.Options{Embedded: &stream.Embedded{Dir: t.TempDir()}})
	full := errors.New("no space left on device")
	b.RefusedSince(time.Second, full)
	must(t, b.Healthy())
	b.RefusedSince(time.Minute, full)
	if err := b.Healthy(); !errors.Is(err, full) {
		t.Fatalf("the bus says %v", err)
	}
	notice := events.NewNotice("host-a", events.NoticeBlind, time.Now(), events.Notice{Text: "nothing seen"})
	_, err := b.Publish(t.Context(), notice, 0)
	must(t, err)
	must(t, b.Healthy())
}

package deliver

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
)

// hush takes over the silences in force; a change has everything that waits, or
// is about to be told, decided again. It reports whether there was one.
func (s *shift) hush() bool {
	if s.o.Silences == nil {
		return false
	}
	list := s.o.Silences()
	if reflect.DeepEqual(list, s.silenced) {
		return false
	}
	compiled, err := route.CompileSilences(list)
	if err != nil {
		s.o.Log.Warn("silence left out", "error", err)
	}
	s.silenced, s.silences = list, compiled
	s.waits.hurry(time.Now())
	for _, ln := range s.ready {
		s.touch(ln)
	}
	return true
}

// rebuild finds what waits, from the newest message of each purchase. Settled
// purchases wait for nothing.
func (s *shift) rebuild(ctx context.Context, newSink bool) error {
	if !newSink && !s.o.Set.Alarms(s.o.Name) {
		return nil
	}
	at := time.Now()
	for env, err := range s.o.Source.Newest(ctx) {
		if err != nil {
			return fmt.Errorf("read the newest messages: %w", err)
		}
		s.newest, s.newestAt = max(s.newest, env.Sequence), latest(s.newestAt, env.Stored)
		if env.Bad != nil || env.Event.Purchase == nil || settled(env.Event) || newSink {
			continue
		}
		at = at.Add(rebuildBy)
		s.waits.set(wait{lane: laneKey(env), env: env, until: at, unproven: true})
	}
	return nil
}

func settled(e events.Event) bool {
	return e.Purchase != nil && e.Purchase.Terminal && !e.Purchase.Unsettled
}

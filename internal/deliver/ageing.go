package deliver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	overdue   = 30 * time.Second // after which a message that was handed back and passed by others has gone
	lostEvery = time.Hour        // between notices while events keep leaving the stream
	ageLook   = 10 * time.Minute // between looks at the stream of a sink that takes nothing
)

// gap asks what left the stream before the sink was done with it. A new sink
// misses nothing.
func (l *Loop) gap(ctx context.Context, start Start) (Gap, error) {
	a, ok := l.o.Source.(Ageing)
	if !ok || start == StartNewest {
		return Gap{}, nil
	}
	gap, err := a.Gap(ctx)
	if err != nil {
		return Gap{}, fmt.Errorf("ask what left the stream: %w", err)
	}
	return gap, nil
}

// miss tells, in one notice, of events that the sink will never get.
func (s *shift) miss(gap Gap) {
	if gap.Count == 0 {
		return
	}
	text := fmt.Sprintf("%d events left the stream before they could be delivered", gap.Count)
	if !gap.From.IsZero() {
		text += ", stored since " + gap.From.UTC().Format(time.RFC3339)
	}
	if !gap.To.IsZero() {
		text += ", before " + gap.To.UTC().Format(time.RFC3339)
	}
	s.o.Log.Error("events left the stream undelivered", "count", gap.Count, "from", gap.From, "to", gap.To)
	s.notice(events.Notice{
		Kind: events.NoticeAgedOut, Text: text + ". The sink will not get them; look at what hangs now.", Count: int64(min(gap.Count, 1<<53)),
	})
}

// jump notes what left the stream, by age or by hand, between two messages: a
// consumer hands out all that is there.
func (s *shift) jump(m Message) {
	known := max(s.frontier, s.boundary)
	if s.frontier > 0 && m.Sequence > known+1 && m.Stored.After(s.sparse) {
		if s.lost.Count == 0 {
			s.lost.From = s.latest
		}
		s.lost.Count += m.Sequence - known - 1
		s.lost.To = m.Stored
	}
	if m.Sequence > s.frontier {
		s.frontier, s.latest = m.Sequence, m.Stored
	}
}

// errGone asks for a new beginning: where the stream stands is not known any more.
var errGone = errors.New("a message that was handed back did not come again")

// gone reports whether a message that was handed back has left the stream, by age
// or by hand: what leaves takes its delay with it. The server hands out what is
// due before all that is new, and in the order in which it is due, so a message
// that came long after this one was due proves it.
func (it *item) gone(passedBy time.Time) bool {
	return it.out && passedBy.Sub(it.due) > overdue
}

// missing looks for messages that wait for one that has gone.
func (s *shift) missing() bool {
	for _, ln := range s.lanes {
		for _, it := range ln.items {
			if it.gone(latest(s.news, ln.heard)) {
				return true
			}
		}
	}
	return false
}

// tellLost tells all that was noted, in one notice.
func (s *shift) tellLost() {
	s.miss(s.lost)
	if s.lost.Count > 0 {
		s.lost, s.lostTold = Gap{}, time.Now()
	}
}

// watchAge tells once, while the sink takes nothing, that its events leave the
// stream. How many they were is told when the next one arrives.
func (s *shift) watchAge(ctx context.Context) {
	a, ok := s.o.Source.(Ageing)
	if !ok {
		return
	}
	ticker := time.NewTicker(ageLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.l.Status().State == StateRunning {
			continue
		}
		if gap, err := a.Gap(ctx); err == nil && gap.Count > s.missed {
			s.miss(gap)
			return
		}
	}
}

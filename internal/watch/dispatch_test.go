package watch

import (
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// A purchase whose call was answered at once, and that is due again, waits from now on and not since the beginning of time:
// it would go before all others, and its wait would be counted in centuries.
func TestDueAgainAtOnceWaitsFromNow(t *testing.T) {
	now := time.Now()
	p := &purchase{
		id: pid(1), loaded: true, heapIndex: -1, state: events.StateWaitingForUser, column: columnEnvoy,
		asked: now, replied: now, shown: now,
	}
	tm := &term{byID: map[string]*purchase{p.id: p}, due: []*purchase{p}}
	tm.gather(now)
	if len(tm.due) != 1 || !p.dueSince.Equal(now) {
		t.Errorf("%d due, since %v", len(tm.due), p.dueSince)
	}
	before := now
	now = now.Add(time.Second)
	tm.gather(now)
	if !p.dueSince.Equal(before) {
		t.Errorf("it has waited since %v, not since %v", p.dueSince, before)
	}
}

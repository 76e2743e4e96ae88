package deliver

import (
	"testing"
	"testing/synctest"
	"time"
)

// Tries share a limit, but none has less than half of it, and a later one does not cut an earlier one short.
func TestTriesHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l limit
		pass := func(d time.Duration) {
			timer := time.NewTimer(d)
			<-timer.C
			synctest.Wait()
		}
		first := l.at(t.Context(), time.Now())
		pass(longestSend / 2)
		if l.at(t.Context(), time.Now()) != first {
			t.Error("a limit of its own for a try that could share one")
		}
		pass(time.Second)
		second := l.at(t.Context(), time.Now())
		if second == first {
			t.Error("a try that has less than half of its time")
		}
		if first.Err() != nil {
			t.Error("the first try was cut short")
		}
		pass(longestSend / 2)
		if first.Err() == nil || second.Err() != nil {
			t.Errorf("at the end of the first: %v, %v", first.Err(), second.Err())
		}
		pass(longestSend / 2)
		if second.Err() == nil {
			t.Error("the second try has no end")
		}
	})
}

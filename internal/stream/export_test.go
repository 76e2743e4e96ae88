package stream

import "time"

// SetStallCheck changes how often a consumer that gives nothing is looked at.
func (c *Consumer) SetStallCheck(d time.Duration) { c.stallCheck = d }

// RefusedSince makes it look as if publishes had failed for so long.
func (b *Bus) RefusedSince(d time.Duration, err error) {
	b.refusing.Store(&refusal{since: time.Now().Add(-d), err: err})
}

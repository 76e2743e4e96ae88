package stream

import "time"

// SetStallCheck changes how often a consumer that gives nothing is looked at.
func (c *Consumer) SetStallCheck(d time.Duration) { c.stallCheck = d }

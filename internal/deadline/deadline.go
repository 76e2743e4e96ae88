// Package deadline lends contexts whose deadlines calls share. Where thousands of calls wait, or thousands are made in a
// second, a timer for each costs more than the moment at which each ends exactly is worth.
package deadline

import (
	"context"
	"time"
)

// Shared lends contexts to calls that begin one after the other. The zero value is ready. It is for one goroutine; the
// contexts are for any.
type Shared struct {
	parent context.Context //nolint:containedctx // of ctx, only to know it again
	ctx    context.Context //nolint:containedctx // what is lent
	until  time.Time
}

// Between gives a context of parent that ends in least at the soonest and in most at the latest. Calls of the same parent
// that begin close to each other get the same one. It needs no cancel: it ends by itself.
func (s *Shared) Between(parent context.Context, least, most time.Duration) context.Context {
	now := time.Now()
	if left := s.until.Sub(now); parent == s.parent && left >= least && left <= most {
		return s.ctx
	}
	s.parent, s.until = parent, now.Add(most)
	ctx, cancel := context.WithDeadline(parent, s.until)
	context.AfterFunc(ctx, cancel)
	s.ctx = ctx
	return ctx
}

// Within gives a context that ends after d. One that ends by itself until slack later is as good, and lighter than
// another around it.
func Within(ctx context.Context, d, slack time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d+slack {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

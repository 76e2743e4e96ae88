package dedupe

import "context"

// Sole gives every lease at once: it is for the one process that owns its data
// folder, whose lock is the lease.
type Sole struct{}

// Acquire owns name until release is called, and never asks to leave. As with
// Redis, owned does not end with ctx.
func (Sole) Acquire(ctx context.Context, _ string, _ func()) (owned context.Context, release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	owned, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return owned, cancel, nil
}

package watch

import (
	"context"

	"github.com/heraldbridge/herald/internal/events"
)

// Publisher stores events. It resolves lost acknowledgements and duplicates itself.
type Publisher interface {
	// Publish stores the event if the newest sequence of its subject is after (0: none) and returns the sequence it
	// has there. events.ErrNewer: another owner is ahead, stop. Any other error: not done, try again later. Notices
	// come with after 0 and are stored without that condition.
	Publish(ctx context.Context, e events.Event, after uint64) (uint64, error)
	// Last gives the newest event of a purchase and its sequence; nil when there is none.
	Last(ctx context.Context, connection, purchaseID string) (*events.Event, uint64, error)
	// Followed gives the purchases of a connection whose newest event says that they are not over.
	Followed(ctx context.Context, connection string) ([]string, error)
}

// Cursors remember up to where each purchase was published.
type Cursors interface {
	// Cursor reports false when nothing is known. An error means that it cannot be known now.
	Cursor(ctx context.Context, purchaseID string) (events.Cursor, bool, error)
	// Advance stores the cursors of purchases, by their ids, and never moves one backward. After an error each may be
	// stored or not.
	Advance(ctx context.Context, cursors map[string]events.Cursor) error
}

// Sets remember what each connection watches.
type Sets interface {
	// TakeWatchSet gives what is remembered, and from then on only owner may replace it. It reports false when nothing is
	// known. An error means that it cannot be known now.
	TakeWatchSet(ctx context.Context, connection, owner string) (events.WatchSet, bool, error)
	// PutWatchSet replaces what is remembered. events.ErrTaken: another has taken it, and nothing was written.
	PutWatchSet(ctx context.Context, connection, owner string, s events.WatchSet) error
}

// Leases make sure that one process at a time watches a connection.
type Leases interface {
	// Acquire blocks until this process owns name. The owned context ends when the lease is lost, and its Err is exact
	// by the monotonic clock. leave is called once when another process should have it: bring to an end what is under
	// way, then release. It is owned until then.
	Acquire(ctx context.Context, name string, leave func()) (owned context.Context, release func(), err error)
}

// Desk carries registrations to the process that watches the connection.
type Desk interface {
	// Open has requests about a connection answered here, by Watcher.Answer, until shut is called.
	Open(connection string) (shut func(), err error)
	// Ask has the owner answer a request. ErrNotOwner: nobody watches the connection now.
	Ask(ctx context.Context, connection string, request []byte) ([]byte, error)
}

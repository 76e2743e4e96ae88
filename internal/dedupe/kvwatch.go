package dedupe

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

// watchRecord is a watch set as key-value has it.
type watchRecord struct {
	Owner string `json:"owner,omitempty"`
	Bare  bool   `json:"bare,omitempty"` // it was taken, and no set was ever stored
	events.WatchSet
}

// TakeWatchSet gives what a connection watches, false when nothing is stored,
// and from then on only owner can write it.
func (k *KV) TakeWatchSet(ctx context.Context, connection, owner string) (events.WatchSet, bool, error) {
	var r watchRecord
	err := k.swapWatch(ctx, connection, func(stored watchRecord) (watchRecord, error) {
		r = stored
		r.Owner = owner
		return r, nil
	})
	if err != nil {
		return events.WatchSet{}, false, k.metrics.done(opWatchSet, err)
	}
	return r.WatchSet, !r.Bare, nil
}

// PutWatchSet stores what a connection watches. events.ErrTaken: another has
// taken it since, and nothing was written.
func (k *KV) PutWatchSet(ctx context.Context, connection, owner string, s events.WatchSet) error {
	err := k.swapWatch(ctx, connection, func(stored watchRecord) (watchRecord, error) {
		if stored.Owner != "" && stored.Owner != owner {
			return stored, events.ErrTaken
		}
		return watchRecord{Owner: owner, WatchSet: s}, nil
	})
	if errors.Is(err, events.ErrTaken) {
		return fmt.Errorf("write watch set of %s: %w", connection, err)
	}
	return k.metrics.done(opPutWatchSet, err)
}

// swapWatch replaces the record of a connection.
func (k *KV) swapWatch(ctx context.Context, connection string, change func(watchRecord) (watchRecord, error)) error {
	if err := checkNames(connection); err != nil {
		return err
	}
	return k.do(ctx, func(kv, _ jetstream.KeyValue) error {
		return swap(ctx, kv, "watch."+connection, func(stored []byte) ([]byte, error) {
			r := watchRecord{Bare: true}
			if stored != nil {
				var err error
				if r, err = decode[watchRecord](stored); err != nil {
					return nil, err
				}
			}
			r, err := change(r)
			if err != nil {
				return nil, err
			}
			return encode(r)
		})
	})
}

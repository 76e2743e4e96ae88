package dedupe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	casTries  = 32 // more than the loops that may ever advance one purchase at once
	kvWorkers = 16 // reads under way at once
)

// KVOptions describes the buckets.
type KVOptions struct {
	Bucket   string // of the records; silences are in <Bucket>_silences; empty: herald_state
	Replicas int    // of buckets that are created here; 0: 1
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// KV is the store for one process, in JetStream key-value.
type KV struct {
	js      jetstream.JetStream
	opts    KVOptions
	log     *slog.Logger
	metrics *metrics

	mu       sync.Mutex
	state    jetstream.KeyValue
	silences jetstream.KeyValue
}

// OpenKV makes the buckets if need be. The client is lent and stays open.
func OpenKV(ctx context.Context, js jetstream.JetStream, o KVOptions) (*KV, error) {
	if o.Bucket == "" {
		o.Bucket = "herald_state"
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	k := &KV{js: js, opts: o, log: o.Log, metrics: newMetrics(o.Metrics)}
	if err := k.ensure(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *KV) ensure(ctx context.Context) error {
	state, err := k.bucket(ctx, jetstream.KeyValueConfig{
		Bucket: k.opts.Bucket, Description: "Herald: what was published, said and is watched",
		TTL: Life, History: 1, Replicas: k.opts.Replicas,
	})
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", k.opts.Bucket, err)
	}
	// Silences live until their end, which may be later than a record's.
	silences, err := k.bucket(ctx, jetstream.KeyValueConfig{
		Bucket: k.opts.Bucket + "_silences", Description: "Herald: silences",
		History: 1, Replicas: k.opts.Replicas,
	})
	if err != nil {
		return fmt.Errorf("open bucket %s_silences: %w", k.opts.Bucket, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state, k.silences = state, silences
	return nil
}

func (k *KV) bucket(ctx context.Context, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	kv, err := k.js.KeyValue(ctx, cfg.Bucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	if kv, err = k.js.CreateKeyValue(ctx, cfg); err == nil {
		k.log.Info("bucket made", slog.String("bucket", cfg.Bucket))
	}
	return kv, err
}

// do runs one operation on the buckets, and once more if they had to be made
// again.
func (k *KV) do(ctx context.Context, f func(state, silences jetstream.KeyValue) error) error {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	k.mu.Lock()
	state, silences := k.state, k.silences
	k.mu.Unlock()
	err := f(state, silences)
	if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) &&
		!errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	// Nobody answers for the bucket: it was deleted, or JetStream is away.
	if eerr := k.ensure(ctx); eerr != nil {
		return errors.Join(err, eerr)
	}
	k.mu.Lock()
	state, silences = k.state, k.silences
	k.mu.Unlock()
	return f(state, silences)
}

// Cursor is the position of a purchase; false when none is stored.
func (k *KV) Cursor(ctx context.Context, purchaseID string) (events.Cursor, bool, error) {
	c, found, err := kvGet[events.Cursor](ctx, k, "cursor", purchaseID)
	return c, found, k.metrics.done(opCursor, err)
}

// Advance stores the positions of purchases, by their ids. One that is further stays, without
// an error.
func (k *KV) Advance(ctx context.Context, cursors map[string]events.Cursor) error {
	for id, c := range cursors {
		data, err := encode(c)
		if err == nil {
			err = checkNames(id)
		}
		if err == nil {
			err = k.do(ctx, func(kv, _ jetstream.KeyValue) error {
				return advance(ctx, kv, "cursor."+id, c, data)
			})
		}
		if err := k.metrics.done(opAdvance, err); err != nil {
			return err
		}
	}
	return nil
}

// advance writes a cursor unless a further one is there.
func advance(ctx context.Context, kv jetstream.KeyValue, key string, c events.Cursor, data []byte) error {
	return swap(ctx, kv, key, func(stored []byte) ([]byte, error) {
		if stored == nil {
			return data, nil
		}
		old, err := decode[events.Cursor](stored)
		if err != nil || later(old, c) {
			return nil, err
		}
		return data, nil
	})
}

// swap replaces a record, nil if there is none, by what change makes of it, and
// again until no other writer has come first. Nil from change: it stays.
func swap(ctx context.Context, kv jetstream.KeyValue, key string, change func(stored []byte) ([]byte, error)) error {
	for range casTries {
		var stored []byte
		entry, err := kv.Get(ctx, key)
		switch {
		case err == nil:
			stored = entry.Value()
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return err
		}
		data, err := change(stored)
		switch {
		case err != nil || data == nil:
			return err
		case stored == nil:
			_, err = kv.Create(ctx, key, data)
		default:
			_, err = kv.Update(ctx, key, data, entry.Revision())
		}
		if err == nil || !swapped(err) {
			return err
		}
	}
	return fmt.Errorf("%d writers came first", casTries)
}

// swapped tells whether another writer came first.
func swapped(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// kvGet reads one record under a kind and one or two names.
func kvGet[T any](ctx context.Context, k *KV, kind string, names ...string) (v T, found bool, err error) {
	if err := checkNames(names...); err != nil {
		return v, false, err
	}
	key := kind
	for _, n := range names {
		key += "." + n
	}
	err = k.do(ctx, func(kv, _ jetstream.KeyValue) error {
		entry, err := kv.Get(ctx, key)
		if err != nil {
			return err
		}
		v, err = decode[T](entry.Value())
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return v, false, nil
	}
	return v, err == nil, err
}

// Silences lists the silences that are not over.
func (k *KV) Silences(ctx context.Context) ([]events.Silence, error) {
	var values [][]byte
	err := k.do(ctx, func(_, kv jetstream.KeyValue) error {
		values = nil
		keys, err := kv.Keys(ctx)
		if errors.Is(err, jetstream.ErrNoKeysFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, key := range keys {
			entry, err := kv.Get(ctx, key)
			if errors.Is(err, jetstream.ErrKeyNotFound) {
				continue // deleted in between
			}
			if err != nil {
				return err
			}
			values = append(values, entry.Value())
		}
		return nil
	})
	if err != nil {
		return nil, k.metrics.done(opSilences, err)
	}
	current, over, err := sortSilences(values, time.Now())
	for _, id := range over { // tidying; the next reader does it if this fails
		_ = k.do(ctx, func(_, kv jetstream.KeyValue) error { return kv.Purge(ctx, id) })
	}
	return current, k.metrics.done(opSilences, err)
}

// PutSilence stores a silence, or changes the one with its id, until its end.
func (k *KV) PutSilence(ctx context.Context, s events.Silence) error {
	data, err := encode(s)
	if err == nil {
		err = checkNames(s.ID)
	}
	if err == nil {
		err = k.do(ctx, func(_, kv jetstream.KeyValue) error {
			_, err := kv.Put(ctx, s.ID, data)
			return err
		})
	}
	return k.metrics.done(opPutSilence, err)
}

// DeleteSilence ends a silence. One that is not there is done.
func (k *KV) DeleteSilence(ctx context.Context, id string) error {
	err := checkNames(id)
	if err == nil {
		err = k.do(ctx, func(_, kv jetstream.KeyValue) error { return kv.Purge(ctx, id) })
	}
	return k.metrics.done(opPutSilence, err)
}

package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
)

// What a registration can fail of.
var (
	// ErrUnknownConnection: no connection has this name.
	ErrUnknownConnection = errors.New("no such connection")
	// ErrNotOwner: another process watches the connection; ask that one, or all of them.
	ErrNotOwner = errors.New("the connection is watched by another process")
	// ErrBadReference: neither a purchase id nor an idempotency key.
	ErrBadReference = errors.New("neither a purchase id nor an idempotency key")
	// ErrNotWatched: there is nothing to end.
	ErrNotWatched = errors.New("this reference is not watched")
	// ErrTooMany: the connection has as many registrations as it can take.
	ErrTooMany = errors.New("too many registrations")
)

// registrationLimit bounds what hosts can register on one connection: all of it is stored, and listed over NATS, as one
// message, of a megabyte at the most.
const registrationLimit = 3000

// Watch is one reference that is watched. Of a key only the hash is shown.
type Watch struct {
	Connection string    `json:"connection"`
	PurchaseID string    `json:"purchase_id,omitempty"`
	KeyHash    string    `json:"key_hash,omitempty"`
	Registered bool      `json:"registered"` // by a host, as opposed to found
	Seen       bool      `json:"seen"`       // Envoy has shown it
	Since      time.Time `json:"since"`
}

// Register has a purchase watched, by its id or its idempotency key, before it exists if need be. It returns when the
// registration is stored. An error other than those of this package means that it is watched, but not stored yet: a
// restart may forget it, so ask again.
func (w *Watcher) Register(ctx context.Context, connection, reference string) error {
	if !events.ValidReference(reference) {
		return ErrBadReference
	}
	stored := make(chan error, 1)
	err := w.inTerm(ctx, connection, func(ctx context.Context, t *term, now time.Time) error {
		return t.register(ctx, reference, now, func(err error) { stored <- err })
	})
	if err != nil {
		return err
	}
	select {
	case err := <-stored:
		if err != nil {
			return fmt.Errorf("store registration: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("store registration: %w", ctx.Err())
	}
}

// Unregister ends the watching of a reference. One that is open at Envoy may be found again by itself.
func (w *Watcher) Unregister(ctx context.Context, connection, reference string) error {
	if !events.ValidReference(reference) {
		return ErrBadReference
	}
	return w.inTerm(ctx, connection, func(_ context.Context, t *term, now time.Time) error {
		return t.unregister(reference, now)
	})
}

// Watches gives what is watched on the connections that this process owns; connection empty: on all of them.
func (w *Watcher) Watches(ctx context.Context, connection string) ([]Watch, error) {
	var out []Watch
	names := []string{connection}
	if connection == "" {
		names = nil
		for _, k := range w.allKeepers() {
			names = append(names, k.conn.Name)
		}
	}
	for _, name := range names {
		err := w.inTerm(ctx, name, func(_ context.Context, t *term, _ time.Time) error {
			for _, r := range t.set().Refs {
				if !r.Since.IsZero() {
					out = append(out, Watch{
						Connection: name, PurchaseID: r.PurchaseID, KeyHash: r.KeyHash, Registered: r.Registered,
						Seen: r.Seen, Since: r.Since,
					})
				}
			}
			return nil
		})
		if err != nil && (connection != "" || !errors.Is(err, ErrNotOwner)) {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b Watch) int {
		return cmp.Or(cmp.Compare(a.Connection, b.Connection), a.Since.Compare(b.Since), cmp.Compare(a.PurchaseID, b.PurchaseID))
	})
	return out, nil
}

// inTerm runs f in the loop of the connection's owner, if this process is it.
func (w *Watcher) inTerm(ctx context.Context, connection string, f func(context.Context, *term, time.Time) error) error {
	k, ok := w.keeper(connection)
	if !ok {
		return ErrUnknownConnection
	}
	t := k.current()
	if t == nil {
		return ErrNotOwner
	}
	result := make(chan error, 1)
	e := func(ctx context.Context, now time.Time) { result <- f(ctx, t, now) }
	select {
	case t.inbox <- e:
	case <-t.over:
		return ErrNotOwner
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-result // the loop has taken it and runs it at once
}

// register follows a reference.
func (t *term) register(ctx context.Context, reference string, now time.Time, stored func(error)) error {
	if p := t.find(reference); p == nil || !p.registered { // else it was asked for before, and the answer may have been lost
		if t.sense.counts.registered >= registrationLimit {
			return ErrTooMany
		}
		t.sense.counts.registered++
	}
	t.memory.registers = true
	if events.ValidPurchaseID(reference) {
		_, followed := t.byID[reference]
		p := t.track(ctx, reference, now)
		p.registered = true
		p.recheck = p.recheck || !followed
		delete(t.memory.noted, reference)
		delete(t.memory.gaveUp, reference)
	} else {
		t.trackKey(events.HashKey(reference), secret.New(reference), now, now)
	}
	t.sense.open = now
	t.saveSet(now, stored)
	return nil
}

func (t *term) unregister(reference string, now time.Time) error {
	p := t.find(reference)
	if p == nil {
		return ErrNotWatched
	}
	t.forget(p)
	t.saveSet(now, nil)
	return nil
}

// find gives the purchase that is followed under a reference, or nil.
func (t *term) find(reference string) *purchase {
	if p := t.byID[reference]; p != nil {
		return p
	}
	hash := events.HashKey(reference)
	if p := t.byKey[hash]; p != nil {
		return p
	}
	for _, p := range t.byID {
		if p.keyHash == hash {
			return p
		}
	}
	return nil
}

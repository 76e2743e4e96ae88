package deliver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/backoff"
	"github.com/heraldbridge/herald/internal/events"
)

var (
	errStopped = errors.New("stopped")
	errLost    = errors.New("lease lost")
)

// Run delivers until ctx ends: it takes the lease, begins, serves, and begins
// again when that is called for. On the way out it waits for sends under way, at
// most Grace, hands the rest back in order and gives the lease up. It returns nil
// when ctx has ended.
func (l *Loop) Run(ctx context.Context) error {
	defer l.note(func(s *Status) { s.State = StateStopped })
	wait := backoff.Policy{Base: time.Second, Max: 15 * time.Second, Rand: l.o.Rand}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		turn, leave := context.WithCancel(ctx) // ends as a stop does when the sink is to be handed over
		owned, release, err := l.acquire(ctx, leave)
		if err != nil {
			leave()
			l.trouble(ctx, "take the lease", err)
			pause(ctx, wait.Delay(attempt))
			continue
		}
		attempt = -1
		l.own(turn, owned)
		l.metrics.giveUp() // before another loop of this process can own it
		release()
		leave()
		l.note(func(s *Status) { s.State = StateWaiting })
	}
	return nil
}

// trouble tells an error that the loop lives with.
func (l *Loop) trouble(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		l.o.Log.Warn("delivery held up", "doing", what, "error", err)
	}
}

// acquire waits for the lease. The ownership outlives ctx: after a stop, sends
// under way still end, and are recorded, under it.
func (l *Loop) acquire(ctx context.Context, leave func()) (context.Context, func(), error) {
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	owned, release, err := l.o.Leases.Acquire(keep, "sink/"+l.o.Name, leave)
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("acquire lease: %w", err)
	}
	done := func() { release(); cancel() }
	if !stop() {
		done()
		return nil, nil, ctx.Err()
	}
	return owned, done, nil
}

// own serves the sink for as long as the lease holds and ctx lasts.
func (l *Loop) own(ctx, owned context.Context) {
	if l.o.Serve != nil {
		serving, stop := context.WithCancel(ctx)
		var beside sync.WaitGroup
		beside.Go(func() { l.o.Serve(serving, l) })
		defer beside.Wait()
		defer stop()
		defer context.AfterFunc(owned, stop)()
	}
	wait := backoff.Policy{Base: time.Second, Max: 15 * time.Second, Rand: l.o.Rand}
	b := newBook(l)
	for attempt := 0; ctx.Err() == nil && owned.Err() == nil; attempt++ {
		s, err := l.begin(ctx, owned, b)
		if err != nil {
			l.trouble(ctx, "begin", err)
			pause(ctx, wait.Delay(attempt))
			continue
		}
		err = s.run(ctx)
		if s.settled > 0 {
			attempt = -1
		}
		if ctx.Err() == nil && owned.Err() == nil {
			l.o.Log.Info("delivery begins again", "cause", err)
			if attempt >= 0 {
				pause(ctx, wait.Delay(attempt))
			}
		}
	}
	if owned.Err() == nil {
		b.noRead, b.noWrite = time.Time{}, time.Time{} // a last attempt at what could not be written
		b.flush(owned)
	}
}

// begin makes the one beginning: where to take up, from the consumer and the
// standings, and what waits for its moment, from the newest messages.
func (l *Loop) begin(ctx, owned context.Context, b *book) (*shift, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(owned, cancel)()
	created, err := l.o.StreamCreated(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the stream's age: %w", err)
	}
	if !created.Equal(b.created) {
		b.created = created
		for _, r := range b.records {
			r.standing = b.merge(r.standing, events.Standing{})
		}
	}
	b.load(ctx, sinkKey)
	mark := b.records[sinkKey]
	start, err := l.start(ctx, b, mark)
	if err != nil {
		return nil, err
	}
	s := newShift(owned, l, b)
	if err := s.rebuild(ctx, start == StartNewest); err != nil {
		return nil, err
	}
	gap, err := l.gap(ctx, start)
	if err != nil {
		return nil, err
	}
	if err := l.o.Source.Begin(ctx, start); err != nil {
		return nil, fmt.Errorf("begin the consumer: %w", err)
	}
	s.miss(gap)
	s.missed = gap.Count
	l.metrics.begins.Inc()
	if start == StartNewest {
		mark.standing.Settled, mark.standing.SettledAt, s.sparse = s.newest, s.newestAt, time.Now()
	}
	mark.users = 1
	mark.standing.Stream, mark.standing.LastTime = created, time.Now()
	b.dirty[sinkKey] = mark
	b.flush(owned)
	s.boundary, s.boundaryAt = mark.standing.Settled, mark.standing.SettledAt
	return s, nil
}

// start decides between a new sink and one that was there before. Where neither
// the consumer nor the store can say, resuming is right: it can only repeat.
func (l *Loop) start(ctx context.Context, b *book, mark *record) (Start, error) {
	if mark.unread || !mark.standing.LastTime.IsZero() {
		return StartResume, nil
	}
	if x, ok := l.o.Source.(Existing); ok {
		exists, err := x.Exists(ctx)
		if err != nil {
			return "", fmt.Errorf("look for the consumer: %w", err)
		}
		if exists {
			return StartResume, nil
		}
	}
	return StartNewest, nil
}

func (l *Loop) storeError(operation string, err error) {
	l.metrics.store.WithLabelValues(operation).Inc()
	if err == nil {
		return // the store is being left alone, which is said already
	}
	fresh := false
	l.note(func(s *Status) { fresh, s.StoreError = s.StoreError == "", err.Error() })
	if fresh {
		l.o.Log.Warn("standings out of reach, delivering from memory", "doing", operation, "error", err)
	}
}

func (l *Loop) storeFine() {
	was := false
	l.note(func(s *Status) { was, s.StoreError = s.StoreError != "", "" })
	if was {
		l.o.Log.Info("standings within reach again")
	}
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

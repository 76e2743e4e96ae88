package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/backoff"
	"github.com/heraldbridge/herald/internal/events"
)

// keeper waits for the lease of one connection and runs a term while it has it.
type keeper struct {
	w      *Watcher
	conn   Connection
	budget *budget
	cancel context.CancelFunc
	done   chan struct{}
	left   events.WatchSet // what the newest term knew at its end

	mu   sync.Mutex
	term *term // while owned
	last ConnectionStatus
}

func newKeeper(w *Watcher, c Connection) *keeper {
	return &keeper{
		w: w, conn: c, budget: w.budgets.get(c.budgetKey()), done: make(chan struct{}),
		last: ConnectionStatus{Name: c.Name},
	}
}

// leaseName is the name under which a connection is leased.
func leaseName(connection string) string { return "watch/" + connection }

// takeOverJitter spreads the first calls of connections that were taken over together.
const takeOverJitter = 3 * time.Second

func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	log := k.w.log.With("connection", k.conn.Name)
	delays := backoff.Policy{Base: time.Second, Max: 15 * time.Second}
	for tries := 0; ctx.Err() == nil; {
		turn, leave := context.WithCancel(ctx)
		owned, release, err := k.w.leases.Acquire(ctx, leaseName(k.conn.Name), leave)
		if err != nil {
			leave()
			if ctx.Err() == nil {
				log.Warn("acquire lease", "error", err)
				pause(ctx, delays.Delay(tries)+100*time.Millisecond)
			}
			tries++
			continue
		}
		tries = 0
		err = k.own(turn, owned)
		release()
		leave()
		if errors.Is(err, events.ErrNewer) && ctx.Err() == nil {
			log.Warn("another owner is ahead", "error", err)
			pause(ctx, backoff.Jitter(5*time.Second, 0.2, nil))
		}
	}
}

// own runs one term. It returns when the lease or ctx ends, or when another owner is ahead.
func (k *keeper) own(ctx, owned context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(owned, cancel)()
	pause(ctx, rand.N(takeOverJitter))
	if ctx.Err() != nil {
		return nil
	}
	t := newTerm(owned, k)
	k.setTerm(t)
	defer k.setTerm(nil)
	defer k.open()()
	err := t.run(ctx)
	if t.memory.loaded {
		k.left = t.set()
	}
	return err
}

// open has registrations for the connection come here while it is owned.
func (k *keeper) open() (shut func()) {
	if k.w.desk == nil {
		return func() {}
	}
	shut, err := k.w.desk.Open(k.conn.Name)
	if err != nil {
		k.w.log.Warn("registrations over NATS are not answered", "connection", k.conn.Name, "error", err)
		return func() {}
	}
	return shut
}

func (k *keeper) setTerm(t *term) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.term = t
	k.last = ConnectionStatus{Name: k.conn.Name, Owner: t != nil}
}

// show replaces what status gives.
func (k *keeper) show(s ConnectionStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = s
}

func (k *keeper) status() ConnectionStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// current gives the running term, or nil.
func (k *keeper) current() *term {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.term
}

// nudge makes the term look up.
func (k *keeper) nudge() {
	if t := k.current(); t != nil {
		t.seat.ping()
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

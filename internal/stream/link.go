package stream

import (
	"context"
	"sync"
)

// link is the state of the connection as others need it: something to wait for
// until it is up, and a call for those who must know at once that it went down.
type link struct {
	mu      sync.Mutex
	up      bool
	changed chan struct{} // closed at the next change
	watch   map[int]func()
	next    int
}

func newLink() *link {
	return &link{changed: make(chan struct{}), watch: make(map[int]func())}
}

// set notes the state; going down calls everyone who watches.
func (l *link) set(up bool) {
	l.mu.Lock()
	var calls []func()
	if !up {
		for _, f := range l.watch {
			calls = append(calls, f)
		}
	}
	if up != l.up {
		l.up = up
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// await returns when the connection is up or ctx ends.
func (l *link) await(ctx context.Context) error {
	for {
		l.mu.Lock()
		up, changed := l.up, l.changed
		l.mu.Unlock()
		if up {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// onLoss has f called each time the connection goes down, until the returned
// function is called. f must not block.
func (l *link) onLoss(f func()) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.next
	l.next++
	l.watch[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watch, id)
	}
}

package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/deliver"
)

// retireAfter is how long the consumer of a sink that left the configuration is
// kept, so that a renaming by mistake loses nothing.
const retireAfter = 24 * time.Hour

// crew runs the loops of the sinks. A reload hands it new ones; each takes over
// from its namesake once that has let go of what it had in hand.
type crew struct {
	a      *App
	st     *stores
	change chan []*deliver.Loop

	mu    sync.Mutex
	loops []*deliver.Loop
}

func newCrew(a *App, st *stores, loops []*deliver.Loop) *crew {
	return &crew{a: a, st: st, loops: loops, change: make(chan []*deliver.Loop)}
}

// current gives the loops in force.
func (c *crew) current() []*deliver.Loop {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.loops)
}

// replace puts other loops in force. It returns once they are taken over, not
// once the old ones have ended.
func (c *crew) replace(ctx context.Context, loops []*deliver.Loop) error {
	select {
	case c.change <- loops:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// post is the place of one sink: at most one of its loops runs at a time.
type post struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// run runs the loops until ctx ends and all of them have stopped.
func (c *crew) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	posts := map[string]post{}
	begin := func(loops []*deliver.Loop) {
		c.mu.Lock()
		c.loops = loops
		c.mu.Unlock()
		staying := map[string]bool{}
		for _, l := range loops {
			name := l.Status().Name
			staying[name] = true
			old, had := posts[name]
			mine, cancel := context.WithCancel(ctx)
			now := post{cancel, make(chan struct{})}
			posts[name] = now
			wg.Go(func() {
				defer close(now.done)
				defer cancel()
				if had {
					old.cancel()
					<-old.done
				}
				c.a.supervise(mine, loop{"sink " + name, l.Run})
			})
		}
		for name, old := range posts {
			if !staying[name] {
				delete(posts, name)
				wg.Go(func() { c.retire(ctx, name, old) })
			}
		}
	}
	begin(c.current())
	wg.Go(func() { c.sweep(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case loops := <-c.change:
			begin(loops)
		}
	}
}

// sweep finds the sinks that left the configuration while nobody ran.
func (c *crew) sweep(ctx context.Context) {
	names, err := c.st.bus.Sinks(ctx)
	if err != nil {
		c.a.Log.Warn("sinks that left the configuration are not looked for until the next start", "err", err)
		return
	}
	for _, name := range names {
		if !slices.ContainsFunc(c.current(), func(l *deliver.Loop) bool { return l.Status().Name == name }) {
			c.letGo(ctx, name)
		}
	}
}

// retire ends a sink that left the configuration.
func (c *crew) retire(ctx context.Context, name string, old post) {
	old.cancel()
	<-old.done
	c.a.health.Remove("sink " + name)
	c.letGo(ctx, name)
}

// letGo has the backlog of a sink go after a day, unless some process takes it up.
func (c *crew) letGo(ctx context.Context, name string) {
	consumer := c.st.bus.Consumer(name)
	pending, err := consumer.Pending(ctx)
	if err = errors.Join(err, consumer.Retire(ctx, retireAfter)); err != nil {
		c.a.Log.Warn("sink left the configuration; its backlog could not be marked for removal", "sink", name, "err", err)
		return
	}
	c.a.Log.Info("sink left the configuration; its backlog is kept for a day", "sink", name, "backlog", pending)
}

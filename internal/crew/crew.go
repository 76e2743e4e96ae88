// Package crew runs jobs beside their callers on goroutines that stay for the next job: where thousands are run in a
// second, growing a new stack for each costs more than many a job.
package crew

import (
	"sync"
	"sync/atomic"
)

// Crew is the goroutines that run jobs. Go may be called from any goroutine.
type Crew struct {
	work    chan func()
	idle    atomic.Int32
	spare   int32
	running sync.WaitGroup
}

// New makes a crew of which at most so many wait for a job. How many work at once has no bound.
func New(spare int) *Crew { return &Crew{work: make(chan func()), spare: int32(spare)} }

// Go has a job done, and does not wait for it.
func (c *Crew) Go(job func()) {
	select {
	case c.work <- job: // somebody waits
	default:
		c.running.Go(func() { c.run(job) })
	}
}

func (c *Crew) run(job func()) {
	for ok := true; ok; {
		job()
		if c.idle.Add(1) > c.spare {
			ok = false
		} else {
			job, ok = <-c.work
		}
		c.idle.Add(-1)
	}
}

// Close waits until every job is done and the goroutines are gone. Nobody may call Go then.
func (c *Crew) Close() {
	close(c.work)
	c.running.Wait()
}

package dedupe

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	memberLife   = 8 * time.Second // of a sign of life; it is given at every look at a lease
	orphanLook   = 4 * time.Second // between looks at names beyond the share
	spareBeats   = 3               // lives of a member after which a name beyond the share is offered to others
	longestSpare = time.Hour       // between two offers of one that nobody takes
	orphanLooks  = 2               // at which such a name must be free to be taken all the same
	fewerBeats   = 2               // that must agree before a member counts as gone
	leaveParts   = 8               // of a share that are asked to leave, one at each beat
)

// beatScript gives a sign of life and counts who else has given one lately, by
// the clock of Redis.
const beatScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2])
return redis.call('ZCARD', KEYS[1])`

// roster spreads the names of one group evenly over the processes that want
// them. Each process gives a sign of life under its own token, and takes no more
// than its share: the names that it wants, divided by the processes that live,
// rounded up. When its share falls it asks what is too much to leave, a part at
// a time.
//
// Processes need not want the same names. One that nobody takes although it is
// free is taken beyond the share; it counts again at the next change of members,
// and now and then.
type roster struct {
	redis  *Redis
	group  string
	key    string
	member string
	wake   chan struct{} // capacity 1
	cancel context.CancelFunc

	mu       sync.Mutex
	wanted   map[string]int // name -> who waits for it or holds it here
	taken    int            // places in use: held within the share, or just being asked for
	held     []*lease
	queue    []chan struct{}          // who waits for a place, in turn
	members  int                      // that live; 0: not known yet
	fewer    int                      // beats that showed fewer, one after another
	patience map[string]time.Duration // how long a name beyond the share is kept before it is offered
	joined   bool
}

// groupOf is what the names of a lease are spread within: all up to the first slash.
func groupOf(name string) string {
	group, _, ok := strings.Cut(name, "/")
	if !ok {
		return "leases"
	}
	return group
}

// roster gives the roster of a name's group, and starts it where there is none.
func (r *Redis) roster(ctx context.Context, name string) *roster {
	group := groupOf(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.rosters[group]
	if o == nil {
		o = &roster{
			redis: r, group: group, key: r.key(group, "members"), member: rand.Text(),
			wake: make(chan struct{}, 1), wanted: map[string]int{}, patience: map[string]time.Duration{},
		}
		var inner context.Context
		inner, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
		r.rosters[group] = o
		r.running.Go(func() { o.run(inner) }) // ended by Close
	}
	return o
}

// run gives signs of life while any name is wanted.
func (o *roster) run(ctx context.Context) {
	tick := time.NewTicker(o.redis.times.look)
	defer tick.Stop()
	said := false
	for {
		switch wanted := o.wants(); {
		case wanted:
			err := o.beat(ctx)
			if err != nil && !said && ctx.Err() == nil {
				o.redis.log.Warn("cannot tell the other processes that this one lives", slog.String("group", o.group), slog.Any("error", err))
			}
			said = err != nil
		case o.joined:
			o.depart(ctx)
		}
		select {
		case <-ctx.Done():
			if o.joined && !o.wants() {
				o.depart(context.WithoutCancel(ctx))
			}
			return
		case <-tick.C:
		case <-o.wake:
		}
	}
}

func (o *roster) wants() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.wanted) > 0
}

// beat gives one sign of life and acts on the number of members.
func (o *roster) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	n := 0
	err := o.redis.do(func(c *redis.Client) (err error) {
		n, err = redis.NewScript(beatScript).Run(ctx, c, []string{o.key}, o.member, o.redis.times.member.Milliseconds()).Int()
		return err
	})
	if err != nil {
		return o.redis.metrics.done(opLease, err)
	}
	o.joined = true
	for _, l := range o.count(n) {
		l.leave()
	}
	return nil
}

// depart takes this process off the roster, so that others need not wait.
func (o *roster) depart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	err := o.redis.do(func(c *redis.Client) error { return c.ZRem(ctx, o.key, o.member).Err() })
	if o.redis.metrics.done(opLease, err) == nil { // else its sign of life ends by itself
		o.joined = false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.members = 0
}

// count takes in how many members live and gives the leases that must leave. A
// Redis that was emptied shows few for a moment, so fewer are believed later.
func (o *roster) count(n int) []*lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fewer++
	if n >= o.members {
		o.fewer = 0
	}
	if before := o.members; n > before || o.fewer >= fewerBeats {
		o.members, o.fewer = n, 0
		for _, l := range o.held {
			if l.spare && n > before { // whoever came may want it
				o.offer(l)
			}
		}
		if before > 0 {
			o.redis.log.Info("members of a group have changed", slog.String("group", o.group), slog.Int("members", n), slog.Int("before", before))
		}
	}
	for _, l := range o.held {
		if l.spare && time.Since(l.since) > o.patience[l.name] {
			o.offer(l)
		}
	}
	o.admit()
	return o.surplus()
}

// offer makes a lease beyond the share an ordinary one, so that it leaves: one
// that was slow may want it by now. If nobody takes it, it comes back, and is
// offered half as often.
func (o *roster) offer(l *lease) {
	l.spare = false
	o.taken++
	o.patience[l.name] = min(2*o.patience[l.name], longestSpare)
}

// shareLocked is how many names this process may have.
func (o *roster) shareLocked() int {
	if o.members == 0 {
		return 0
	}
	return (len(o.wanted) + o.members - 1) / o.members
}

// surplus picks what must leave now: the youngest, and not all at once.
func (o *roster) surplus() []*lease {
	share := o.shareLocked()
	staying := 0
	for _, l := range o.held {
		if !l.leaving && !l.spare {
			staying++
		}
	}
	n := min(staying-share, (share+leaveParts-1)/leaveParts)
	var out []*lease
	for i := len(o.held) - 1; i >= 0 && len(out) < n; i-- {
		if l := o.held[i]; !l.leaving && !l.spare && l.leave != nil {
			l.leaving = true
			out = append(out, l)
		}
	}
	return out
}

// admit gives free places to those that wait.
func (o *roster) admit() {
	for len(o.queue) > 0 && o.taken < o.shareLocked() {
		o.taken++
		close(o.queue[0])
		o.queue = o.queue[1:]
	}
}

// want counts a name in, and unwant out again.
func (o *roster) want(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted[name]++
	o.admit()
	o.stir()
}

func (o *roster) unwant(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wanted[name]--; o.wanted[name] <= 0 {
		delete(o.wanted, name)
	}
	if len(o.wanted) == 0 {
		o.stir()
	}
}

// stir has the roster beat now where that makes a difference.
func (o *roster) stir() {
	if o.members > 0 && len(o.wanted) > 0 {
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// place waits until this process may ask for the lease. spare says that the name
// is beyond its share, but that nobody else takes it.
func (o *roster) place(ctx context.Context, l *lease) (spare bool, err error) {
	turn := make(chan struct{})
	o.mu.Lock()
	o.queue = append(o.queue, turn)
	o.admit()
	o.mu.Unlock()
	look := time.NewTicker(o.redis.times.orphan)
	defer look.Stop()
	for free := 0; ; {
		select {
		case <-turn:
			return false, nil
		case <-ctx.Done():
			if o.quit(turn) {
				o.back()
			}
			return false, ctx.Err()
		case <-look.C:
		}
		_, err := l.holder(ctx)
		if free++; !errors.Is(err, redis.Nil) {
			free = 0
		}
		if free >= orphanLooks {
			return !o.quit(turn), nil
		}
	}
}

// quit stops waiting for a turn. It reports whether the turn had come already.
func (o *roster) quit(turn chan struct{}) (came bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.queue, turn)
	if i >= 0 {
		o.queue = slices.Delete(o.queue, i, i+1)
	}
	return i < 0
}

// back gives a place back that was not used.
func (o *roster) back() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken--
	o.admit()
}

// hold notes a lease that was got, and let that it is over.
func (o *roster) hold(l *lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, l)
	l.since = time.Now()
	if o.patience[l.name] == 0 {
		o.patience[l.name] = spareBeats * o.redis.times.member
	}
}

func (o *roster) let(l *lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.held, l); i >= 0 {
		o.held = slices.Delete(o.held, i, i+1)
	}
	if !l.spare {
		o.taken--
	}
	o.admit()
}

package dedupe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The times of a lease. A worker that dies is followed within leaseLife and one
// look.
const (
	leaseLife    = 12 * time.Second
	leaseRenewal = 4 * time.Second
	leaseLook    = time.Second
	leaseTimeout = 2 * time.Second // of one request about a lease
)

// leaseTimes are those times as a store has them; only tests have others.
type leaseTimes struct{ life, renewal, look, member, orphan time.Duration }

// ErrLeaseLost is the cause of an ownership that ended before it was released.
var ErrLeaseLost = errors.New("the lease is lost")

// The ways to lose one.
var (
	errOver  = fmt.Errorf("%w: its time is over", ErrLeaseLost)
	errTaken = fmt.Errorf("%w: another process has it", ErrLeaseLost)
)

// renewScript prolongs a lease that is ours, or takes it anew if it is gone;
// 0 says that it is another's.
const renewScript = `
local v = redis.call('GET', KEYS[1])
if v and v ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

// releaseScript deletes a lease that is ours.
const releaseScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

// Acquire waits until this process owns name, or ctx ends. Who waits looks once
// a second; which of several gets it is chance.
//
// The names of a group, which is what a name has before its first slash, are
// spread evenly over the processes that want them: one that has its share waits
// although a name is free. When the share falls, because another process wants
// some, leave is called once for each lease that is too much: its owner brings
// to an end what is under way and calls release; owned stays valid until then.
// leave must not block. Nil: this lease is never asked to leave.
//
// owned tells whether the ownership surely lasts: its Err is not nil as soon as
// the time that Redis granted is over by this machine's monotonic clock, even
// if the process was stopped meanwhile and no timer has run. Its Done closes
// when the lease is lost, with the cause ErrLeaseLost, or released. It carries
// the values of ctx but does not end with it: an owner that is told to stop
// still owns what it has to bring to an end.
//
// release gives the lease back and returns when that is done. It must be called
// once owned is not needed any more, whatever has become of it.
func (r *Redis) Acquire(ctx context.Context, name string, leave func()) (owned context.Context, release func(), err error) {
	if name == "" {
		return nil, nil, r.metrics.done(opLease, fmt.Errorf("lease %q: %w", name, ErrBadName))
	}
	l := &lease{redis: r, name: name, key: r.key(name, "lease"), token: rand.Text(), leave: leave, roster: r.roster(ctx, name)}
	l.roster.want(name)
	defer func() {
		if err != nil {
			l.roster.unwant(name)
		}
	}()
	var said bool
	for {
		if l.spare, err = l.roster.place(ctx, l); err != nil {
			return nil, nil, fmt.Errorf("acquire lease %s: %w", name, err)
		}
		got, err := l.take(ctx)
		if got {
			owned := l.hold(ctx)
			l.roster.hold(l)
			return owned, l.release, nil
		}
		if !l.spare {
			l.roster.back()
		}
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("acquire lease %s: %w", name, ctx.Err())
		}
		if err != nil && !said {
			said = true
			r.log.Warn("cannot ask for a lease", slog.String("lease", name), slog.Any("error", err))
		}
		if err := pause(ctx, r.times.look); err != nil {
			return nil, nil, fmt.Errorf("acquire lease %s: %w", name, err)
		}
	}
}

// lease is one name while it is owned.
type lease struct {
	redis *Redis
	name  string
	key   string
	token string

	mu    sync.Mutex
	until time.Time // by the monotonic clock

	roster  *roster
	leave   func()    // nil: it is never asked to leave
	leaving bool      // it was asked; guarded by the roster
	since   time.Time // when it was got; guarded by the roster
	spare   bool      // beyond the share; guarded by the roster once it is held

	cancel context.CancelCauseFunc
	quit   chan struct{}
	done   sync.WaitGroup
	once   sync.Once
}

// take asks once. The lease counts from before the request was sent, so that it
// ends here no later than in Redis.
func (l *lease) take(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	sent := time.Now()
	got := false
	err := l.redis.do(func(c *redis.Client) error {
		// A lost answer is asked again, hence the script, which knows our token.
		n, err := redis.NewScript(renewScript).Run(ctx, c, []string{l.key}, l.token, l.redis.times.life.Milliseconds()).Int()
		got = n == 1
		return err
	})
	if err != nil {
		return false, l.redis.metrics.done(opLease, err)
	}
	if got {
		l.extend(sent.Add(l.redis.times.life))
	}
	return got, nil
}

func (l *lease) extend(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}

func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}

// hold begins to renew the lease and gives the context of its ownership.
func (l *lease) hold(ctx context.Context) context.Context {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l.cancel = cancel
	l.quit = make(chan struct{})
	l.done.Go(func() { l.keep(inner) })
	return ownership{Context: inner, lease: l}
}

// keep renews the lease until it is lost or released.
func (l *lease) keep(ctx context.Context) {
	renew := time.NewTicker(l.redis.times.renewal)
	defer renew.Stop()
	// The end has a timer of its own, since a request may hang longer than the lease.
	end := time.AfterFunc(l.left(), func() { l.cancel(errOver) })
	defer end.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-ctx.Done():
			l.sayLost(context.Cause(ctx))
			return
		case <-renew.C:
		}
		mine, err := l.take(ctx)
		switch {
		case err != nil: // proves nothing; the time goes on
		case !mine:
			l.cancel(errTaken)
		case end.Stop():
			end.Reset(l.left())
		}
	}
}

// holder is the token of whoever has the lease.
func (l *lease) holder(ctx context.Context) (token string, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	err = l.redis.do(func(c *redis.Client) error {
		token, err = c.Get(ctx, l.key).Result()
		return err
	})
	return token, err
}

// sayLost tells of an ownership that ended by itself, not by a release.
func (l *lease) sayLost(cause error) {
	if errors.Is(cause, ErrLeaseLost) {
		l.redis.log.Warn("a lease is lost", slog.String("lease", l.name), slog.Any("error", cause))
	}
}

func (l *lease) release() {
	l.once.Do(func() {
		close(l.quit)
		l.cancel(context.Canceled)
		l.done.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout)
		defer cancel()
		// A lease that cannot be given back ends by itself.
		_ = l.redis.metrics.done(opLease, l.redis.do(func(c *redis.Client) error {
			return redis.NewScript(releaseScript).Run(ctx, c, []string{l.key}, l.token).Err()
		}))
		l.roster.let(l)
		l.roster.unwant(l.name)
	})
}

// ownership is the context of a lease, whose Err looks at the clock itself.
type ownership struct {
	context.Context
	lease *lease
}

// Err is not nil once the lease is over.
func (o ownership) Err() error {
	if o.Context.Err() == nil && o.lease.left() <= 0 {
		o.lease.cancel(errOver)
	}
	return o.Context.Err()
}

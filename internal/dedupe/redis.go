package dedupe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	firstRetry   = 250 * time.Millisecond
	lastRetry    = 5 * time.Second
	dialTimeout  = 5 * time.Second
	replyTimeout = 3 * time.Second
	renewPause   = time.Second // the least time between two droppings of all connections
)

// RedisOptions says where Redis is.
type RedisOptions struct {
	URL string // redis://host:port/db or rediss://...
	// Credentials gives a user name, which may be empty, and a password. It is
	// asked again for every connection. Nil: as the URL says.
	Credentials func(context.Context) (user, password string, err error)
	TLS         *tls.Config           // for rediss; nil: the system's roots
	Prefix      string                // of every key; empty: herald
	Log         *slog.Logger          // nil: nothing is logged
	Metrics     prometheus.Registerer // nil: nothing is measured
}

// Redis is the store for many processes.
type Redis struct {
	opts    *redis.Options
	prefix  string
	log     *slog.Logger
	metrics *metrics
	times   leaseTimes

	client   atomic.Pointer[redis.Client]
	readOnly atomic.Bool // said, and not over yet
	closed   atomic.Bool

	running sync.WaitGroup // of the rosters

	mu      sync.Mutex
	renewed time.Time
	rosters map[string]*roster // by group
}

// OpenRedis connects. A Redis that is away is waited for until ctx ends; a
// wrong address and refused credentials are errors at once. A policy under which
// Redis drops live keys is a warning. End it with Close.
func OpenRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	r, err := newRedis(o)
	if err != nil {
		return nil, err
	}
	if err := r.reach(ctx); err != nil {
		_ = r.Close()
		return nil, err
	}
	r.askPolicy(ctx)
	return r, nil
}

func newRedis(o RedisOptions) (*Redis, error) {
	opts, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("parse redis url: %w", cleanURLError(err))
	}
	if o.Credentials != nil {
		opts.CredentialsProviderContext = o.Credentials
	}
	if o.TLS != nil {
		opts.TLSConfig = o.TLS.Clone()
		if opts.TLSConfig.ServerName == "" {
			opts.TLSConfig.ServerName, _, _ = strings.Cut(opts.Addr, ":")
		}
	}
	opts.ContextTimeoutEnabled = true
	opts.DialTimeout, opts.DialerRetries = dialTimeout, 1
	opts.ReadTimeout, opts.WriteTimeout = replyTimeout, replyTimeout
	opts.MaxRetries = 1
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// The client writes each failed dial to standard error by itself; its errors
	// come back to us anyway.
	redis.SetLogger(&logging.VoidLogger{})

	r := &Redis{
		opts: opts, prefix: o.Prefix, log: o.Log, metrics: newMetrics(o.Metrics),
		times:   leaseTimes{life: leaseLife, renewal: leaseRenewal, look: leaseLook, member: memberLife, orphan: orphanLook},
		rosters: map[string]*roster{},
	}
	if r.prefix == "" {
		r.prefix = "herald"
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.client.Store(redis.NewClient(opts))
	return r, nil
}

// cleanURLError keeps a password in an address that does not parse out of the
// error.
func cleanURLError(err error) error {
	text := err.Error()
	if i := strings.Index(text, "://"); i >= 0 {
		return errors.New("not of the form redis://host:port/db")
	}
	return err
}

func (r *Redis) reach(ctx context.Context) error {
	var said string
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := r.client.Load().Ping(ctx).Err()
		if err == nil {
			if said != "" {
				r.log.Info("redis is reachable", slog.String("server", r.opts.Addr))
			}
			return nil
		}
		if redis.IsAuthError(err) || redis.IsPermissionError(err) {
			return fmt.Errorf("connect to redis at %s: %w", r.opts.Addr, err)
		}
		if text := err.Error(); text != said && ctx.Err() == nil { // once per kind of trouble, not per try
			said = text
			r.log.Warn("redis is out of reach, waiting for it",
				slog.String("server", r.opts.Addr), slog.String("error", text))
		}
		if perr := pause(ctx, wait); perr != nil {
			return fmt.Errorf("connect to redis at %s: %w", r.opts.Addr, errors.Join(perr, errors.New(said)))
		}
	}
}

// askPolicy warns of a policy that evicts keys which are still needed. INFO is
// allowed where CONFIG is not.
func (r *Redis) askPolicy(ctx context.Context) {
	info, err := r.client.Load().Info(ctx, "memory").Result()
	if err != nil {
		r.log.Warn("cannot ask redis for its maxmemory-policy", slog.Any("error", err))
		return
	}
	for line := range strings.Lines(info) {
		policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:")
		if ok && policy != "noeviction" {
			r.log.Warn("redis may evict live keys, which repeats notifications; set maxmemory-policy to noeviction",
				slog.String("maxmemory_policy", policy))
		}
	}
}

// Healthy asks Redis for a sign of life.
func (r *Redis) Healthy(ctx context.Context) error {
	return r.client.Load().Ping(ctx).Err()
}

// Close ends all connections. Leases must have been released.
func (r *Redis) Close() error {
	r.closed.Store(true)
	r.mu.Lock()
	for _, o := range r.rosters {
		o.cancel()
	}
	r.mu.Unlock()
	r.running.Wait()
	return r.client.Load().Close()
}

// do runs one operation. A server that was demoted keeps its connections open
// and answers READONLY: then all connections are dropped, so that new ones find
// the new primary, and the operation runs once more. All operations can be
// repeated.
func (r *Redis) do(f func(*redis.Client) error) error {
	c := r.client.Load()
	err := f(c)
	switch {
	case redis.IsReadOnlyError(err):
		if !r.readOnly.Swap(true) {
			r.log.Warn("redis answers read only, connections are dropped", slog.String("server", r.opts.Addr))
		}
	case dropped(err) && r.client.Load() != c: // ended under our hands by another's renewal
	default:
		if err == nil && r.readOnly.Swap(false) {
			r.log.Info("redis takes writes again", slog.String("server", r.opts.Addr))
		}
		return err
	}
	fresh := r.renew(c)
	if fresh == c {
		return err
	}
	if err = f(fresh); err == nil && r.readOnly.Swap(false) {
		r.log.Info("redis takes writes again", slog.String("server", r.opts.Addr))
	}
	return err
}

func dropped(err error) bool {
	return errors.Is(err, redis.ErrClosed) || errors.Is(err, net.ErrClosed)
}

// renew replaces a client and closes its connections, unless that was done just
// now.
func (r *Redis) renew(old *redis.Client) *redis.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.client.Load(); now != old || r.closed.Load() || time.Since(r.renewed) < renewPause {
		return now
	}
	r.renewed = time.Now()
	fresh := redis.NewClient(r.opts)
	r.client.Store(fresh)
	_ = old.Close() // nothing to be done about connections that do not close
	return fresh
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// The oldest server whose JetStream does all that is asked of it.
const (
	minMajor = 2
	minMinor = 11
)

// Pace of the tries to reach a server that is away.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// ErrServerTooOld names a server below the version that Herald needs.
var ErrServerTooOld = errors.New("nats server is too old")

func (b *Bus) connect(ctx context.Context) error {
	switch {
	case b.opts.Embedded != nil && b.opts.URL != "":
		return errors.New("either an embedded server or a url, not both")
	case b.opts.Embedded != nil:
		return b.connectEmbedded()
	case b.opts.URL == "":
		return errors.New("neither a url nor an embedded server is given")
	default:
		return b.connectRemote(ctx)
	}
}

// connectRemote tries until the server answers. What no waiting can mend is an
// error: an address that does not parse, refused or unreadable credentials.
func (b *Bus) connectRemote(ctx context.Context) error {
	opts := b.natsOptions()
	var said string
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		nc, err := nats.Connect(b.opts.URL, opts...)
		if err == nil {
			b.nc = nc
			b.link.set(true)
			if said != "" {
				b.log.Info("nats is reachable", slog.String("server", redactURL(b.opts.URL)))
			}
			return nil
		}
		if hopeless(err) {
			return fmt.Errorf("connect to nats at %s: %w", redactURL(b.opts.URL), err)
		}
		if text := err.Error(); text != said { // once per kind of trouble, not per try
			said = text
			b.log.Warn("nats is out of reach, waiting for it",
				slog.String("server", redactURL(b.opts.URL)), slog.String("error", text))
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("connect to nats at %s: %w", redactURL(b.opts.URL), errors.Join(err, errors.New(said)))
		}
	}
}

func hopeless(err error) bool {
	var parse *url.Error
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, errCredentials) ||
		errors.As(err, &parse)
}

var errCredentials = errors.New("use credentials")

func (b *Bus) natsOptions() []nats.Option {
	opts := []nats.Option{
		nats.Name(b.opts.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectJitter(500*time.Millisecond, 500*time.Millisecond),
		// A refused credential is tried again for ever, since it may be rotated.
		nats.IgnoreAuthErrorAbort(),
		// Nothing is kept for later while the server is away: what could not be
		// sent is an error now, and its sender decides.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(20 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.lost(err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { b.back(nc) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			b.log.Debug("nats reported an error", slog.Any("error", err))
		}),
	}
	if b.opts.TLS != nil {
		opts = append(opts, nats.Secure(b.opts.TLS))
	}
	if b.opts.User != nil {
		opts = append(opts, nats.UserInfoHandler(func() (string, string) {
			user, password, err := b.opts.User()
			if err != nil {
				b.log.Error("cannot read the nats password", slog.Any("error", err))
			}
			return user, password
		}))
	}
	if b.opts.Credentials != nil {
		opts = append(opts, nats.UserJWT(b.userJWT, b.sign))
	}
	return opts
}

func (b *Bus) userJWT() (string, error) {
	content, err := b.opts.Credentials()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errCredentials, err)
	}
	jwt, err := nkeys.ParseDecoratedJWT(content)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errCredentials, err)
	}
	return jwt, nil
}

func (b *Bus) sign(nonce []byte) ([]byte, error) {
	content, err := b.opts.Credentials()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCredentials, err)
	}
	pair, err := nkeys.ParseDecoratedNKey(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCredentials, err)
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}

func (b *Bus) lost(err error) {
	b.link.set(false)
	if b.closed.Load() {
		return
	}
	b.metrics.disconnects.Inc()
	b.log.Warn("connection to nats is lost, reconnecting", slog.Any("error", err))
}

func (b *Bus) back(nc *nats.Conn) {
	b.log.Info("connection to nats is back", slog.String("server", nc.ConnectedServerName()))
	if err := checkVersion(nc.ConnectedServerVersion()); err != nil {
		b.log.Error("nats server cannot be relied on", slog.Any("error", err))
	}
	b.link.set(true)
	b.recheck()
}

// checkVersion accepts 2.11 and everything after it, pre-releases too.
func checkVersion(version string) error {
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(numbers) >= 2 {
		major, err1 := strconv.Atoi(numbers[0])
		minor, err2 := strconv.Atoi(numbers[1])
		if err1 == nil && err2 == nil && (major > minMajor || major == minMajor && minor >= minMinor) {
			return nil
		}
	}
	return fmt.Errorf("%w: it has version %q, %d.%d or newer is needed", ErrServerTooOld, version, minMajor, minMinor)
}

// redactURL takes passwords and tokens out of a list of server addresses.
func redactURL(list string) string {
	parts := strings.Split(list, ",")
	for i, p := range parts {
		p = strings.TrimSpace(p)
		if at := strings.LastIndex(p, "@"); at >= 0 {
			scheme := ""
			if j := strings.Index(p, "://"); j >= 0 {
				scheme = p[:j+3]
			}
			p = scheme + "xxxxx@" + p[at+1:]
		}
		parts[i] = p
	}
	return strings.Join(parts, ",")
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

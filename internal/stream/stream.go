// Package stream is Herald's way into NATS JetStream, the only bus that it has.
// It defines the three streams, publishes events so that the stream itself
// refuses a second one, reads the newest state of purchases, hands out the
// messages of one sink at a time, keeps dead letters and audit records, and can
// run the server inside the process.
//
// What an event means, where it goes and how it looks are decided elsewhere.
// The rules that hold here: an event counts as published only with the stream's
// acknowledgement; whatever else happens is an error and the caller tries
// again; and a position is never trusted over a reconnect (see Consumer).
package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/events"
)

// Defaults of Options.
const (
	DefaultMaxBytes  = 10 << 30
	DefaultRetention = 7 * 24 * time.Hour
)

// Options says where the bus is and how its streams are made. Either URL or
// Embedded is set.
type Options struct {
	URL  string // of a server or, with commas between, of several
	Name string // of this process, shown by the server; empty: herald

	// Credentials gives the content of a NATS credentials file. It is asked
	// again for every connection, so that a rotated file is taken up. Nil: none.
	Credentials func() ([]byte, error)
	// User gives a user name and password, likewise. Nil: none.
	User func() (user, password string, err error)
	// TLS is used for connections to a remote server. Nil: as the URL says.
	TLS *tls.Config

	Replicas  int           // of streams that are created here; 0: 1
	MaxBytes  int64         // of ENVOY_PURCHASES; 0: DefaultMaxBytes
	Retention time.Duration // of ENVOY_PURCHASES; 0: DefaultRetention

	Embedded *Embedded // a server inside this process, which listens nowhere

	Log     *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: nothing is measured
}

// Embedded describes the server inside the process.
type Embedded struct {
	Dir string // where it keeps its data
	// SyncAlways writes every message through to the disk before it is
	// acknowledged. Without it an acknowledged event survives a killed
	// process, not a host that loses power.
	SyncAlways bool
	// Locked says that the caller holds LockDir(Dir) already; otherwise Open
	// takes it. Two servers on one folder lose acknowledged events.
	Locked bool
}

// ErrClosed is the answer of a bus that was closed.
var ErrClosed = errors.New("the bus is closed")

// Bus is a connection to JetStream with Herald's streams in place.
type Bus struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	opts    Options
	metrics *metrics
	link    *link
	auditor *auditor

	srv    *server.Server // embedded only
	unlock func() error   // of the data folder, embedded only

	mu      sync.Mutex
	streams map[string]jetstream.Stream // by name, as last ensured
	trouble error                       // why the streams are not in place

	wake   chan struct{}      // asks the keeper to look at the streams now
	cancel context.CancelFunc // ends the keeper and the auditor
	done   sync.WaitGroup
	closed atomic.Bool

	refusing atomic.Pointer[refusal] // while publishes fail; nil: the last one was stored
}

// Open connects and makes sure that the streams exist. A remote server that is
// away is waited for until ctx ends; a wrong address, refused credentials and a
// server that is too old are errors at once. The bus outlives ctx: end it with
// Close.
func Open(ctx context.Context, opts Options) (*Bus, error) {
	opts = withDefaults(opts)
	b := &Bus{
		log: opts.Log, opts: opts, metrics: newMetrics(opts.Metrics), link: newLink(),
		streams: make(map[string]jetstream.Stream), wake: make(chan struct{}, 1),
	}
	if err := b.start(ctx); err != nil {
		return nil, errors.Join(err, b.shut(ctx))
	}
	return b, nil
}

func withDefaults(o Options) Options {
	if o.Name == "" {
		o.Name = "herald"
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (b *Bus) start(ctx context.Context) error {
	if err := b.connect(ctx); err != nil {
		return err
	}
	if err := checkVersion(b.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	js, err := jetstream.New(b.nc)
	if err != nil {
		return fmt.Errorf("set up jetstream: %w", err)
	}
	b.js = js
	if err := b.ensureFirst(ctx); err != nil {
		return err
	}
	b.auditor = &auditor{nc: b.nc, js: js, queue: make(chan events.Delivery, auditQueue), dropped: b.metrics.auditDropped}
	// The loops end with Close, not with the context of the opening.
	loops, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	b.done.Go(func() { b.keep(loops) })
	b.done.Go(func() { b.auditor.run(loops) })
	return nil
}

// JetStream is the client of this connection, for a key-value store beside the
// streams. It is lent: Close ends it.
func (b *Bus) JetStream() jetstream.JetStream { return b.js }

// Conn is the connection, for plain requests such as registrations. It is lent:
// Close ends it.
func (b *Bus) Conn() *nats.Conn { return b.nc }

// Healthy reports nil while the server is connected and the streams are in
// place, else what is wrong.
func (b *Bus) Healthy() error {
	if b.closed.Load() {
		return ErrClosed
	}
	if !b.nc.IsConnected() {
		return fmt.Errorf("nats is %s", b.nc.Status())
	}
	b.mu.Lock()
	trouble := b.trouble
	b.mu.Unlock()
	if r := b.refusing.Load(); trouble == nil && r != nil && time.Since(r.since) > refusalAfter {
		return fmt.Errorf("nothing could be stored since %s (if the disk was full and is not any more, restart the NATS server): %w",
			r.since.UTC().Format(time.RFC3339), r.err)
	}
	return trouble
}

// Close sends the audit records that wait, until ctx ends, then ends the
// connection and the embedded server. Consumers must have been stopped.
func (b *Bus) Close(ctx context.Context) error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.shut(ctx)
}

func (b *Bus) shut(ctx context.Context) error {
	if b.cancel != nil {
		b.cancel()
	}
	b.done.Wait()
	if b.auditor != nil {
		b.auditor.flush(ctx)
	}
	if b.nc != nil {
		b.nc.Close()
	}
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv.WaitForShutdown()
	}
	if b.unlock != nil {
		return b.unlock()
	}
	return nil
}

// stream is the handle of a stream as it was last ensured.
func (b *Bus) stream(name string) (jetstream.Stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.streams[name]; s != nil {
		return s, nil
	}
	if b.trouble != nil {
		return nil, b.trouble
	}
	return nil, fmt.Errorf("stream %s is not in place yet", name)
}

// recheck asks the keeper to look at the streams without waiting for its turn.
func (b *Bus) recheck() {
	select {
	case b.wake <- struct{}{}:
	default: // asked already
	}
}

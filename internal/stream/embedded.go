package stream

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// embeddedReady bounds the start of the server: it reads back its whole store.
const embeddedReady = 2 * time.Minute

// connectEmbedded runs a server in this process and connects to it without a
// socket: it listens nowhere, so nobody else can reach it.
func (b *Bus) connectEmbedded() error {
	if b.opts.Embedded.Dir == "" {
		return errors.New("the embedded server needs a folder")
	}
	if b.opts.Replicas != 1 {
		return fmt.Errorf("the embedded server keeps one replica, not %d", b.opts.Replicas)
	}
	if !b.opts.Embedded.Locked {
		unlock, err := LockDir(b.opts.Embedded.Dir)
		if err != nil {
			return err
		}
		b.unlock = unlock
	}
	if err := os.MkdirAll(b.opts.Embedded.Dir, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	srv, err := server.NewServer(b.serverOptions())
	if err != nil {
		return fmt.Errorf("set up the embedded nats server: %w", err)
	}
	srv.SetLoggerV2(serverLog{b.log}, false, false, false)
	b.srv = srv
	srv.Start()
	if !srv.ReadyForConnections(embeddedReady) {
		return fmt.Errorf("start the embedded nats server: not ready after %s", embeddedReady)
	}
	if !srv.JetStreamEnabled() {
		return errors.New("start the embedded nats server: its JetStream did not start, see the log")
	}
	nc, err := nats.Connect("", append(b.natsOptions(), nats.InProcessServer(srv))...)
	if err != nil {
		return fmt.Errorf("connect to the embedded nats server: %w", err)
	}
	b.nc = nc
	b.link.set(true)
	return nil
}

// serverRoom is no limit: each stream has its own, and what was stored under a
// larger one must still fit. A write that the disk has no room for is refused as
// it happens.
const serverRoom = 1 << 60

func (b *Bus) serverOptions() *server.Options {
	return &server.Options{
		ServerName:         b.opts.Name,
		DontListen:         true,
		JetStream:          true,
		StoreDir:           b.opts.Embedded.Dir,
		SyncAlways:         b.opts.Embedded.SyncAlways,
		JetStreamMaxStore:  serverRoom,
		JetStreamMaxMemory: 256 << 20,
		NoSigs:             true,
	}
}

// serverLog passes what matters of the server's log on. Its notices are our
// details.
type serverLog struct{ log *slog.Logger }

// Noticef takes a notice of the server.
func (l serverLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Warnf takes a warning.
func (l serverLog) Warnf(format string, v ...any) { l.say(slog.LevelWarn, format, v) }

// Errorf takes an error.
func (l serverLog) Errorf(format string, v ...any) { l.say(slog.LevelError, format, v) }

// Fatalf takes an error that ends the server.
func (l serverLog) Fatalf(format string, v ...any) { l.say(slog.LevelError, format, v) }

// Debugf takes nothing.
func (l serverLog) Debugf(string, ...any) {}

// Tracef takes nothing.
func (l serverLog) Tracef(string, ...any) {}

func (l serverLog) say(level slog.Level, format string, v []any) {
	text := slog.String("text", fmt.Sprintf(format, v...))
	switch level {
	case slog.LevelError:
		l.log.Error("embedded nats server", text)
	case slog.LevelWarn:
		l.log.Warn("embedded nats server", text)
	default:
		l.log.Debug("embedded nats server", text)
	}
}

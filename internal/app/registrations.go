package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/watch"
)

const (
	registrationRoom   = 1024             // requests that wait to be read
	registrationsAtOne = 64               // requests that are being answered
	registrationWait   = 10 * time.Second // for the owner's answer
)

// registrar carries registrations over NATS to the process that watches the connection. Only that one listens on the
// connection's subject, so each request has one answer, and one about a connection that nobody watches is told so at once.
type registrar struct {
	conn    *nats.Conn
	log     *slog.Logger
	arrived chan *nats.Msg
}

func newRegistrar(conn *nats.Conn, log *slog.Logger) *registrar {
	return &registrar{conn: conn, log: log, arrived: make(chan *nats.Msg, registrationRoom)}
}

// Open listens on the connection's subject.
func (r *registrar) Open(connection string) (shut func(), err error) {
	subject, err := events.ControlSubject(connection)
	if err != nil {
		return nil, err
	}
	sub, err := r.conn.ChanSubscribe(subject, r.arrived)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // a connection that is gone has no subscriptions
}

// Ask sends a request to the owner.
func (r *registrar) Ask(ctx context.Context, connection string, request []byte) ([]byte, error) {
	subject, err := events.ControlSubject(connection)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, registrationWait)
	defer cancel()
	m, err := r.conn.RequestWithContext(ctx, subject, request)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, watch.ErrNotOwner
	case err != nil:
		return nil, fmt.Errorf("ask the owner of connection %s: %w", connection, err)
	}
	return m.Data, nil
}

// run answers what arrives, by answer, until ctx ends.
func (r *registrar) run(ctx context.Context, answer func(ctx context.Context, connection string, request []byte) []byte) error {
	var under sync.WaitGroup
	defer under.Wait()
	places := make(chan struct{}, registrationsAtOne)
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-r.arrived:
			select {
			case <-ctx.Done():
				return nil
			case places <- struct{}{}:
			}
			under.Go(func() {
				defer func() { <-places }()
				connection := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
				if err := m.Respond(answer(ctx, connection, m.Data)); err != nil && !errors.Is(err, nats.ErrMsgNoReply) {
					r.log.Debug("answer to a registration not sent", "connection", connection, "err", err) // who asked hears of it by the time-out
				}
			})
		}
	}
}

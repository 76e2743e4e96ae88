package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
	"github.com/heraldbridge/herald/internal/watch"
)

// consoleOf builds the console of this process, and the loop by which processes
// tell each other how their sinks and connections are doing. The watcher is nil
// where there is none.
func (a *App) consoleOf(st *stores, loops func() []*deliver.Loop, w *watch.Watcher) (http.Handler, loop) {
	p := newParts(a, st, loops, w)
	o := console.Options{
		Feed: feed{st.bus}, Match: compileMatch, Archive: st.bus, Audit: audit{st.bus}, Graveyard: st.bus,
		Owners: owners{st.bus.Conn()}, Parts: p, Standings: st.state, Vault: &vault{app: a, stores: st}, Version: a.Version,
	}
	if s, ok := st.state.(console.Silences); ok {
		o.Silences = s
	}
	if a.delivers() {
		o.Route = a.route
	}
	return console.Handler(o), loop{"status", p.run}
}

// audit is the bus as the console reads records of deliveries.
type audit struct{ bus *stream.Bus }

// Deliveries walks over records, oldest first.
func (d audit) Deliveries(ctx context.Context, f console.DeliveryFilter) iter.Seq2[events.Delivery, error] {
	return d.bus.Deliveries(ctx, stream.DeliveryFilter(f))
}

// owners carries wishes over NATS to the loop that owns a sink.
type owners struct{ nc *nats.Conn }

// Ask sends a wish and waits for the reply, as long as ctx lasts.
func (o owners) Ask(ctx context.Context, sink string, w console.Wish) (console.WishResult, error) {
	subject, err := console.WishSubject(sink)
	if err != nil {
		return console.WishResult{}, err
	}
	body, err := json.Marshal(w)
	if err != nil {
		return console.WishResult{}, fmt.Errorf("encode wish: %w", err)
	}
	msg, err := o.nc.RequestWithContext(ctx, subject, body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return console.WishResult{}, console.ErrNoOwner
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return console.WishResult{}, errors.New("the owner of the sink did not answer in time; it may still do what was asked")
	case err != nil:
		return console.WishResult{}, fmt.Errorf("ask the owner of %s: %w", sink, err)
	}
	var res console.WishResult
	if err := json.Unmarshal(msg.Data, &res); err != nil {
		return res, fmt.Errorf("read the answer of %s's owner: %w", sink, err)
	}
	return res, nil
}

// storeTimeout bounds one question about a sink's backlog.
const storeTimeout = 3 * time.Second

// backlog fills in what the stream knows about a sink.
func backlog(ctx context.Context, bus *stream.Bus, s *console.Sink) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	consumer := bus.Consumer(s.Name)
	var err error
	if s.Backlog, err = consumer.Pending(ctx); err != nil {
		return err
	}
	s.Floor, err = consumer.Floor(ctx)
	return err
}

package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// slackRate is how many messages a second Slack takes for one channel, by its
// published limits. It holds where the file gives no max_rate.
const slackRate = 1.0

// paces are the paces that sinks of this process share: Slack counts by channel,
// whoever posts. They outlive reloads, or each would begin with a burst.
type paces struct {
	mu    sync.Mutex
	byKey map[paceKey]*deliver.Pace
}

type paceKey struct {
	place string
	rate  float64
}

// of gives the pace of a sink; nil: it has one of its own.
func (p *paces) of(s config.Sink) *deliver.Pace {
	if s.Kind() != config.KindSlack {
		return nil
	}
	key := paceKey{place: s.Slack.APIURL + " " + s.Slack.Channel, rate: s.MaxRate}
	if !s.Slack.WebhookURL.IsZero() { // it stands for its channel
		key.place = s.Slack.WebhookURL.String()
	}
	if key.rate == 0 {
		key.rate = slackRate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[paceKey]*deliver.Pace{}
	}
	if p.byKey[key] == nil {
		p.byKey[key] = deliver.NewPace(key.rate)
	}
	return p.byKey[key]
}

// sinkConsumer begins the name of each sink's consumer.
const sinkConsumer = "sink_"

// Gap tells what left the stream since the consumer was last done with something.
// Events above that which it was done with too are counted all the same.
func (s *source) Gap(ctx context.Context) (deliver.Gap, error) {
	str, err := s.bus.JetStream().Stream(ctx, events.StreamPurchases)
	if err != nil {
		return deliver.Gap{}, fmt.Errorf("look at the stream: %w", err)
	}
	cons, err := str.Consumer(ctx, sinkConsumer+s.name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return deliver.Gap{}, nil // where it stood is not known
	}
	if err != nil {
		return deliver.Gap{}, fmt.Errorf("look at the consumer: %w", err)
	}
	state, floor := str.CachedInfo().State, cons.CachedInfo().AckFloor
	if state.FirstSeq <= floor.Stream+1 {
		return deliver.Gap{}, nil
	}
	gap := deliver.Gap{Count: state.FirstSeq - floor.Stream - 1}
	if floor.Last != nil {
		gap.From = *floor.Last
	}
	if state.Msgs > 0 {
		gap.To = state.FirstTime
	}
	return gap, nil
}

// keys follow the secrets of one sink, for the pause that a refused one causes.
type keys struct {
	name    string
	log     *slog.Logger
	sources []secret.Source
	// rebuild makes the sink anew, where it was built from values; nil: it reads its
	// secrets itself.
	rebuild func(ctx context.Context) (sinks.Sink, error)
	sink    atomic.Pointer[sinks.Sink]

	mu   sync.Mutex
	last [sha256.Size]byte
}

// keysOf reads the sink's secrets as they are now.
func (a *App) keysOf(ctx context.Context, w *wiring, s builtSink) *keys {
	k := &keys{name: s.cfg.Name, log: a.Log}
	k.sink.Store(&s.sink)
	switch s.cfg.Kind() {
	case config.KindSlack:
		k.sources = []secret.Source{s.cfg.Slack.BotToken, s.cfg.Slack.WebhookURL}
	case config.KindEmail:
		k.sources = []secret.Source{s.cfg.Email.Password}
	case config.KindWebhook:
		k.sources = append(slices.Clone(s.cfg.Webhook.Secrets), s.cfg.Webhook.URL.Source)
		for _, h := range s.cfg.Webhook.Headers {
			k.sources = append(k.sources, h.Source)
		}
		k.rebuild = func(ctx context.Context) (sinks.Sink, error) {
			zone, err := time.LoadLocation(w.cfg.Timezone)
			if err != nil {
				return nil, fmt.Errorf("load timezone: %w", err)
			}
			return buildWebhook(ctx, s.cfg, zone)
		}
	case config.KindNone:
	}
	k.sources = slices.DeleteFunc(k.sources, secret.Source.IsZero)
	k.last, _ = k.digest(ctx) // one that cannot be read is another once it can be
	return k
}

// Send sends through the sink as it is now.
func (k *keys) Send(ctx context.Context, n sinks.Notification) (sinks.Receipt, error) {
	return (*k.sink.Load()).Send(ctx, n)
}

// digest stands for all values together. Commands are run again.
func (k *keys) digest(ctx context.Context) ([sha256.Size]byte, error) {
	h := sha256.New()
	for _, src := range k.sources {
		src.Invalidate()
		v, err := src.Read(ctx)
		if err != nil {
			return [sha256.Size]byte{}, err
		}
		sum := sha256.Sum256([]byte(v.Reveal()))
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// changed tells whether the values are others than at the call before, and has
// the sink use them. A value that cannot be read changes nothing.
func (k *keys) changed(ctx context.Context) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := k.digest(ctx)
	if err != nil || now == k.last {
		return false
	}
	if k.rebuild != nil {
		sink, err := k.rebuild(ctx)
		if err != nil {
			k.log.Warn("changed secrets of the sink cannot be used", "sink", k.name, "err", err)
			return false
		}
		k.sink.Store(&sink)
	}
	k.last = now
	return true
}

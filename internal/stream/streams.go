package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

// Sizes of the streams beside ENVOY_PURCHASES, and the room that the embedded
// server keeps for the key-value store.
const (
	deadBytes     = 1 << 30
	deliveryBytes = 1 << 30
)

const (
	deliveryAge   = 168 * time.Hour
	duplicates    = 2 * time.Minute // how long message ids are kept
	checkEvery    = 30 * time.Second
	checkTimeout  = 5 * time.Second
	removal       = time.Second // that a server may take to remove a stream
	codeNoQuorum  = 503
	codeNameInUse = jetstream.JSErrCodeStreamNameInUse
)

// definitions are the streams as Herald makes them.
//
// ENVOY_PURCHASES refuses what does not fit, since dropping the oldest would
// lose events that a sink has yet to get. ENVOY_DEAD has no age: a dead letter
// rests until somebody replays or drops it, and a full graveyard refuses, which
// leaves the event undelivered and visible, rather than forget. ENVOY_DELIVERIES
// is a log, whose oldest go.
func definitions(o Options) []jetstream.StreamConfig {
	common := jetstream.StreamConfig{
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Replicas: o.Replicas,
		MaxMsgs: -1, MaxMsgsPerSubject: -1, AllowDirect: true, Duplicates: duplicates,
	}
	purchases, dead, deliveries := common, common, common

	purchases.Name = events.StreamPurchases
	purchases.Description = "Envoy purchase events; the last message of a subject is the current state"
	purchases.Subjects = []string{events.SubjectPurchases, events.SubjectNotices}
	purchases.Discard = jetstream.DiscardNew
	purchases.MaxAge, purchases.MaxBytes = o.Retention, o.MaxBytes
	purchases.Duplicates = min(duplicates, o.Retention)

	dead.Name = events.StreamDead
	dead.Description = "Envoy events that a sink will not get by itself any more, with the reason"
	dead.Subjects = []string{events.SubjectDead}
	dead.Discard = jetstream.DiscardNew
	dead.MaxBytes = deadBytes

	deliveries.Name = events.StreamDeliveries
	deliveries.Description = "outcomes of deliveries of Envoy events"
	deliveries.Subjects = []string{events.SubjectDeliveries}
	deliveries.Discard = jetstream.DiscardOld
	deliveries.MaxAge, deliveries.MaxBytes = deliveryAge, deliveryBytes

	return []jetstream.StreamConfig{purchases, dead, deliveries}
}

// ensureFirst makes the streams at the opening. A JetStream that does not
// answer yet, such as a cluster without a leader, is waited for.
func (b *Bus) ensureFirst(ctx context.Context) error {
	var said string
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := b.ensure(ctx, true)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !passing(err) {
			return err
		}
		if text := err.Error(); text != said {
			said = text
			b.log.Warn("jetstream does not answer yet, waiting for it", slog.String("error", text))
		}
		if perr := pause(ctx, wait); perr != nil {
			return errors.Join(perr, err)
		}
	}
}

// passing tells whether an error may go away by itself.
func passing(err error) bool {
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return false
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == codeNoQuorum
	}
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed)
}

// keep looks at the streams after every reconnect, when a publish or a consumer
// finds one missing, and now and then, and puts right what is ours.
func (b *Bus) keep(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-b.wake:
		case <-ctx.Done():
			return
		}
		if b.nc.IsConnected() {
			// A check is not broken off by Close: a stream half made is no state to
			// leave. What is wrong is kept as the bus's trouble, and said there.
			_ = b.ensure(context.WithoutCancel(ctx), false)
		}
	}
}

// ensure puts every stream in place and notes what is wrong.
func (b *Bus) ensure(ctx context.Context, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var problems []error
	for _, def := range definitions(b.opts) {
		s, err := b.ensureStream(ctx, def, first)
		if err != nil {
			problems = append(problems, fmt.Errorf("ensure stream %s: %w", def.Name, err))
			continue
		}
		b.mu.Lock()
		b.streams[def.Name] = s
		b.mu.Unlock()
	}
	err := errors.Join(problems...)
	b.mu.Lock()
	was := b.trouble
	b.trouble = err
	b.mu.Unlock()
	switch {
	case first || err != nil && b.closed.Load():
	case err != nil && (was == nil || was.Error() != err.Error()):
		b.log.Error("streams are not in place", slog.Any("error", err))
	case err == nil && was != nil:
		b.log.Info("streams are in place again")
	}
	return err
}

func (b *Bus) ensureStream(ctx context.Context, def jetstream.StreamConfig, first bool) (jetstream.Stream, error) {
	s, err := b.js.Stream(ctx, def.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// A server that still removes it would make the next one in the folder that
		// goes: one that is there, and answers no publish until the server restarts.
		if !first {
			if perr := pause(ctx, removal); perr != nil {
				return nil, errors.Join(err, perr)
			}
		}
		s, err = b.js.CreateStream(ctx, def)
		switch {
		case err == nil:
			b.sayMade(def.Name, first)
			return s, nil
		case isCode(err, codeNameInUse): // another process was faster, with other words
			s, err = b.js.Stream(ctx, def.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	if now := s.CachedInfo().Config.MaxBytes; first && b.opts.Embedded == nil && now != def.MaxBytes {
		b.log.Info("stream keeps the size that it has on the server",
			slog.String("stream", def.Name), slog.Int64("max_bytes", now), slog.Int64("configured", def.MaxBytes))
	}
	fixed, changes := b.fix(s.CachedInfo().Config, def)
	if len(changes) == 0 {
		return s, nil
	}
	fixedStream, err := b.js.UpdateStream(ctx, fixed)
	if err != nil {
		return nil, fmt.Errorf("set %s as defined: %w", strings.Join(changes, ", "), err)
	}
	if !first {
		b.metrics.recreated.WithLabelValues("stream").Inc()
	}
	b.log.Warn("stream differed from its definition and was set right",
		slog.String("stream", def.Name), slog.Any("fields", changes))
	return fixedStream, nil
}

func (b *Bus) sayMade(name string, first bool) {
	if first {
		b.log.Info("stream made", slog.String("stream", name))
		return
	}
	b.metrics.recreated.WithLabelValues("stream").Inc()
	b.log.Warn("stream was missing and was made again", slog.String("stream", name))
}

// fix takes the fields of a definition that are Herald's into a stream's
// present configuration and names those that differed. Replicas, size and
// placement of a stream on a remote server are the operator's; of the embedded
// one, the configuration file is the only place where a size can be changed.
func (b *Bus) fix(now, def jetstream.StreamConfig) (jetstream.StreamConfig, []string) {
	var changes []string
	differ := func(name string, same bool) bool {
		if !same {
			changes = append(changes, name)
		}
		return !same
	}
	if differ("subjects", slices.Equal(sorted(now.Subjects), sorted(def.Subjects))) {
		now.Subjects = def.Subjects
	}
	if differ("max_age", now.MaxAge == def.MaxAge) {
		now.MaxAge = def.MaxAge
	}
	if differ("retention", now.Retention == def.Retention) {
		now.Retention = def.Retention
	}
	if differ("discard", now.Discard == def.Discard && !now.DiscardNewPerSubject) {
		now.Discard, now.DiscardNewPerSubject = def.Discard, false
	}
	if differ("max_msgs_per_subject", now.MaxMsgsPerSubject <= 0) {
		now.MaxMsgsPerSubject = def.MaxMsgsPerSubject
	}
	if differ("duplicate_window", now.Duplicates == def.Duplicates) {
		now.Duplicates = def.Duplicates
	}
	if differ("allow_direct", now.AllowDirect) {
		now.AllowDirect = true
	}
	if differ("no_ack", !now.NoAck) {
		now.NoAck = false
	}
	if b.opts.Embedded != nil && differ("max_bytes", now.MaxBytes == def.MaxBytes) {
		now.MaxBytes = def.MaxBytes
	}
	return now, changes
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

func isCode(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

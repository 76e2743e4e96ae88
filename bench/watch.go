package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

// side is one of the two programs that a turn is played with.
type side struct {
	name   string
	part   *part
	envoy  *part
	stream string
}

func (w *world) sides() [2]side {
	return [2]side{
		{"floor", w.floor, w.floorEnvoy, floorStream},
		{"herald", w.herald, w.heraldEnvoy, events.StreamPurchases},
	}
}

// turn is what one side did in one turn.
type turn struct {
	seconds  float64 // from the first change until the last event is stored
	cpu      float64 // seconds
	p50, p99 time.Duration
}

// published plays one turn: purchases change, and every change has to be in the
// stream, once.
func (b *bench) published(ctx context.Context, s side, count int, rate float64) (turn, error) {
	before, err := b.lastSequence(ctx, s.stream)
	if err != nil {
		return turn{}, err
	}
	start, err := used(ctx, s.part)
	if err != nil {
		return turn{}, err
	}
	begun := time.Now()
	if err := s.envoy.call(ctx, "change", changeArgs{Count: count, Rate: rate}, nil); err != nil {
		return turn{}, err
	}
	err = await(ctx, readyWithin, "wait for "+s.name+"'s events", func() error {
		last, err := b.lastSequence(ctx, s.stream)
		if err == nil && last < before+uint64(count) {
			err = fmt.Errorf("%d of %d are stored", last-before, count)
		}
		return err
	})
	if err != nil {
		return turn{}, err
	}
	t := turn{seconds: time.Since(begun).Seconds()}
	end, err := used(ctx, s.part)
	if err != nil {
		return turn{}, err
	}
	t.cpu = end.CPU - start.CPU
	ages, last, err := b.ages(ctx, s.stream, before+1, count)
	if err != nil {
		return turn{}, fmt.Errorf("check %s's events: %w", s.name, err)
	}
	if rate == 0 {
		t.seconds = last.Sub(begun).Seconds()
	}
	t.p50, t.p99 = quantile(ages, 0.5), quantile(ages, 0.99)
	return t, nil
}

func (b *bench) lastSequence(ctx context.Context, stream string) (uint64, error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// ages reads what was stored from a sequence on and tells how old each change was
// when the server stored it, and when it stored the last. Fewer different events
// than changes is an error.
func (b *bench) ages(ctx context.Context, stream string, from uint64, count int) ([]time.Duration, time.Time, error) {
	var last time.Time
	cons, err := b.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
	if err != nil {
		return nil, last, fmt.Errorf("read stream %s: %w", stream, err)
	}
	seen := make(map[string]bool, count)
	ages := make([]time.Duration, 0, count)
	for len(seen) < count {
		batch, err := cons.Fetch(min(count-len(seen), 1000), jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return nil, last, fmt.Errorf("read stream %s: %w", stream, err)
		}
		got := 0
		for m := range batch.Messages() {
			got++
			meta, err := m.Metadata()
			if err != nil {
				return nil, last, fmt.Errorf("read message: %w", err)
			}
			updated, ok := updatedAt(m.Data())
			if !ok || seen[m.Headers().Get(jetstream.MsgIDHeader)] {
				continue
			}
			seen[m.Headers().Get(jetstream.MsgIDHeader)] = true
			ages, last = append(ages, meta.Timestamp.Sub(updated)), meta.Timestamp
		}
		if err := batch.Error(); err != nil {
			return nil, last, fmt.Errorf("read stream %s: %w", stream, err)
		}
		if got == 0 {
			return nil, last, fmt.Errorf("only %d of %d changes were published", len(seen), count)
		}
	}
	return ages, last, nil
}

// alternate plays turns A B A B; turn gives the figures of one.
func (b *bench) alternate(w *world, turns int, play func(n int, s side) (turn, error)) (map[string][]turn, error) {
	out := map[string][]turn{}
	for n := range turns {
		for _, s := range w.sides() {
			t, err := play(n, s)
			if err != nil {
				return nil, err
			}
			out[s.name] = append(out[s.name], t)
		}
	}
	return out, nil
}

// pick takes one figure out of all turns.
func pick(all map[string][]turn, figure func(turn) float64) figures {
	var f figures
	for _, t := range all["herald"] {
		f.herald = append(f.herald, figure(t))
	}
	for _, t := range all["floor"] {
		f.floor = append(f.floor, figure(t))
	}
	return f
}

const floorPipeline = "bare hold, decode, publish"

func benchWatch(ctx context.Context, b *bench) error {
	w, err := b.shared(ctx)
	if err != nil {
		return err
	}
	turns, count := 3, 15000
	if b.o.short {
		turns, count = 1, 4000
	}
	for _, s := range w.sides() { // connections, caches and message ids warm
		if _, err := b.published(ctx, s, count/10, 0); err != nil {
			return err
		}
	}
	all, err := b.alternate(w, turns, func(n int, s side) (t turn, err error) {
		err = b.profiled(ctx, s.part, fmt.Sprintf("watch-%s-%d", s.name, n), func() error {
			t, err = b.published(ctx, s, count, 0)
			return err
		})
		return t, err
	})
	if err != nil {
		return err
	}
	b.report.add(row{Benchmark: "watch", Figure: "events", Unit: "1/s", Against: floorPipeline, Sense: atLeast},
		pick(all, func(t turn) float64 { return float64(count) / t.seconds }))
	b.report.add(row{Benchmark: "watch", Figure: "CPU for 10,000 events", Unit: "s", Against: floorPipeline, Sense: atMost},
		pick(all, func(t turn) float64 { return t.cpu * 10000 / float64(count) }))
	return nil
}

func benchChange(ctx context.Context, b *bench) error {
	const rate = 500
	w, err := b.shared(ctx)
	if err != nil {
		return err
	}
	turns, count := 3, 8*rate
	if b.o.short {
		turns, count = 1, 2*rate
	}
	for _, s := range w.sides() {
		if _, err := b.published(ctx, s, rate/2, rate); err != nil {
			return err
		}
	}
	all, err := b.alternate(w, turns, func(n int, s side) (t turn, err error) {
		err = b.profiled(ctx, s.part, fmt.Sprintf("change-%s-%d", s.name, n), func() error {
			t, err = b.published(ctx, s, count, rate)
			return err
		})
		return t, err
	})
	if err != nil {
		return err
	}
	b.report.addLatency("change", fmt.Sprintf("%d/s", rate), floorPipeline, [2]float64{1.3, 1.5}, all)
	return nil
}

// addLatency adds the rows of p50 and p99, with their targets.
func (r *report) addLatency(name, pace, against string, targets [2]float64, all map[string][]turn) {
	r.add(row{Benchmark: name, Figure: "p50 at " + pace, Unit: "ms", Against: against, Sense: atMost, Target: targets[0]},
		pick(all, func(t turn) float64 { return float64(t.p50) / 1e6 }))
	r.add(row{Benchmark: name, Figure: "p99 at " + pace, Unit: "ms", Against: against, Sense: atMost, Target: targets[1]},
		pick(all, func(t turn) float64 { return float64(t.p99) / 1e6 }))
}

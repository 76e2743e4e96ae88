package main

import (
	"context"
	"fmt"
	"time"

	"github.com/heraldbridge/herald/internal/deliver"
)

const floorWhole = "hold, decode, publish, consume, POST"

// quietFor is how long nothing has to come before the receiver counts as quiet.
const quietFor = 700 * time.Millisecond

func benchLatency(ctx context.Context, b *bench) error {
	w, err := b.shared(ctx)
	if err != nil {
		return err
	}
	defer b.leaveWorld() // nobody else needs it
	var hook receiverURL
	if err := w.receiver.call(ctx, "reset", struct{}{}, &hook); err != nil {
		return err
	}
	for _, s := range w.sides() {
		if err := s.part.call(ctx, "deliver", deliverArgs{Hook: hook.URL, InHand: b.inHand()}, nil); err != nil {
			return err
		}
	}
	// A new sink is given the newest event of every open purchase first.
	if err := w.receiver.call(ctx, "await", awaitArgs{Count: 1 << 30, Idle: quietFor}, nil); err != nil {
		return err
	}
	for _, rate := range []int{200, 1000} {
		turns, seconds := 3, 6
		if b.o.short {
			turns, seconds = 1, 2
		}
		for _, s := range w.sides() {
			if _, err := b.arrived(ctx, w, s, rate/2, float64(rate)); err != nil {
				return err
			}
		}
		all, err := b.alternate(w, turns, func(n int, s side) (t turn, err error) {
			err = b.profiled(ctx, s.part, fmt.Sprintf("latency-%d-%s-%d", rate, s.name, n), func() error {
				t, err = b.arrived(ctx, w, s, rate*seconds, float64(rate))
				return err
			})
			return t, err
		})
		if err != nil {
			return err
		}
		b.report.addLatency("latency", fmt.Sprintf("%d/s", rate), floorWhole, [2]float64{1.5, 2}, all)
	}
	return nil
}

// arrived plays one turn: purchases change, and every change has to reach the
// receiver.
func (b *bench) arrived(ctx context.Context, w *world, s side, count int, rate float64) (turn, error) {
	if err := w.receiver.call(ctx, "reset", struct{}{}, nil); err != nil {
		return turn{}, err
	}
	start, err := used(ctx, s.part)
	if err != nil {
		return turn{}, err
	}
	if err := s.envoy.call(ctx, "change", changeArgs{Count: count, Rate: rate}, nil); err != nil {
		return turn{}, err
	}
	got, err := b.awaitAll(ctx, w, s.name, count)
	if err != nil {
		return turn{}, err
	}
	end, err := used(ctx, s.part)
	if err != nil {
		return turn{}, err
	}
	return turn{seconds: got.Seconds, cpu: end.CPU - start.CPU, p50: got.P50, p99: got.P99}, nil
}

// awaitAll waits for so many webhooks. A missing one is an error, a repeated one
// a note: webhooks may repeat, and carry an id for that.
func (b *bench) awaitAll(ctx context.Context, w *world, who string, count int) (received, error) {
	var got received
	if err := w.receiver.call(ctx, "await", awaitArgs{Count: count, Idle: 20 * time.Second}, &got); err != nil {
		return got, err
	}
	if got.Unique < count {
		return got, fmt.Errorf("wait for %s's webhooks: only %d of %d came", who, got.Unique, count)
	}
	if got.Count > got.Unique {
		b.report.note("%s sent %d of %d webhooks twice", who, got.Count-got.Unique, count)
	}
	return got, nil
}

// inHand is how many messages a sink has fetched ahead, as in the programs.
func (b *bench) inHand() int { return deliver.InHand * concurrency }

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const bareHold = "bare net/http HTTP/2 hold"

// scene is one size of the benchmark hold.
type scene struct {
	crowd
	window time.Duration // over which idle CPU is measured: every hold ends once in it
	label  string
	target bool
}

func benchHold(ctx context.Context, b *bench) error {
	b.leaveWorld()
	// Envoy ends a hold after 45 s; a short run has holds end sooner, on both sides.
	// Sooner than a quarter of the wait would look like a far side that does not hold.
	const short = 13 * time.Second
	scenes := []scene{{crowd{3000, 30, short, true}, short, "3,000", true}}
	if !b.o.short {
		const full = 45 * time.Second
		scenes = []scene{
			{crowd{10000, 100, 0, true}, full, "10,000", true},
			{crowd{50000, 500, 0, true}, full, "50,000", true},
			{crowd{1000, 1000, 20 * time.Second, true}, 20 * time.Second, "1,000 on as many connections", false},
		}
	}
	for _, s := range scenes {
		switch err := b.holds(ctx, s); {
		case errors.Is(err, errNotHeld) && ctx.Err() == nil:
			b.report.note("hold %s is left out, the machine is too slow or too busy: %v", s.label, err)
		case err != nil:
			return fmt.Errorf("hold %s: %w", s.label, err)
		}
	}
	return nil
}

// holds opens the holds of both sides at the same time, so that both are measured
// in the same minute.
func (b *bench) holds(ctx context.Context, s scene) error {
	w, err := b.newWorld(ctx)
	if err != nil {
		return err
	}
	defer w.stop()
	var few, full, idle [2]usage
	h, err := w.prepare(ctx, s.crowd)
	if err != nil {
		return err
	}
	// What a program needs for its first holds, its own code and its pools, is not needed for each.
	begun, first := time.Now(), max(1, s.connections/100)
	if err := errors.Join(h.fill(ctx, first), both(ctx, w, true, &few), h.fill(ctx, s.connections)); err != nil {
		return err
	}
	b.say("  %s holds are open after %.0f s", s.label, time.Since(begun).Seconds())
	if err := settle(ctx, 2*time.Second); err != nil {
		return err
	}
	// A busy machine lets holds end faster than they are asked for again.
	if err := errors.Join(s.awaitHeld(ctx, w.floorEnvoy, s.purchases), s.awaitHeld(ctx, w.heraldEnvoy, s.purchases)); err != nil {
		return err
	}
	if err := both(ctx, w, true, &full); err != nil {
		return err
	}
	// The first holds end sooner than those after them, so they do not count as idle.
	if err := errors.Join(settle(ctx, s.window), both(ctx, w, false, &idle)); err != nil {
		return err
	}
	name := fmt.Sprintf("hold-%d-%d", s.purchases, s.connections)
	if b.o.profile != "" {
		heap := profileArgs{File: filepath.Join(b.o.profile, name+"-heap.pprof"), Heap: true}
		if err := w.herald.call(ctx, "profile", heap, nil); err != nil {
			return err
		}
	}
	after := idle
	err = b.profiled(ctx, w.herald, name, func() error {
		if err := settle(ctx, s.window); err != nil {
			return err
		}
		return both(ctx, w, false, &after)
	})
	if err != nil {
		return err
	}
	b.addHolds(s, first*s.each(), few, full, idle, after)
	return nil
}

// addHolds makes the rows of a scene, of which so many holds were few. Index 0 is the floor, 1 the product.
func (b *bench) addHolds(s scene, first int, few, full, idle, after [2]usage) {
	a := float64(s.purchases - first)
	memory := func(i int) float64 { return float64(full[i].RSS-few[i].RSS) / 1024 / a }
	stacks := func(i int) float64 { return (float64(full[i].Stacks) - float64(few[i].Stacks)) / 1024 / a }
	heap := func(i int) float64 { return (float64(full[i].Heap) - float64(few[i].Heap)) / 1024 / a }
	goroutines := func(i int) float64 { return float64(full[i].Goroutines-few[i].Goroutines) / a }
	// Seconds of CPU in an hour of nothing happening, for 10,000 holds.
	cpu := func(i int) float64 {
		return (after[i].CPU - idle[i].CPU) / s.window.Seconds() * 3600 * 10000 / float64(s.purchases)
	}
	for _, one := range []struct {
		figure, unit string
		target       float64
		of           func(int) float64
	}{
		{"memory a hold", "KiB", 1.25, memory},
		{"  of it heap", "KiB", 0, heap},
		{"  of it stacks", "KiB", 0, stacks},
		{"goroutines a hold", "", 0, goroutines},
		{"idle CPU of 10,000 holds", "s/h", 1.3, cpu},
	} {
		r := row{
			Benchmark: "hold " + s.label, Figure: one.figure, Unit: one.unit, Against: bareHold,
			Sense: atMost, Target: one.target,
		}
		if !s.target {
			r.Target = 0
		}
		b.report.add(r, figures{[]float64{one.of(1)}, []float64{one.of(0)}})
	}
}

// both reads what floor and product use, in this order.
func both(ctx context.Context, w *world, collect bool, out *[2]usage) error {
	for i, s := range w.sides() {
		if err := s.part.call(ctx, "usage", usageArgs{Collect: collect}, &out[i]); err != nil {
			return err
		}
	}
	return nil
}

// settle lets time pass.
func settle(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

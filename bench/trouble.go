package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// deadHook is where nobody listens.
const deadHook = "http://127.0.0.1:1/"

// benchTrouble measures what a receiver in trouble costs: the others while one of
// ten is dead, and itself when it comes back after an outage.
func benchTrouble(ctx context.Context, b *bench) error {
	w, err := b.shared(ctx)
	if err != nil {
		return err
	}
	defer b.leaveWorld()
	var hook receiverURL
	if err := w.receiver.call(ctx, "reset", struct{}{}, &hook); err != nil {
		return err
	}
	turns, seconds := 3, 6
	if b.o.short {
		turns, seconds = 1, 2
	}
	const rate = 200
	all := map[string][]turn{}
	for n := -1; n < turns; n++ { // turn -1 warms up
		for _, one := range []struct{ name, tenth string }{{"floor", otherHook(hook.URL)}, {"herald", deadHook}} {
			t, err := b.amongTen(ctx, w, hook.URL, one.tenth, rate*seconds, rate)
			if err != nil {
				return err
			}
			if n >= 0 {
				all[one.name] = append(all[one.name], t)
			}
		}
	}
	b.report.addLatency("trouble", "200/s, one of ten dead", "all ten well", [2]float64{1.1, 1.1}, all)
	return b.outage(ctx, w, hook.URL, rate)
}

func otherHook(hook string) string { return strings.TrimSuffix(hook, hookPath) + otherPath }

// amongTen plays one turn with nine sinks beside the one that is measured; the
// last of them posts to tenth.
func (b *bench) amongTen(ctx context.Context, w *world, hook, tenth string, count int, rate float64) (turn, error) {
	beside := map[string]string{"tenth": tenth}
	for i := range 8 {
		beside[fmt.Sprintf("beside-%d", i)] = otherHook(hook)
	}
	a := deliverArgs{Hook: hook, InHand: b.inHand(), Beside: beside}
	if err := w.herald.call(ctx, "deliver", a, nil); err != nil {
		return turn{}, err
	}
	// A new sink is given the newest event of every open purchase first.
	if err := w.receiver.call(ctx, "await", awaitArgs{Count: 1 << 30, Idle: 2 * time.Second}, nil); err != nil {
		return turn{}, err
	}
	herald := side{name: "herald", part: w.herald, envoy: w.heraldEnvoy}
	t, err := b.arrived(ctx, w, herald, count, rate)
	if err != nil {
		return turn{}, err
	}
	return t, w.herald.call(ctx, "undeliver", struct{}{}, nil)
}

// outage plays a receiver that is away while events come, and measures how long
// after its return it has had all of them.
func (b *bench) outage(ctx context.Context, w *world, hook string, rate float64) error {
	turns, away := 3, 20*time.Second
	if b.o.short {
		turns, away = 1, 5*time.Second
	}
	if err := w.herald.call(ctx, "deliver", deliverArgs{Hook: hook, InHand: b.inHand()}, nil); err != nil {
		return err
	}
	var f figures
	for range turns {
		if err := w.receiver.call(ctx, "reset", struct{}{}, nil); err != nil {
			return err
		}
		if err := w.receiver.call(ctx, "down", struct{}{}, nil); err != nil {
			return err
		}
		count := int(away.Seconds() * rate)
		if err := w.heraldEnvoy.call(ctx, "change", changeArgs{Count: count, Rate: rate}, nil); err != nil {
			return err
		}
		if err := w.receiver.call(ctx, "up", struct{}{}, nil); err != nil {
			return err
		}
		back := time.Now()
		if _, err := b.awaitAll(ctx, w, "herald", count); err != nil {
			return err
		}
		f.herald, f.floor = append(f.herald, time.Since(back).Seconds()), append(f.floor, away.Seconds())
	}
	one := row{Benchmark: "trouble", Figure: fmt.Sprintf("drained after %.0f s away", away.Seconds()), Unit: "s", Against: "the outage", Sense: atMost}
	if !b.o.short { // the next probe may be as far away as a short outage is long
		one.Target = 0.5
	}
	b.report.add(one, f)
	return w.herald.call(ctx, "undeliver", struct{}{}, nil)
}

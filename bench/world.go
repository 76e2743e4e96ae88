package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bench is one run: the servers that all benchmarks share and what was measured.
type bench struct {
	o      options
	stderr io.Writer
	report *report

	dir   string
	nats  *server
	redis *server
	nc    *nats.Conn
	js    jetstream.JetStream
	run   string // of this run, in keys and ids
	world *world // shared by watch, change and latency
	serie int
}

func newBench(ctx context.Context, o options, stderr io.Writer) (_ *bench, err error) {
	b := &bench{o: o, stderr: stderr, report: newReport(o.short), run: strconv.FormatInt(time.Now().UnixNano(), 36)}
	defer func() {
		if err != nil {
			b.close(context.WithoutCancel(ctx))
		}
	}()
	if o.profile != "" {
		if o.profile, err = filepath.Abs(o.profile); err != nil {
			return nil, fmt.Errorf("find folder for profiles: %w", err)
		}
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return nil, fmt.Errorf("make folder for profiles: %w", err)
		}
		b.o = o
	}
	if b.dir, err = os.MkdirTemp("", "herald-bench-*"); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	if b.nats, err = startNATS(ctx, b.dir); err != nil {
		return nil, err
	}
	if b.redis, err = startRedis(ctx, b.dir); err != nil {
		return nil, err
	}
	if b.nc, err = nats.Connect(b.nats.url); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if b.js, err = jetstream.New(b.nc, jetstream.WithPublishAsyncMaxPending(256)); err != nil {
		return nil, fmt.Errorf("set up jetstream: %w", err)
	}
	return b, nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.stderr, format+"\n", args...) }

// close ends everything that the run started.
func (b *bench) close(ctx context.Context) {
	b.leaveWorld()
	if b.nc != nil {
		b.nc.Close()
	}
	if b.redis != nil && b.redis.cmd == nil {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := wipeRedis(ctx, b.redis.url, b.prefix("")); err != nil {
			b.say("clean up redis: %v", err)
		}
	}
	b.redis.stop()
	b.nats.stop()
	if b.dir != "" {
		_ = os.RemoveAll(b.dir) // a temporary folder
	}
}

// prefix is what the keys of a world in Redis begin with.
func (b *bench) prefix(world string) string { return "herald-bench-" + b.run + world }

// connection is where a part finds the servers.
func (b *bench) connection(world string) connectArgs {
	return connectArgs{NATS: b.nats.url, Redis: b.redis.url, Prefix: b.prefix(world)}
}

// world is a cast of parts: product and floor, each with a stand-in of its own,
// and one receiver.
type world struct {
	herald, floor           *part
	heraldEnvoy, floorEnvoy *part
	receiver                *part
	all                     []*part
	name                    string
}

func (w *world) stop() {
	for i := len(w.all) - 1; i >= 0; i-- {
		w.all[i].stop()
	}
}

// newWorld starts product and floor, connected to NATS and Redis; streams of
// worlds before are removed.
func (b *bench) newWorld(ctx context.Context) (_ *world, err error) {
	for name := range b.js.StreamNames(ctx).Name() {
		if err := b.js.DeleteStream(ctx, name); err != nil {
			return nil, fmt.Errorf("remove stream %s: %w", name, err)
		}
	}
	b.serie++
	w := &world{name: "-" + strconv.Itoa(b.serie)}
	defer func() {
		if err != nil {
			w.stop()
		}
	}()
	for _, one := range []struct {
		role string
		part **part
	}{
		{roleEnvoy, &w.heraldEnvoy}, {roleEnvoy, &w.floorEnvoy}, {roleReceiver, &w.receiver},
		{roleHerald, &w.herald}, {roleFloor, &w.floor},
	} {
		if *one.part, err = startPart(one.role, b.stderr); err != nil {
			return nil, err
		}
		w.all = append(w.all, *one.part)
	}
	return w, errors.Join(
		w.herald.call(ctx, "connect", b.connection(w.name), nil),
		w.floor.call(ctx, "connect", b.connection(w.name), nil),
	)
}

// crowd is how many purchases a world has, and how they are watched.
type crowd struct {
	purchases   int
	connections int
	longest     time.Duration // of a hold; zero: as long as was asked for
	bare        bool          // the floor only holds and does not publish
}

// held is a crowd as far as product and floor hold it.
type held struct {
	crowd
	w           *world
	envoy       [2]prepared // for product and floor
	watched     int         // connections of the product
	floorsHolds int
}

// prepare makes the purchases of a crowd, held by nobody yet.
func (w *world) prepare(ctx context.Context, c crowd) (*held, error) {
	h := &held{crowd: c, w: w}
	for i, envoy := range []*part{w.heraldEnvoy, w.floorEnvoy} {
		if err := envoy.call(ctx, "prepare", prepareArgs{Purchases: c.purchases, Longest: c.longest}, &h.envoy[i]); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// fill has product and floor hold the purchases of so many connections.
func (h *held) fill(ctx context.Context, connections int) error {
	if err := h.fillFloor(ctx, connections*h.each()); err != nil {
		return err
	}
	return h.fillHerald(ctx, connections)
}

func (c crowd) each() int { return c.purchases / c.connections }

// fillHerald adds connections in waves. With the budget of a token lifted all of
// them would begin at once, which says nothing about holds.
func (h *held) fillHerald(ctx context.Context, connections int) error {
	const atOnce = 4000 // purchases
	for h.watched < connections {
		h.watched = min(h.watched+max(1, atOnce/h.each()), connections)
		a := watchArgs{Envoy: h.envoy[0].URL, Purchases: h.purchases, Connections: h.connections, First: h.watched}
		if err := h.w.herald.call(ctx, "watch", a, nil); err != nil {
			return err
		}
		if err := h.awaitHeld(ctx, h.w.heraldEnvoy, h.watched*h.each()); err != nil {
			return err
		}
	}
	return nil
}

// fillFloor opens the floor's holds a few at a time: net/http dials once for each
// request that finds no free stream, and a floor with idle connections would be
// none.
func (h *held) fillFloor(ctx context.Context, holds int) error {
	const atOnce = 50
	for h.floorsHolds < holds {
		a := holdArgs{Envoy: h.envoy[1].URL, From: h.floorsHolds, Purchases: min(atOnce, holds-h.floorsHolds), Publish: !h.bare}
		if err := h.w.floor.call(ctx, "hold", a, nil); err != nil {
			return err
		}
		h.floorsHolds += a.Purchases
		if err := h.awaitHeld(ctx, h.w.floorEnvoy, h.floorsHolds); err != nil {
			return err
		}
	}
	return nil
}

// errNotHeld says that a machine is too slow, or too busy, for so many holds.
var errNotHeld = errors.New("not all purchases are held")

// awaitHeld waits until nearly all of so many purchases are held. Some are always
// between two holds: the product pauses for up to a second when one has ended.
func (c crowd) awaitHeld(ctx context.Context, envoy *part, count int) error {
	turnover := 45 * time.Second
	if c.longest > 0 {
		turnover = c.longest
	}
	between := 1 + int(float64(count)*1.2/turnover.Seconds())
	limit := time.Minute + time.Duration(count)*2*time.Millisecond
	return await(ctx, limit, "open holds", func() error {
		n := 0
		if err := envoy.call(ctx, "held", struct{}{}, &n); err != nil {
			return err
		}
		if n < count-between {
			return fmt.Errorf("%w: %d of %d", errNotHeld, n, count)
		}
		return nil
	})
}

// shared gives the world of watch, change and latency.
func (b *bench) shared(ctx context.Context) (*world, error) {
	if b.world != nil {
		return b.world, nil
	}
	c := crowd{purchases: 2000, connections: 50}
	if b.o.short {
		c = crowd{purchases: 1000, connections: 25}
	}
	w, err := b.newWorld(ctx)
	if err != nil {
		return nil, err
	}
	h, err := w.prepare(ctx, c)
	if err == nil {
		err = h.fill(ctx, c.connections)
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	b.say("  %d purchases are held on %d connections", c.purchases, c.connections)
	b.world = w
	return w, nil
}

func (b *bench) leaveWorld() {
	if b.world != nil {
		b.world.stop()
		b.world = nil
	}
}

// used is what a part has used.
func used(ctx context.Context, p *part) (usage, error) {
	var u usage
	err := p.call(ctx, "usage", usageArgs{}, &u)
	return u, err
}

// profiled runs f while the CPU profile of a part is written, if that is wanted.
func (b *bench) profiled(ctx context.Context, p *part, name string, f func() error) error {
	if b.o.profile == "" {
		return f()
	}
	file := filepath.Join(b.o.profile, name+".pprof")
	if err := p.call(ctx, "profile", profileArgs{File: file}, nil); err != nil {
		return err
	}
	return errors.Join(f(), p.call(ctx, "profile", profileArgs{}, nil))
}

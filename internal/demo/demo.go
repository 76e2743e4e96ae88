// Package demo runs the whole product in one process against stand-ins: Envoy
// with its people, Slack, a mailbox and a webhook receiver. It shows what
// happens as it happens, and at the end holds the promises against what really
// was: the stand-ins know the truth.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/telemetry"
)

// Options shape a demo.
type Options struct {
	For     time.Duration // how long in all; zero: until ctx ends
	JSON    bool          // one line of JSON at the end instead of the live view and the summary
	Out     io.Writer
	Seed    uint64 // of the simulated people; zero: another one each time
	Version string
	Page    func(ctx context.Context, url string) error // shows the operator page to who watches, until ctx ends; nil: its address is said
}

// ErrBroken says that a promise did not hold; the summary names it.
var ErrBroken = errors.New("a promise was broken")

// Shortest is the least time in which a purchase can be found, change and be told of.
const Shortest = 8 * time.Second

// Run runs the demo and reports whether every promise held.
func Run(ctx context.Context, o Options) error {
	// A reader that goes away, as head does, ends the demo as an interrupt would.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.Out = &tap{to: o.Out, gone: cancel}
	dir, err := os.MkdirTemp("", "herald-demo-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	st, err := newStage(ctx, dir, o.Seed, "")
	if err != nil {
		return err
	}
	defer st.close()
	s, err := play(ctx, o, st, dir)
	if errors.Is(err, context.Canceled) {
		return nil // interrupted before it began: nothing was promised yet
	}
	if err != nil {
		return err
	}
	if o.JSON {
		if err := json.NewEncoder(o.Out).Encode(s); err != nil {
			return fmt.Errorf("write summary: %w", err)
		}
	} else {
		s.print(o.Out)
	}
	if len(s.Broken) > 0 {
		return fmt.Errorf("%w: %s", ErrBroken, s.Broken[0])
	}
	return nil
}

// play runs Herald on a stage and judges it.
func play(ctx context.Context, o Options, st *stage, dir string) (*summary, error) {
	cfg, err := config.Load(st.file)
	if err != nil {
		return nil, fmt.Errorf("load the demo's own configuration: %w", err)
	}
	logs := &buffer{}
	a, err := app.New(ctx, app.Options{
		Config: cfg, Role: config.RoleHerald, Version: o.Version,
		Log: telemetry.NewLogger(logs, "debug", "json"),
	})
	if err != nil {
		return nil, err
	}
	s, err := perform(ctx, o, st, a)
	if err != nil {
		return nil, fmt.Errorf("run demo: %w\n%s", err, logs.tail())
	}
	s.judge(st, evidence{
		documents: s.documents, logs: logs.bytes(), registry: a.Registry(), data: filepath.Join(dir, "data"),
	})
	return s, nil
}

// perform lets people shop for most of the time, freezes them, waits until what
// they did has been told, and stops everything.
func perform(ctx context.Context, o Options, st *stage, a *app.App) (*summary, error) {
	show, end := durations(o.For)
	life, stopLife := context.WithCancel(ctx)
	defer stopLife()
	running, stopRunning := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRunning()
	var wg sync.WaitGroup
	var appErr error
	failed := make(chan struct{})
	wg.Go(func() {
		defer close(failed)
		appErr = a.Run(running)
	})
	stop := func() { stopLife(); stopRunning(); wg.Wait() }
	select {
	case <-a.Ready():
	case <-failed:
		return nil, appErr
	case <-ctx.Done():
		stop()
		return nil, ctx.Err()
	}
	v := newView(o, st)
	watching, stopWatching := context.WithCancel(running)
	defer stopWatching()
	wg.Go(func() { v.follow(watching, "http://"+a.Addr()) })
	wg.Go(func() { v.refresh(watching) })
	wg.Go(func() { _ = st.sim.Run(life) })
	v.begin()
	v.say("the operator page: http://" + a.Addr() + "/")
	if o.Page != nil {
		wg.Go(func() {
			if err := o.Page(watching, "http://"+a.Addr()+"/"); err != nil && watching.Err() == nil {
				v.say(err.Error())
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-failed:
	case <-after(show):
	}
	stopLife()
	v.say("people have stopped shopping; waiting until all they did is told")
	// An interrupt ends the shopping, not the telling; a second one ends the process.
	v.settle(context.WithoutCancel(ctx), end)
	stopWatching()
	stop()
	return v.summary(), appErr
}

// tap passes output on until nobody takes it.
type tap struct {
	to   io.Writer
	gone func()
}

// Write passes on; a failure is told once and then forgotten.
func (t *tap) Write(p []byte) (int, error) {
	if _, err := t.to.Write(p); err != nil {
		t.gone()
	}
	return len(p), nil
}

// durations splits the time of a demo: while people shop, and how much longer
// telling the rest may take.
func durations(all time.Duration) (show, end time.Duration) {
	const settle = 8 * time.Second
	const patience = 25 * time.Second
	switch {
	case all <= 0:
		return 0, patience
	case all > 2*settle:
		return all - settle, patience
	}
	return all / 2, patience
}

// after is a channel that never fires for zero.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// buffer keeps all log lines, so that they can be searched for canaries.
type buffer struct {
	mu sync.Mutex
	b  []byte
}

// Write appends.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = append(b.b, p...)
	return len(p), nil
}

func (b *buffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]byte(nil), b.b...)
}

func (b *buffer) tail() string {
	all := b.bytes()
	return string(all[max(0, len(all)-2000):])
}

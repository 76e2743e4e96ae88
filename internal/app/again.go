package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// errBeginAgain ends an App whose embedded server cannot go on and would after a new start.
var errBeginAgain = errors.New("the embedded NATS server stores nothing although there is room")

const (
	mendLook  = 5 * time.Second
	mendAfter = 30 * time.Second // that nothing could be stored for
	mendRoom  = 16 << 20         // bytes that must fit on the disk
)

// runAgain runs a process until it ends for good. A server in this process that had a full disk under it stores nothing
// any more, also when there is room again; only a new start helps, and everything else is begun with it.
func runAgain(ctx context.Context, o Options) error {
	for {
		a, err := New(ctx, o)
		if err != nil {
			return err
		}
		if err = a.Run(ctx); !errors.Is(err, errBeginAgain) {
			return err
		}
		o.Log.Warn("beginning again", "why", err)
		o.Config = a.wiring().cfg // as it was reloaded
	}
}

// mend looks whether the embedded server can still store, and asks for a new start once it cannot although the disk has
// room.
func mend(ctx context.Context, healthy func() error, room func() error, again func(error)) error {
	tick := time.NewTicker(mendLook)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := healthy()
		switch {
		case err == nil:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= mendAfter && room() == nil:
			again(fmt.Errorf("%w: %s", errBeginAgain, err.Error())) // what it says, not what it is: nobody was asked to end
			<-ctx.Done()
			return nil
		}
	}
}

// mending is the loop that mends this process, where there is something to mend.
func (a *App) mending(st *stores, again func(error)) []loop {
	if a.Config.NATS.URL != "" {
		return nil
	}
	room := func() error { return roomIn(a.Config.DataDir, a.Log) }
	return []loop{{"embedded nats", func(ctx context.Context) error { return mend(ctx, st.bus.Healthy, room, again) }}}
}

// roomIn tries whether something fits on the disk under a folder.
func roomIn(dir string, log *slog.Logger) error {
	f, err := os.CreateTemp(dir, ".room-*")
	if err != nil {
		return fmt.Errorf("try the room in data_dir: %w", err)
	}
	defer func() {
		_ = f.Close()
		if err := os.Remove(f.Name()); err != nil {
			log.Warn("file that tried the room is left behind", "file", f.Name(), "err", err)
		}
	}()
	piece := make([]byte, 1<<20)
	for range mendRoom / len(piece) {
		if _, err := f.Write(piece); err != nil {
			return fmt.Errorf("try the room in data_dir: %w", err)
		}
	}
	return f.Sync()
}

package stream_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

// The server goes away while 20 purchases change; nothing is lost or doubled.
func TestB24_Outage(t *testing.T) {
	srv := natstest.Start(t)
	var said journal
	b := open(t, stream.Options{URL: srv.URL(), MaxBytes: 64 << 20, Log: said.logger()})
	o := own(t, b.Consumer("orders"), stream.StartResume)
	feed(t, b, 0, 5)
	o.take(5)
	srv.Stop()
	eventually(t, "the loss is seen", func() bool { return b.Healthy() != nil })

	var group sync.WaitGroup
	for i := range 20 {
		if _, err := b.Publish(t.Context(), reading(i+100, 0, 1, 0), 0); err == nil {
			t.Fatal("a publish without a server says that it is done")
		}
		group.Go(func() { // as a watcher does: the same event until it is done
			eventually(t, "the event is stored", func() bool {
				_, err := b.Publish(t.Context(), reading(i+100, 0, 1, 0), 0)
				return err == nil
			})
		})
	}
	srv.Restart()
	group.Wait()
	got := make(map[string]int)
	for _, id := range o.take(20) {
		got[id]++
	}
	for i := range 20 {
		if n := got[reading(i+100, 0, 1, 0).ID]; n != 1 {
			t.Errorf("purchase %d came %d times", i+100, n)
		}
	}
	o.none()
	must(t, b.Healthy())
	if said.count("connection to nats is lost") != 1 || said.count("connection to nats is back") != 1 {
		t.Errorf("want one line per change, got:\n%s", said.String())
	}
}

// The server is down when the product starts.
func TestB24_DownAtStart(t *testing.T) {
	srv := natstest.Start(t)
	srv.Stop()
	var said journal
	opts := stream.Options{URL: srv.URL(), MaxBytes: 64 << 20, Log: said.logger()}
	opened := make(chan error, 1)
	go func() {
		b, err := stream.Open(t.Context(), opts)
		if err == nil {
			_, err = b.Publish(t.Context(), reading(1, 0, 1, 0), 0)
			err = errors.Join(err, b.Close(context.Background()))
		}
		opened <- err
	}()
	eventually(t, "a line about the server being away", func() bool { return said.count("out of reach") > 0 })
	srv.Restart()
	must(t, <-opened)
	if said.count("out of reach") != 1 || said.count("nats is reachable") != 1 {
		t.Errorf("want one line per change, got:\n%s", said.String())
	}

	srv.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stream.Open(ctx, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("told to stop while waiting: %v", err)
	}
}

// The server's process is killed while events are published and consumed: every
// acknowledged one is there afterwards, once, in order.
func TestKilledServerLosesNothingAcknowledged(t *testing.T) {
	srv := natstest.Process(t)
	b := openURL(t, srv.URL())
	o := own(t, b.Consumer("orders"), stream.StartResume)
	const purchases, revisions = 4, 30
	var group sync.WaitGroup
	for p := range purchases {
		group.Go(func() {
			var after uint64
			for r := range int64(revisions) {
				eventually(t, "the event is stored", func() bool {
					seq, err := b.Publish(t.Context(), reading(p, 0, r+1, 0), after)
					if err == nil {
						after = seq
					}
					return err == nil
				})
			}
		})
	}
	last := make(map[string]int64)
	taken := func() int64 {
		env, msg := o.next()
		_ = msg.Ack() // one that is lost comes again
		id, revision := env.Event.Subject, env.Event.Purchase.Reading.Revision
		if revision > last[id]+1 {
			t.Errorf("%s: revision %d comes after %d", id, revision, last[id])
		}
		last[id] = max(last[id], revision) // less: a repeat, which the receiver absorbs
		return revision
	}
	for range 20 {
		taken()
	}
	srv.Kill()
	srv.Start()
	for p := range purchases {
		for last[purchaseID(p)] < revisions {
			taken()
		}
	}
	group.Wait()
	for p := range purchases {
		var want int64 = 1
		for env, err := range b.History(t.Context(), purchaseID(p)) {
			must(t, err)
			if got := env.Event.Purchase.Reading.Revision; got != want {
				t.Fatalf("purchase %d: revision %d is stored where %d belongs", p, got, want)
			}
			want++
		}
		if want != revisions+1 {
			t.Errorf("purchase %d: %d events are stored, want %d", p, want-1, revisions)
		}
	}
}

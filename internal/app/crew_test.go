package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
)

// yard is a crew with the sinks "stays" and "leaves". Three events are for the
// second one, whose first try waits at the receiver until it is let go.
type yard struct {
	t     *testing.T
	a     *App
	st    *stores
	hook  *receiver
	said  journal
	crew  *crew
	letGo func()
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{t: t, hook: newReceiver(t)}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), hookSecret)
	block := `  - { name: %s, webhook: { url: "` + y.hook.server.URL + `", secrets: ["file:key"], allow_cidrs: [127.0.0.0/8], timeout: 60s }, concurrency: 1 }` + "\n"
	write(t, filepath.Join(dir, "herald.yaml"), "sinks:\n"+fmt.Sprintf(block, "stays")+fmt.Sprintf(block, "leaves")+
		"subscriptions:\n  - { name: all, match: 'true', sinks: [leaves] }\n")
	a, bus := newNotifier(t, filepath.Join(dir, "herald.yaml"), slog.New(slog.NewTextHandler(&y.said, nil)))
	y.a = a
	kv, err := dedupe.OpenKV(t.Context(), bus.JetStream(), dedupe.KVOptions{})
	if err != nil {
		t.Fatal(err)
	}
	y.st = &stores{bus: bus, state: kv, leases: dedupe.Sole{}}
	y.place("leaves")
	for i := range 3 {
		e := events.Samples()[3]
		p := *e.Purchase
		e.Subject = fmt.Sprintf("pur_%032x", i)
		e.ID, p.ChainRoot, e.Purchase = events.EventID(e.Subject, events.Position{Revision: p.Reading.Revision}), e.Subject, &p
		if _, err := bus.Publish(t.Context(), e, 0); err != nil {
			t.Fatal(err)
		}
	}
	return y
}

// place makes the consumer of a sink that is not new.
func (y *yard) place(sink string) {
	y.t.Helper()
	c := y.st.bus.Consumer(sink)
	if err := c.Begin(y.t.Context(), stream.StartResume); err != nil {
		y.t.Fatal(err)
	}
	c.Stop()
}

func (y *yard) loops() []*deliver.Loop {
	y.t.Helper()
	loops, err := y.a.buildLoops(y.t.Context(), y.a.wiring(), y.st, func() []events.Silence { return nil })
	if err != nil {
		y.t.Fatal(err)
	}
	return loops
}

// run begins, and waits until the first try is at the receiver.
func (y *yard) run() {
	y.t.Helper()
	held := make(chan struct{})
	y.letGo = sync.OnceFunc(func() { close(held) })
	y.hook.answers(http.StatusNoContent, held)
	y.crew = newCrew(y.a, y.st, y.loops())
	ctx, cancel := context.WithCancel(y.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = y.crew.run(ctx) })
	y.t.Cleanup(func() { y.letGo(); cancel(); running.Wait(); y.a.notices.Wait() })
	poll(y.t, "a try is under way", func() bool { return len(y.tries()) > 0 })
}

// tries are the ids of the events that the receiver was given, in order.
func (y *yard) tries() (ids []string) {
	y.hook.mu.Lock()
	defer y.hook.mu.Unlock()
	for _, h := range y.hook.got {
		ids = append(ids, h.Get("webhook-id"))
	}
	return ids
}

// keeps asks for how long the server keeps a sink's place while nobody takes it up.
func (y *yard) keeps(sink string, want time.Duration) func() bool {
	return func() bool {
		cons, err := y.st.bus.JetStream().Consumer(y.t.Context(), events.StreamPurchases, sinkConsumer+sink)
		return err == nil && cons.CachedInfo().Config.InactiveThreshold == want
	}
}

// A sink that left the configuration ends what it has in hand, is named with its
// backlog, and keeps its place for a day; likewise one that left while nobody ran.
func TestSinksThatLeftKeepTheirPlaceForADay(t *testing.T) {
	y := newYard(t)
	y.place("left-before")
	y.run()
	poll(t, "the one that left before is kept for a day", y.keeps("left-before", 24*time.Hour))
	staying := slices.DeleteFunc(y.loops(), func(l *deliver.Loop) bool { return l.Status().Name == "leaves" })
	if err := y.crew.replace(t.Context(), staying); err != nil {
		t.Fatal(err)
	}
	y.letGo()
	poll(t, "the one that left now is kept for a day", y.keeps("leaves", 24*time.Hour))
	poll(t, "it has settled what was under way", func() bool {
		floor, err := y.st.bus.Consumer("leaves").Floor(t.Context())
		return err == nil && floor == 1
	})
	poll(t, "the one that stays has begun", y.keeps("stays", 0))
	if n := len(y.tries()); n != 1 {
		t.Errorf("%d tries, want the one that was under way", n)
	}
	for _, want := range []string{"sink=left-before backlog=3", "sink=leaves backlog="} {
		poll(t, want+" is said", func() bool { return y.said.has(want) })
	}
}

// After a reload a sink goes on once its loop before has ended what it had in hand:
// there are never two of them.
func TestReloadedSinkWaitsForTheOneBefore(t *testing.T) {
	y := newYard(t)
	y.run()
	for range 2 {
		if err := y.crew.replace(t.Context(), y.loops()); err != nil {
			t.Fatal(err)
		}
	}
	select { // long enough for one that does not wait
	case <-time.After(time.Second):
	case <-t.Context().Done():
	}
	if got := y.tries(); len(got) != 1 {
		t.Errorf("%v while the first try was under way", got)
	}
	y.letGo()
	poll(t, "everything is delivered", func() bool { return len(y.tries()) >= 3 })
	poll(t, "everything is settled", func() bool {
		floor, err := y.st.bus.Consumer("leaves").Floor(t.Context())
		return err == nil && floor == 3
	})
	got := y.tries()
	if slices.Sort(got); len(slices.Compact(got)) != 3 || len(y.tries()) != 3 {
		t.Errorf("delivered %v", y.tries())
	}
}

// journal is a log that a test reads while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), text)
}

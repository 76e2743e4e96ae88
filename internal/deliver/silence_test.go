package deliver_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/redistest"
	"github.com/heraldbridge/herald/internal/route"
)

// silenceStore is where processes keep silences.
type silenceStore interface {
	Silences(ctx context.Context) ([]events.Silence, error)
	PutSilence(ctx context.Context, s events.Silence) error
	DeleteSilence(ctx context.Context, id string) error
}

// A silence that one process takes holds at the sinks of all, and so does its
// end; both stores carry it.
func TestSilenceReachesEveryNotifier(t *testing.T) {
	for _, name := range []string{"redis", "key-value"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var store silenceStore = r.state
			if name == "redis" {
				rd, err := dedupe.OpenRedis(t.Context(), dedupe.RedisOptions{URL: redistest.Own(t).URL()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = rd.Close() })
				store = rd
			}
			var told [2]*receiver
			for i, sink := range []string{"ops", "desk"} {
				told[i] = &receiver{}
				o := r.options(sink, told[i])
				o.Silences = reading(t, store)
				set, err := route.Compile([]route.Spec{{Name: "all", Match: "true", Repeat: 50 * time.Millisecond, Sinks: []string{sink}}})
				if err != nil {
					t.Fatal(err)
				}
				o.Set = set
				r.run(o)
			}
			r.publish(0, 1)
			more := func() bool {
				before := [2]int{told[0].tried(), told[1].tried()}
				<-time.After(500 * time.Millisecond) // ten reminders
				return told[0].tried() > before[0] && told[1].tried() > before[1]
			}
			none := func() bool {
				before := [2]int{told[0].tried(), told[1].tried()}
				<-time.After(500 * time.Millisecond)
				return told[0].tried() == before[0] && told[1].tried() == before[1]
			}
			eventually(t, "both are reminded", more)
			must(t, store.PutSilence(t.Context(), events.Silence{ID: "s-1", Match: "true", Until: time.Now().Add(time.Hour), Why: "known"}))
			eventually(t, "neither is reminded", none)
			must(t, store.DeleteSilence(t.Context(), "s-1"))
			eventually(t, "both are reminded again", more)
		})
	}
}

// reading gives the silences as a process has them: read once a second.
func reading(t *testing.T, store silenceStore) func() []events.Silence {
	var now atomic.Pointer[[]events.Silence]
	now.Store(&[]events.Silence{})
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if list, err := store.Silences(ctx); err == nil {
				now.Store(&list)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() { cancel(); looking.Wait() })
	return func() []events.Silence { return *now.Load() }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

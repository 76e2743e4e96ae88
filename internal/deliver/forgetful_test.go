package deliver_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/sinks"
)

// forgetful is a server that is killed and comes back as it was a while before.
type forgetful struct {
	*rig
	srv  *natstest.Proc
	kept string // an older copy of what it had stored
}

func newForgetful(t *testing.T) *forgetful {
	srv := natstest.Process(t)
	return &forgetful{rig: newRigAt(t, srv.URL()), srv: srv, kept: t.TempDir()}
}

// keep copies what a folder of the running server's store holds now.
func (f *forgetful) keep(folder string) {
	f.t.Helper()
	must(f.t, os.CopyFS(f.kept, os.DirFS(filepath.Join(f.srv.Dir(), folder))))
}

// relapse kills the server and starts it with the older copy of the folder.
func (f *forgetful) relapse(folder string) {
	f.t.Helper()
	f.srv.Kill()
	at := filepath.Join(f.srv.Dir(), folder)
	must(f.t, os.RemoveAll(at))
	must(f.t, os.CopyFS(at, os.DirFS(f.kept)))
	f.srv.Start()
	eventually(f.t, "the streams again", func() bool { return f.bus.Healthy() == nil })
}

// consumerFolder is where the server keeps the state of a sink's consumer.
func (f *forgetful) consumerFolder(sink string) string {
	f.t.Helper()
	found := ""
	must(f.t, filepath.WalkDir(f.srv.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "sink_"+sink {
			found, err = filepath.Rel(f.srv.Dir(), path)
		}
		return err
	}))
	if found == "" {
		f.t.Fatal("the server keeps no state of the consumer")
	}
	return found
}

// floor is up to where the server knows that everything is settled.
func (f *forgetful) floor(sink string) uint64 {
	f.t.Helper()
	at, err := f.bus.Consumer(sink).Floor(f.t.Context())
	must(f.t, err)
	return at
}

// judge compares the receiver, the dead letters and the standings with what was
// published: each event is accepted or a letter, never both, never neither.
func (f *forgetful) judge(sink string, got *receiver, published []string, mayRepeat int) {
	f.t.Helper()
	counts, dead := got.counts(), map[string]int{}
	for d, err := range f.bus.Dead(f.t.Context(), sink) {
		must(f.t, err)
		dead[d.EventID]++
	}
	for _, id := range published {
		if counts[id] == 0 && dead[id] == 0 {
			f.t.Errorf("%s is lost", id)
		}
		if counts[id] > 0 && dead[id] > 0 || dead[id] > 1 {
			f.t.Errorf("%s was accepted %d times and lies among the dead %d times", id, counts[id], dead[id])
		}
	}
	for id := range maps.Keys(counts) {
		if !slices.Contains(published, id) {
			f.t.Errorf("%s was never published", id)
		}
	}
	if n := inOrder(f.t, got.accepted()); n > mayRepeat {
		f.t.Errorf("%d repeats, at most %d may be", n, mayRepeat)
	}
	keys := slices.Sorted(maps.Keys(f.last))
	said, err := f.state.Standings(f.t.Context(), sink, keys)
	must(f.t, err)
	for _, key := range keys {
		if st := said[key]; st.Settled != f.last[key] || len(st.Tries) != 0 {
			f.t.Errorf("%s: the standing says %+v, its newest event is %d", key, st, f.last[key])
		}
	}
}

// The server forgets the acknowledgements of its last seconds, as one does that is
// killed before it has written them. The standings know better.
func TestJetStream_KilledServerForgetsAcknowledgements(t *testing.T) {
	for name, restarted := range map[string]bool{"the owner lives on": false, "another owner comes": true} {
		t.Run(name, func(t *testing.T) {
			f := newForgetful(t)
			sink := &receiver{answer: func(n sinks.Notification) error {
				if strings.HasSuffix(n.Event.Subject, "5") { // of each revision one is buried
					return &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender}
				}
				return nil
			}}
			var published []string
			publish := func(revision int64) {
				for p := range 8 {
					published = append(published, f.publish(p, revision))
				}
				f.settled("orders")
			}
			stop := f.run(f.options("orders", sink))
			publish(1)
			folder := f.consumerFolder("orders")
			f.keep(folder)
			before := f.floor("orders")
			for revision := range int64(5) {
				publish(revision + 2)
			}
			said := len(sink.accepted())
			if restarted {
				stop()
			}
			f.relapse(folder)
			if restarted {
				if at := f.floor("orders"); at > before {
					t.Fatalf("the server has forgotten nothing: it knows %d, the copy %d", at, before)
				}
				f.run(f.options("orders", sink))
			}
			f.settled("orders")
			f.judge("orders", sink, published, 0)
			if n := len(sink.accepted()); n != said {
				t.Errorf("%d accepted, %d after the kill", said, n-said)
			}
			publish(7)
			f.judge("orders", sink, published, 0)
		})
	}
}

// The whole store is an older one: what was stored since is gone, and the server
// gives the same numbers to other events. They are news.
func TestJetStream_KilledServerForgetsEvents(t *testing.T) {
	for name, restarted := range map[string]bool{"the owner lives on": false, "another owner comes": true} {
		t.Run(name, func(t *testing.T) {
			f := newForgetful(t)
			sink := &receiver{}
			o := f.options("orders", sink)
			o.Standings = &remembering{data: map[string]events.Standing{"_sink": {LastTime: time.Now()}}}
			stop := f.run(o)
			for p := range 8 {
				f.publish(p, 1)
			}
			f.settled("orders")
			last := maps.Clone(f.last)
			f.keep("")
			for revision := range int64(5) {
				for p := range 8 {
					f.publish(p, revision+2)
				}
			}
			f.settled("orders")
			if restarted {
				stop()
			}
			f.relapse("")
			if restarted {
				f.run(o)
			}
			f.last = last
			var want []string
			for p := range 8 {
				want = append(want, f.publish(p, 7))
			}
			f.settled("orders")
			for _, id := range want {
				if n := sink.counts()[id]; n != 1 {
					t.Errorf("%s accepted %d times", id, n)
				}
			}
		})
	}
}

// remembering keeps standings out of the server's reach.
type remembering struct {
	mu   sync.Mutex
	data map[string]events.Standing
}

func (r *remembering) Standings(_ context.Context, _ string, keys []string) (map[string]events.Standing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]events.Standing{}
	for _, key := range keys {
		if st, ok := r.data[key]; ok {
			out[key] = st
		}
	}
	return out, nil
}

func (r *remembering) PutStandings(_ context.Context, _ string, m map[string]events.Standing) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.data, m)
	return nil
}

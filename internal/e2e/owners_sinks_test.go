package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
)

// sinks writes the configuration of notifiers with n webhooks at one receiver.
func (w *world) sinks(n int) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, "sinks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.write(dir, "hook", "whsec_"+base64.StdEncoding.EncodeToString([]byte(hookSecret)))
	var b, names strings.Builder
	fmt.Fprintf(&b, `nats: { url: %q }
redis: { url: %q }
data_dir: %s/data
http: { listen: "127.0.0.1:0" }
log: { level: info, format: json }
shutdown_grace: 5s
sinks:
`, w.nats.URL(), w.redis.URL(), dir)
	for i := range n {
		fmt.Fprintf(&b, "  - { name: sink-%d, webhook: { url: %q, secrets: [\"file:hook\"], allow_cidrs: [127.0.0.0/8], timeout: 5s } }\n",
			i, w.hook.URL(fmt.Sprintf("/sink-%d", i)))
		fmt.Fprintf(&names, "sink-%d, ", i)
	}
	fmt.Fprintf(&b, `subscriptions:
  - { name: hanging, match: 'merchant.name == "Hanging"', for: 3s, repeat: %[2]s, sinks: [%[1]s] }
  - { name: all, match: "true", sinks: [%[1]s] }
`, strings.TrimSuffix(names.String(), ", "), hangRepeat)
	return w.write(dir, "herald.yaml", b.String())
}

// hangRepeat is the pause between two reminders of a purchase that hangs.
const hangRepeat = 20 * time.Second

// hang publishes purchases that hang until the end of the test.
func (w *world) hang(n int) (ids []string) {
	w.t.Helper()
	bus, err := stream.Open(w.t.Context(), stream.Options{URL: w.nats.URL(), Name: "hang"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer bus.Close(context.WithoutCancel(w.t.Context()))
	samples := events.Samples()
	open := slices.IndexFunc(samples, func(e events.Event) bool {
		return e.Type == events.TypeChanged && e.Purchase.Unsettled && !e.Purchase.Terminal
	})
	for i := range n {
		e := samples[open]
		q := *e.Purchase
		e.Subject = fmt.Sprintf("pur_ffff%028x", i)
		q.ChainRoot, q.Reading.Revision, q.Merchant.Name = e.Subject, 1, "Hanging"
		e.ID, e.Purchase = events.EventID(e.Subject, events.Position{Revision: 1}), &q
		if _, err := bus.Publish(w.t.Context(), e, 0); err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, e.Subject)
	}
	return ids
}

// checkAlarms sees that each alarm was told once by each sink, and each reminder once and at its time; twice only what was
// under way at a fault. It gives the number of reminders.
func (w *world) checkAlarms(ids []string, n int, faults []time.Time, slack time.Duration) (reminders int) {
	w.t.Helper()
	said := map[string]time.Time{}   // sink and webhook-id
	latest := map[string]time.Time{} // sink and purchase
	opened := map[string]bool{}
	for _, r := range w.hook.Received() {
		kind := r.Header.Get("Herald-Kind")
		if r.Status/100 != 2 || kind == "" {
			continue
		}
		e, err := events.Decode(bytes.TrimSpace(r.Body))
		if err != nil {
			w.t.Fatal(err)
		}
		one, about := r.Path+" "+kind+" "+r.Header.Get("webhook-id"), r.Path+" "+e.Subject
		if before, again := said[one]; again {
			if !slices.ContainsFunc(faults, func(f time.Time) bool { return before.Sub(f).Abs() < slack }) {
				w.t.Errorf("%s at %s and at %s, at no fault", one, before, r.At)
			}
			continue
		}
		said[one] = r.At
		if kind == "remind" {
			reminders++
			if gap := r.At.Sub(latest[about]); gap < hangRepeat*3/4 {
				w.t.Errorf("%s: reminded %s after it was last told", about, gap)
			}
		} else {
			if opened[about] {
				w.t.Errorf("%s: told twice as %s", about, kind)
			}
			opened[about] = true
		}
		latest[about] = r.At
	}
	if len(opened) != len(ids)*n {
		w.t.Errorf("%d alarms of %d were told", len(opened), len(ids)*n)
	}
	return reminders
}

// press publishes changes of purchases until it is stopped.
type press struct {
	stop func()
	mu   sync.Mutex
	ids  []string // of events, in the order of the stream
}

func (w *world) press(purchases int, every time.Duration) *press {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	bus, err := stream.Open(ctx, stream.Options{URL: w.nats.URL(), Name: "press"})
	if err != nil {
		w.t.Fatal(err)
	}
	p := &press{}
	var running sync.WaitGroup
	running.Go(func() {
		last := map[string]uint64{}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			e := events.Samples()[3]
			q := *e.Purchase
			e.Subject = fmt.Sprintf("pur_%032x", i%purchases)
			q.ChainRoot, q.Reading.Revision = e.Subject, int64(i/purchases+1)
			e.ID, e.Purchase = events.EventID(e.Subject, events.Position{Revision: q.Reading.Revision}), &q
			seq, err := bus.Publish(context.WithoutCancel(ctx), e, last[e.Subject])
			if err != nil {
				w.t.Errorf("publish: %v", err)
				return
			}
			last[e.Subject] = seq
			p.mu.Lock()
			p.ids = append(p.ids, e.ID)
			p.mu.Unlock()
		}
	})
	p.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		_ = bus.Close(context.WithoutCancel(ctx))
	})
	w.t.Cleanup(p.stop)
	return p
}

func (p *press) printed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ids)
}

// taken gives what each sink's receiver accepted, in order.
func (w *world) taken() map[string][]taking {
	out := map[string][]taking{}
	for _, r := range w.hook.Received() {
		if r.Status/100 != 2 || r.Header.Get("Herald-Kind") != "" {
			continue
		}
		e, err := events.Decode(bytes.TrimSpace(r.Body))
		if err != nil {
			w.t.Fatal(err)
		}
		out[r.Path] = append(out[r.Path], taking{e.ID, e.Subject, e.Purchase.Reading.Revision, r.At})
	}
	return out
}

type taking struct {
	id, purchase string
	revision     int64
	at           time.Time
}

// More faults than usual: go test -run TestNotifiersShareSinks -faults 20.
var faultCount = flag.Int("faults", 6, "how often a notifier is killed or stopped")

// Three notifiers share ten sinks. Again and again one is killed, or stopped for longer
// than its leases last and let go on.
func TestNotifiersShareSinks(t *testing.T) {
	const n, slack = 10, 2 * time.Second
	w := newWorld(t)
	f := &fleet{w: w, program: "notifier", file: w.sinks(n)}
	for range 3 {
		f.add()
	}
	f.owned("three notifiers", settledIn, n, 4, nil)
	hanging := w.hang(5)
	p := w.press(20, 50*time.Millisecond)
	var faults []time.Time
	for i := range *faultCount {
		faults = append(faults, time.Now())
		if i%2 == 0 {
			f.kill(0)
			f.owned("one killed", followed, n, n, nil)
			f.add()
		} else {
			victim := f.live[0]
			victim.signal(syscall.SIGSTOP)
			f.live = f.live[1:]
			f.owned("one stopped", followed, n, n, nil)
			victim.signal(syscall.SIGCONT)
			f.live = append(f.live, victim)
		}
		f.owned("three again", settledIn, n, 4, nil)
	}
	p.stop()
	printed := p.printed()
	await(t, 60*time.Second, "everything is delivered", func() bool {
		got := w.taken()
		for i := range n {
			if len(unique(got[fmt.Sprintf("/sink-%d", i)])) < len(printed) {
				return false
			}
		}
		return true
	}, f.live[0].out.String)
	repeats := 0
	for sink, list := range w.taken() {
		repeats += check(t, sink, list, faults, slack)
	}
	reminders := w.checkAlarms(hanging, n, faults, slack)
	t.Logf("%d events to %d sinks over %d faults: %d deliveries, %d alarms, %d reminders, %d repeated at a fault",
		len(printed), n, len(faults), len(printed)*n, len(hanging)*n, reminders, repeats)
	if limit := 16 * len(faults); repeats > limit { // what can be under way at one process
		t.Errorf("%d repeats, more than can have been under way", repeats)
	}
}

func unique(list []taking) map[string]bool {
	out := map[string]bool{}
	for _, one := range list {
		out[one.id] = true
	}
	return out
}

// check sees that no purchase goes back, and that nothing is accepted twice but
// what was under way at a fault. It gives the number of those.
func check(t *testing.T, sink string, list []taking, faults []time.Time, slack time.Duration) (repeats int) {
	t.Helper()
	newest, first := map[string]int64{}, map[string]time.Time{}
	for _, one := range list {
		if one.revision < newest[one.purchase] {
			t.Errorf("%s: revision %d of %s came after %d", sink, one.revision, one.purchase, newest[one.purchase])
		}
		newest[one.purchase] = one.revision
		before, again := first[one.id]
		if !again {
			first[one.id] = one.at
			continue
		}
		repeats++
		if !slices.ContainsFunc(faults, func(f time.Time) bool { return before.Sub(f).Abs() < slack }) {
			t.Errorf("%s: %s was accepted at %s and at %s, at no fault", sink, one.id, before, one.at)
		}
	}
	return repeats
}

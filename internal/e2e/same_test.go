package e2e_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
)

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u.Host
}

func count(in []string, s string) int {
	n := 0
	for _, x := range in {
		if x == s {
			n++
		}
	}
	return n
}

// eventID is the id of the event of the n-th revision of a purchase, from 0.
func eventID(w *world, id string, n int) string {
	return events.EventID(id, events.Position{Revision: want(w, id)[n]})
}

// want gives the revisions that a purchase has had.
func want(w *world, id string) []int64 {
	r, ok := w.sim.Purchase(id)
	if !ok {
		w.t.Fatalf("no purchase %s", id)
	}
	var out []int64
	for _, h := range r.History {
		if len(out) == 0 || out[len(out)-1] != int64(h.Revision) {
			out = append(out, int64(h.Revision))
		}
	}
	return out
}

// awaitQuiet waits until the receiver has been quiet for long enough that
// standings and acks are out.
func awaitQuiet(t *testing.T, w *world) {
	t.Helper()
	last, since := -1, time.Now()
	await(t, 20*time.Second, "the receiver is quiet", func() bool {
		if n := len(w.hook.Received()); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
}

// said is what an observer downstream learns, without what differs by time.
func said(body []byte) (string, error) {
	e, err := events.Decode(body)
	if err != nil {
		return "", err
	}
	p := e.Purchase
	return fmt.Sprintf("%s rev %d %s %s %s unsettled=%t", e.Type, p.Reading.Revision, p.State, p.Situation, p.Money, p.Unsettled), nil
}

// play moves a purchase through a life, each step once the one before it is delivered.
func play(t *testing.T, w *world, details func() string) []string {
	t.Helper()
	id := w.envoyCheckout()
	await(t, 30*time.Second, "the purchase is found", func() bool { return w.sim.Holds() > 0 }, details)
	for i, s := range []envoysim.State{envoysim.Processing, envoysim.Verifying, envoysim.Completed} {
		w.move(id, s)
		await(t, 30*time.Second, "a change is delivered", func() bool {
			return slices.Contains(w.accepted(), eventID(w, id, i+1))
		}, details)
	}
	var out []string
	for _, r := range w.hook.Received() {
		line, err := said(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
	return out
}

// watcher and notifier over NATS and Redis say the same, in the same order, as
// herald with everything embedded.
func TestProcessesSayTheSameAsHerald(t *testing.T) {
	one := newWorld(t)
	h := one.start("herald", "run", "-c", one.config("one", places{}))
	h.says(`"msg":"running"`)
	alone := play(t, one, h.out.String)
	if code := h.stop(); code != 0 {
		t.Errorf("herald: exit code %d\n%s", code, h.out)
	}

	many := newWorld(t)
	file := many.config("many", many.outside())
	watcher, notifier := many.start("watcher", "-c", file), many.start("notifier", "-c", file)
	watcher.says(`"msg":"running"`)
	notifier.says(`"msg":"running"`)
	apart := play(t, many, func() string { return watcher.out.String() + notifier.out.String() })
	for name, p := range map[string]*proc{"watcher": watcher, "notifier": notifier} {
		if code := p.stop(); code != 0 {
			t.Errorf("%s: exit code %d\n%s", name, code, p.out)
		}
	}
	if !slices.Equal(alone, apart) {
		t.Errorf("herald said\n%q\nwatcher and notifier\n%q", alone, apart)
	}
	if len(alone) < 3 {
		t.Errorf("only %d events: %q", len(alone), alone)
	}
}

// A restart with everything in place says nothing again.
func TestRestartSaysNothingAgain(t *testing.T) {
	w := newWorld(t)
	file := w.config("one", places{})
	first := w.start("herald", "run", "-c", file)
	first.says(`"msg":"running"`)
	before := play(t, w, first.out.String)
	if code := first.stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, first.out)
	}
	second := w.start("herald", "run", "-c", file)
	second.says(`"msg":"running"`)
	id := w.envoyCheckout()
	await(t, 30*time.Second, "a new purchase is found", func() bool { return w.sim.Holds() > 0 }, second.out.String)
	w.move(id, envoysim.Processing)
	await(t, 30*time.Second, "its change is delivered", func() bool {
		return slices.Contains(w.accepted(), eventID(w, id, 1))
	}, second.out.String)
	for _, id := range w.accepted() {
		if n := count(w.accepted(), id); n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	if len(w.accepted()) < len(before)+1 {
		t.Errorf("after the restart %d deliveries, before it %d", len(w.accepted()), len(before))
	}
}

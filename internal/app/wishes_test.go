package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

// receiver is a webhook endpoint that answers as it is told.
type receiver struct {
	server *httptest.Server
	mu     sync.Mutex
	status int
	hold   chan struct{} // requests wait for it; nil: none
	got    []http.Header
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	h := &receiver{status: http.StatusNoContent}
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.got = append(h.got, r.Header.Clone())
		status, hold := h.status, h.hold
		h.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(h.server.Close)
	return h
}

func (h *receiver) answers(status int, hold chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.hold = status, hold
}

func (h *receiver) last() http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.got) == 0 {
		return nil
	}
	return h.got[len(h.got)-1]
}

// office is one process with a sink "orders", whose loop runs until stop.
type office struct {
	t    *testing.T
	bus  *stream.Bus
	hook *receiver
	loop *deliver.Loop
	stop func()

	published int
}

// newOffice starts it; block holds further lines of the sink's webhook.
func newOffice(t *testing.T, dir, block string) *office {
	t.Helper()
	o := &office{t: t, hook: newReceiver(t)}
	file := filepath.Join(dir, "herald.yaml")
	write(t, filepath.Join(dir, "key"), hookSecret)
	write(t, file, `
sinks:
  - name: orders
    webhook: { url: "`+o.hook.server.URL+`", secrets: ["file:key"], allow_cidrs: [127.0.0.0/8], timeout: 30s`+block+` }
subscriptions:
  - { name: all, match: 'type == "money.envoy.purchase.changed.v1"', sinks: [orders] }
`)
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), Options{Config: cfg, Role: config.RoleNotifier, Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if o.bus, err = stream.Open(t.Context(), stream.Options{URL: natstest.Start(t).URL()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.bus.Close(context.WithoutCancel(t.Context())) })
	kv, err := dedupe.OpenKV(t.Context(), o.bus.JetStream(), dedupe.KVOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st := &stores{bus: o.bus, state: kv, leases: dedupe.Sole{}}
	loops, err := a.buildLoops(t.Context(), a.wiring(), st, func() []events.Silence { return nil })
	if err != nil {
		t.Fatal(err)
	}
	o.loop = loops[0]
	o.start()
	t.Cleanup(func() { o.stop(); a.notices.Wait() })
	return o
}

// start runs the loop until stop.
func (o *office) start() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = o.loop.Run(ctx) })
	o.stop = func() { cancel(); running.Wait() }
}

// bury makes a dead letter of a sample.
func (o *office) bury() events.Event {
	o.t.Helper()
	e := events.Samples()[3]
	raw, err := events.Encode(e)
	if err != nil {
		o.t.Fatal(err)
	}
	d := events.DeadLetter{
		Sink: "orders", EventID: e.ID, Subject: "envoy.purchase.sample-host." + e.Subject, Sequence: 4,
		Reason: "refused", Attempts: 3, Event: raw, Buried: time.Now(),
	}
	for _, sink := range []string{"orders", "others"} {
		d.Sink = sink
		if err := o.bus.Bury(o.t.Context(), d); err != nil {
			o.t.Fatal(err)
		}
	}
	return e
}

// letters names the sinks at which the event is buried.
func (o *office) letters(event string) []string {
	o.t.Helper()
	found, err := o.bus.DeadOne(o.t.Context(), event)
	if err != nil {
		o.t.Fatal(err)
	}
	var names []string
	for _, d := range found {
		names = append(names, d.Sink)
	}
	return names
}

func (o *office) ask(w console.Wish) (console.WishResult, error) {
	ctx, cancel := context.WithTimeout(o.t.Context(), 20*time.Second)
	defer cancel()
	return owners{o.bus.Conn()}.Ask(ctx, "orders", w)
}

// owned waits until the loop answers.
func (o *office) owned() {
	o.t.Helper()
	poll(o.t, "the loop answers", func() bool {
		_, err := o.ask(console.Wish{Kind: console.WishReplay, Event: "no-such-event"})
		return err == nil
	})
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.NewTimer(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

func TestReplayLeavesTheDeadLettersOnceItIsAccepted(t *testing.T) {
	o := newOffice(t, t.TempDir(), "")
	e := o.bury()
	o.owned()
	wish := console.Wish{Kind: console.WishReplay, Event: e.ID, By: "asha"}

	o.hook.answers(http.StatusInternalServerError, nil)
	if r, err := o.ask(wish); err != nil || r.Status != console.WishFailed || r.Problem == "" {
		t.Errorf("refused by the receiver: %+v, %v", r, err)
	}
	if n := o.letters(e.ID); len(n) != 2 {
		t.Errorf("after a failure: letters at %v", n)
	}
	o.hook.answers(http.StatusNoContent, nil)
	if r, err := o.ask(wish); err != nil || r.Status != console.WishDone {
		t.Errorf("accepted by the receiver: %+v, %v", r, err)
	}
	if n := o.letters(e.ID); len(n) != 1 || n[0] != "others" {
		t.Errorf("after a success: letters at %v", n)
	}
	if h := o.hook.last(); h.Get("Webhook-Id") != e.ID || h.Get("Herald-Replay") != "1" || h.Get("Herald-Attempt") != "4" {
		t.Errorf("sent as %v", h)
	}
	if r, err := o.ask(wish); err != nil || r.Status != console.WishRefused {
		t.Errorf("without a letter: %+v, %v", r, err)
	}
}

func TestTestGoesThroughTheSink(t *testing.T) {
	o := newOffice(t, t.TempDir(), "")
	o.owned()
	if r, err := o.ask(console.Wish{Kind: console.WishTest}); err != nil || r.Status != console.WishDone {
		t.Errorf("%+v, %v", r, err)
	}
	if h := o.hook.last(); h.Get("Herald-Kind") != "test" || h.Get("Webhook-Signature") == "" {
		t.Errorf("sent as %v", h)
	}
	o.stop()
	if _, err := o.ask(console.Wish{Kind: console.WishTest}); !errors.Is(err, console.ErrNoOwner) {
		t.Errorf("nobody owns it: %v", err)
	}
}

// A receiver that takes long: whoever asked hears that it is under way, and the
// letter goes when it is accepted.
func TestSlowReplayIsTaken(t *testing.T) {
	o := newOffice(t, t.TempDir(), "")
	e := o.bury()
	o.owned()
	hold := make(chan struct{})
	o.hook.answers(http.StatusNoContent, hold)
	wish := console.Wish{Kind: console.WishReplay, Event: e.ID}
	if r, err := o.ask(wish); err != nil || r.Status != console.WishTaken {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := o.ask(wish); err != nil || r.Status != console.WishRefused {
		t.Errorf("asked again meanwhile: %+v, %v", r, err)
	}
	if n := o.letters(e.ID); len(n) != 2 {
		t.Errorf("not accepted yet: letters at %v", n)
	}
	close(hold)
	poll(t, "the letter is gone", func() bool { return len(o.letters(e.ID)) == 1 })
}

// A header of a webhook is read when the sink is built, and all the same a new
// value ends the pause that the old one caused.
func TestChangedHeaderEndsThePause(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bearer"), "Bearer old-value")
	o := newOffice(t, dir, `, headers: { Authorization: "file:bearer" }`)
	o.owned()
	o.hook.answers(http.StatusUnauthorized, nil)
	e := o.bury()
	if r, err := o.ask(console.Wish{Kind: console.WishReplay, Event: e.ID}); err != nil || r.Status != console.WishFailed {
		t.Errorf("old value: %+v, %v", r, err)
	}
	if h := o.hook.last(); h.Get("Authorization") != "Bearer old-value" {
		t.Errorf("sent with %q", h.Get("Authorization"))
	}
	o.hook.answers(http.StatusNoContent, nil)
	if _, err := o.bus.Publish(t.Context(), e, 0); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "bearer"), "Bearer new-value")
	poll(t, "the sink goes on", func() bool {
		return o.hook.last().Get("Authorization") == "Bearer new-value"
	})
}

func (o *office) state() jetstream.StreamState {
	o.t.Helper()
	str, err := o.bus.JetStream().Stream(o.t.Context(), events.StreamPurchases)
	if err != nil {
		o.t.Fatal(err)
	}
	return str.CachedInfo().State
}

// keep says how long the stream keeps events.
func (o *office) keep(age time.Duration) {
	o.t.Helper()
	str, err := o.bus.JetStream().Stream(o.t.Context(), events.StreamPurchases)
	if err != nil {
		o.t.Fatal(err)
	}
	cfg := str.CachedInfo().Config
	cfg.MaxAge, cfg.Duplicates = age, min(age, 2*time.Minute)
	if _, err := o.bus.JetStream().UpdateStream(o.t.Context(), cfg); err != nil {
		o.t.Fatal(err)
	}
}

// Events that aged out while nobody delivered are told once, with their number.
func TestAgedOutIsOneNotice(t *testing.T) {
	o := newOffice(t, t.TempDir(), "")
	o.owned()
	publish := func(n int) {
		t.Helper()
		for i := range n {
			e := events.Samples()[3]
			p := *e.Purchase
			e.Subject = fmt.Sprintf("pur_%032x", o.published+i)
			p.ChainRoot = e.Subject
			e.ID, e.Purchase = e.Subject+"-0-1-0", &p
			if _, err := o.bus.Publish(t.Context(), e, 0); err != nil {
				t.Fatal(err)
			}
		}
		o.published += n
	}
	floor := func(at uint64) func() bool {
		return func() bool {
			f, err := o.bus.Consumer("orders").Floor(t.Context())
			return err == nil && f >= at
		}
	}
	publish(3)
	poll(t, "three are delivered", floor(3))
	o.stop()
	o.keep(time.Second)
	publish(10)
	poll(t, "ten have aged out", func() bool { return o.state().FirstSeq == 14 })
	o.keep(time.Hour)
	publish(3)
	for range 2 { // told at the first beginning only
		o.start()
		poll(t, "the rest is delivered", floor(17)) // sixteen and the notice
		o.stop()
	}
	var told []events.Notice
	for env, err := range o.bus.Stored(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if env.Event.Notice != nil {
			told = append(told, *env.Event.Notice)
		}
	}
	if len(told) != 1 || told[0].Kind != events.NoticeAgedOut || told[0].Count != 10 || told[0].Sink != "orders" {
		t.Errorf("notices %+v", told)
	}
}

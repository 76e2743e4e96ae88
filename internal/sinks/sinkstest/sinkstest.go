// Package sinkstest is the behaviour that every sink has, as one suite of tests:
// each answer leads to its verdict, no secret shows in any error, a cancelled try
// ends within a second, nothing a receiver does takes unbounded time or memory, and
// hostile text arrives disarmed and within the receiver's limits.
//
// A sink's own test describes the sink and a faithful fake of its receiver by a
// Harness and calls Run.
package sinkstest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
)

// SinkName is the name that every sink of a harness has.
const SinkName = "sink-under-test"

// Harness describes a sink to the suite.
type Harness struct {
	// Open starts a fresh receiver and a sink for it, whose tries may last as long as timeout.
	Open func(t *testing.T, timeout time.Duration) *Bench
	// Answers are all answers that the receiver can give, with what they lead to.
	Answers []Answer
	// Stalled is what a receiver that never finishes leads to.
	Stalled Want
	// Unreachable is what a receiver that is not there leads to. It is Down everywhere.
	Unreachable Want
	// Flooded is what an answer of 20 MB leads to.
	Flooded Want
	// Verbatim: the receiver gets the event as a document and disarms it itself.
	Verbatim bool
}

// Bench is one sink with its receiver.
type Bench struct {
	Sink     sinks.Sink
	Canaries []string          // secrets of the configuration, which must never show
	Answer   func(name string) // the receiver's next answer is the one of this name
	Stall    func()            // from now on the receiver takes connections and never finishes
	Flood    func()            // the receiver's next answer has 20 MB
	Kill     func()            // the receiver is gone
	Arrived  func() <-chan struct{}
	Accepted func() int    // messages taken so far
	Shown    func() string // all text of the newest message, as a reader sees it or stricter
}

// Answer is an answer of a receiver, and what it leads to.
type Answer struct {
	Name string
	Want Want
}

// Want is an outcome. An empty Verdict means accepted; an empty Reason and a zero
// After or Status are not compared.
type Want struct {
	Verdict sinks.Verdict
	Reason  sinks.Reason
	After   time.Duration
	Status  int
	Text    string // a part of the error's text
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Run("Accepted", h.accepted)
	t.Run("Answers", h.answers)
	t.Run("Unreachable", h.unreachable)
	t.Run("Cancelled", h.cancelled)
	t.Run("Stalled", h.stalled)
	t.Run("Flooded", h.flooded)
	t.Run("Samples", h.samples)
	t.Run("Told", h.told)
	t.Run("Hostile", h.hostile)
	t.Run("Concurrent", h.concurrent)
}

const patience = 10 * time.Second

func (h Harness) accepted(t *testing.T) {
	b := h.Open(t, patience)
	receipt, err := b.Sink.Send(t.Context(), Notification(Confirming()))
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	if got := b.Accepted(); got != 1 {
		t.Errorf("accepted %d messages, want 1", got)
	}
	b.clean(t, receipt.Detail)
	for key, value := range receipt.Thread {
		b.clean(t, key+value)
	}
}

func (h Harness) answers(t *testing.T) {
	for _, a := range h.Answers {
		t.Run(a.Name, func(t *testing.T) {
			b := h.Open(t, patience)
			b.Answer(a.Name)
			receipt, err := b.Sink.Send(t.Context(), Notification(Confirming()))
			b.clean(t, receipt.Detail)
			b.check(t, err, a.Want)
		})
	}
}

func (h Harness) unreachable(t *testing.T) {
	b := h.Open(t, patience)
	b.Kill()
	_, err := b.Sink.Send(t.Context(), Notification(Confirming()))
	b.check(t, err, h.Unreachable)
}

func (h Harness) cancelled(t *testing.T) {
	b := h.Open(t, time.Minute)
	b.Stall()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arrived := b.Arrived()
	result := make(chan error, 1)
	go func() {
		_, err := b.Sink.Send(ctx, Notification(Confirming()))
		result <- err
	}()
	select {
	case <-arrived:
	case <-time.After(patience):
		t.Fatal("the receiver never saw the try")
	}
	cancel()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v is not the context's", err)
		}
		b.check(t, err, Want{Verdict: sinks.Temporary})
	case <-time.After(time.Second):
		t.Fatal("the try goes on a second after it was cancelled")
	}
}

func (h Harness) stalled(t *testing.T) {
	const timeout = 300 * time.Millisecond
	b := h.Open(t, timeout)
	b.Stall()
	began := time.Now()
	_, err := b.Sink.Send(t.Context(), Notification(Confirming()))
	if took := time.Since(began); took > timeout+time.Second {
		t.Errorf("the try took %v, its timeout is %v", took, timeout)
	}
	b.check(t, err, h.Stalled)
}

func (h Harness) flooded(t *testing.T) {
	const most = 12 << 20
	b := h.Open(t, patience)
	b.Flood()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := b.Sink.Send(t.Context(), Notification(Confirming()))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > most {
		t.Errorf("reading the answer took %d bytes of memory, want less than %d", used, most)
	}
	b.check(t, err, h.Flooded)
}

func (h Harness) samples(t *testing.T) {
	kinds := []sinks.Kind{
		sinks.KindEvent, sinks.KindOpen, sinks.KindUpdate, sinks.KindRemind, sinks.KindResolve, sinks.KindTest,
	}
	b := h.Open(t, patience)
	for _, e := range events.Samples() {
		for _, kind := range kinds {
			n := Notification(e)
			n.Kind, n.Urgent = kind, kind == sinks.KindOpen
			if _, err := b.Sink.Send(t.Context(), n); err != nil {
				t.Fatalf("send %s as %s: %v", e.ID, kind, err)
			}
			placeholders(t, b.Shown(), h.Verbatim)
		}
	}
}

// told wants a reminder to be told from a first message, so that the words know
// every kind of notification, and the number that was held back.
func (h Harness) told(t *testing.T) {
	for kind, prefix := range map[sinks.Kind]string{
		sinks.KindUpdate: "Changed: ", sinks.KindRemind: "Still open: ", sinks.KindTest: "Test: ",
	} {
		b := h.Open(t, patience)
		n := Notification(Confirming())
		n.Kind, n.Held = kind, 7
		if _, err := b.Sink.Send(t.Context(), n); err != nil {
			t.Fatalf("send: %v", err)
		}
		for _, part := range []string{prefix, "7 earlier changes were held back", "Nobody should pay again or start a new purchase for it."} {
			if !h.Verbatim && !strings.Contains(b.Shown(), part) {
				t.Errorf("%s does not say %q:\n%s", kind, part, b.Shown())
			}
		}
	}
}

// placeholders looks for what templates print for nothing.
func placeholders(t *testing.T, shown string, verbatim bool) {
	t.Helper()
	words := []string{"<nil>", "<no value>", "%!", "0001-01-01", "1 Jan 0001"}
	if !verbatim {
		words = append(words, "null")
	}
	for _, w := range words {
		if strings.Contains(shown, w) {
			t.Errorf("the message shows %q:\n%s", w, shown)
		}
	}
}

func (h Harness) hostile(t *testing.T) {
	for name, text := range Hostile() {
		t.Run(name, func(t *testing.T) {
			b := h.Open(t, patience)
			n := Notification(HostilePurchase(text))
			receipt, err := b.Sink.Send(t.Context(), n)
			if err != nil {
				t.Fatalf("send: %v", err)
			}
			if b.Accepted() != 1 {
				t.Errorf("accepted %d messages, want 1", b.Accepted())
			}
			again := n
			again.Kind, again.Urgent, again.Thread = sinks.KindRemind, true, receipt.Thread
			h.disarms(t, b, text)
			for _, n := range []sinks.Notification{again, Notification(HostileNotice(text))} {
				if _, err := b.Sink.Send(t.Context(), n); err != nil {
					t.Fatalf("send %s of %s: %v", n.Kind, n.Event.Type, err)
				}
				h.disarms(t, b, text)
			}
		})
	}
}

func (h Harness) disarms(t *testing.T, b *Bench, text string) {
	t.Helper()
	if !h.Verbatim {
		disarmed(t, b.Shown(), utf8.ValidString(text))
	}
}

// disarmed wants no character that hides, reorders or breaks lines inside a text,
// and no torn character before a cut.
func disarmed(t *testing.T, shown string, valid bool) {
	t.Helper()
	for _, r := range shown {
		if unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' || valid && r == '\ufffd' {
			t.Errorf("the message holds %U", r)
			return
		}
	}
	for _, torn := range []string{"\u200d …", "\u094d …"} {
		if strings.Contains(shown, torn) {
			t.Errorf("a character was torn before a cut: %q", torn)
		}
	}
}

func (h Harness) concurrent(t *testing.T) {
	const senders = 8
	b := h.Open(t, patience)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			if _, err := b.Sink.Send(t.Context(), Notification(Confirming())); err != nil {
				t.Errorf("send: %v", err)
			}
		})
	}
	wg.Wait()
	if got := b.Accepted(); got != senders {
		t.Errorf("accepted %d messages, want %d", got, senders)
	}
}

// check compares an outcome and looks for canaries in the error, also in the
// forms that formatting verbs give.
func (b *Bench) check(t *testing.T, err error, w Want) {
	t.Helper()
	if w.Verdict == "" {
		if err != nil {
			t.Fatalf("send: %v, want success", err)
		}
		return
	}
	var f *sinks.Failure
	if !errors.As(err, &f) {
		t.Fatalf("error is %v, want a *sinks.Failure", err)
	}
	if f.Verdict != w.Verdict || w.Reason != "" && f.Reason != w.Reason {
		t.Errorf("failure is %s/%s, want %s/%s: %v", f.Verdict, f.Reason, w.Verdict, w.Reason, err)
	}
	if w.After != f.After || w.Status != 0 && w.Status != f.Status {
		t.Errorf("failure waits %v with status %d, want %v with %d", f.After, f.Status, w.After, w.Status)
	}
	if !strings.Contains(err.Error(), SinkName) || !strings.Contains(err.Error(), w.Text) {
		t.Errorf("error %q does not name the sink or %q", err, w.Text)
	}
	if len(err.Error()) > 8<<10 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	b.clean(t, err.Error())
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		b.clean(t, inner.Error())
	}
}

func (b *Bench) clean(t *testing.T, text string) {
	t.Helper()
	for _, c := range b.Canaries {
		if strings.Contains(strings.ToLower(text), strings.ToLower(c)) {
			t.Errorf("a secret shows in %q", text)
		}
	}
}

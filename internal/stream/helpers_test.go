package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/stream"
)

const (
	patience   = 30 * time.Second
	connection = "host-a"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func purchaseID(i int) string { return fmt.Sprintf("pur_%032x", i) }

// reading is an event of a purchase at a position, about as large as real ones.
func reading(purchase int, epoch, revision, n int64) events.Event {
	id := purchaseID(purchase)
	at := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	p := events.Position{Epoch: epoch, Revision: revision, N: n}
	return events.Event{
		ID: events.EventID(id, p), Source: "/connections/" + connection, Type: events.TypeChanged,
		Subject: id, Time: at,
		Purchase: &events.Purchase{
			Connection: connection,
			Reading:    events.ReadingInfo{Revision: revision, Epoch: epoch, N: n, Cause: events.CauseRevision},
			Situation:  events.SituationConfirming, SituationSince: at, Money: events.MoneyUnknown, Unsettled: true,
			State: events.StateVerifying, Amount: events.Amount{Minor: 100, Currency: "INR", Display: "₹1.00"},
			Merchant: events.Merchant{Name: "Example"}, CreatedAt: at, UpdatedAt: at,
		},
	}
}

func settled(e events.Event) events.Event {
	p := *e.Purchase
	p.Terminal, p.Unsettled, p.Situation, p.State = true, false, events.SituationDone, events.StateCompleted
	e.Purchase = &p
	return e
}

func overdue(e events.Event) events.Event {
	return events.NewOverdue(e, "next_by", e.Time.Add(time.Minute))
}

func notice(text string) events.Event {
	return events.NewNotice(connection, events.NoticeBlind, time.Now(), events.Notice{Text: text})
}

func open(t *testing.T, o stream.Options) *stream.Bus {
	t.Helper()
	b, err := stream.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

// openURL opens a bus with a small stream, as tests need no more.
func openURL(t *testing.T, url string) *stream.Bus {
	t.Helper()
	return open(t, stream.Options{URL: url, MaxBytes: 64 << 20})
}

func publish(t *testing.T, b *stream.Bus, e events.Event, after uint64) uint64 {
	t.Helper()
	seq, err := b.Publish(t.Context(), e, after)
	must(t, err)
	return seq
}

// rawJS is a client of the server beside the bus.
func rawJS(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	return js
}

func ids(t *testing.T, seq iter.Seq2[events.Envelope, error]) []string {
	t.Helper()
	var got []string
	for env, err := range seq {
		must(t, err)
		got = append(got, env.Event.ID)
	}
	return got
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// owner consumes a sink as its owner does: it begins again whenever it is told
// to, and acknowledges what it takes.
type owner struct {
	t *testing.T
	c *stream.Consumer
}

func own(t *testing.T, c *stream.Consumer, start stream.Start) *owner {
	t.Helper()
	must(t, c.Begin(t.Context(), start))
	t.Cleanup(c.Stop)
	return &owner{t: t, c: c}
}

// next gives the next message, after as many beginnings as it takes.
func (o *owner) next() (events.Envelope, jetstream.Msg) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	for {
		env, msg, err := o.c.Next(ctx)
		if errors.Is(err, stream.ErrBeginAgain) {
			for o.c.Begin(ctx, stream.StartResume) != nil {
				if ctx.Err() != nil {
					o.t.Fatal("the consumer does not begin")
				}
			}
			continue
		}
		must(o.t, err)
		return env, msg
	}
}

// take acknowledges the next n messages and gives their ids.
func (o *owner) take(n int) []string {
	o.t.Helper()
	var got []string
	for range n {
		env, msg := o.next()
		must(o.t, msg.DoubleAck(o.t.Context()))
		got = append(got, env.Event.ID)
	}
	return got
}

// none sees that no message comes for a moment.
func (o *owner) none() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 300*time.Millisecond)
	defer cancel()
	env, _, err := o.c.Next(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		o.t.Fatalf("wanted nothing, got %s, %v", env.Event.ID, err)
	}
}

// journal is a log that a test can read while it is written.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func (j *journal) count(text string) int { return strings.Count(j.String(), text) }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

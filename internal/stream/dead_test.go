package stream_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/stream"
)

func letter(sink string, purchase int) events.DeadLetter {
	e := reading(purchase, 0, 1, 0)
	return events.DeadLetter{
		Sink: sink, EventID: e.ID, Subject: "envoy.purchase.host-a." + e.Subject, Sequence: 7, Reason: "refused",
		Detail: "404", Attempts: 3, First: e.Time, Buried: e.Time.Add(time.Hour), Event: []byte(`{"id":"x"}`),
	}
}

func dead(t *testing.T, b *stream.Bus, sink string) []events.DeadLetter {
	t.Helper()
	var got []events.DeadLetter
	for d, err := range b.Dead(t.Context(), sink) {
		must(t, err)
		got = append(got, d)
	}
	return got
}

func TestDeadLetters(t *testing.T) {
	b := openURL(t, natstest.Start(t).URL())
	if got := dead(t, b, ""); len(got) != 0 {
		t.Fatalf("an empty graveyard holds %v", got)
	}
	a, other, ops := letter("orders", 1), letter("orders", 2), letter("ops", 1)
	for _, d := range []events.DeadLetter{a, other, ops} {
		must(t, b.Bury(t.Context(), d))
	}
	changed := a
	changed.Reason = "another reason"
	must(t, b.Bury(t.Context(), changed)) // there already
	for sink, want := range map[string][]events.DeadLetter{"": {a, other, ops}, "orders": {a, other}, "ops": {ops}, "none": nil} {
		if got := dead(t, b, sink); !reflect.DeepEqual(got, want) {
			t.Errorf("sink %q: got %+v, want %+v", sink, got, want)
		}
	}
	one, err := b.DeadOne(t.Context(), a.EventID)
	if err != nil || !reflect.DeepEqual(one, []events.DeadLetter{a, ops}) {
		t.Errorf("one event: %+v, %v", one, err)
	}
	must(t, b.Unbury(t.Context(), "orders", a.EventID))
	must(t, b.Unbury(t.Context(), "orders", a.EventID))
	if got := dead(t, b, "orders"); !reflect.DeepEqual(got, []events.DeadLetter{other}) {
		t.Errorf("after one was removed: %+v", got)
	}
	must(t, b.Bury(t.Context(), changed)) // it may die again
	if one, err = b.DeadOne(t.Context(), a.EventID); err != nil || !reflect.DeepEqual(one, []events.DeadLetter{ops, changed}) {
		t.Errorf("buried again: %+v, %v", one, err)
	}
}

func TestDeadLettersWithAnUndecodableOne(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	_, err := rawJS(t, srv.URL()).Publish(t.Context(), "envoy.dead.orders.by-hand", []byte("no letter"))
	must(t, err)
	must(t, b.Bury(t.Context(), letter("orders", 1)))
	var good, bad int
	for _, err := range b.Dead(t.Context(), "orders") {
		if err != nil {
			bad++
			continue
		}
		good++
	}
	if good != 1 || bad != 1 {
		t.Errorf("%d letters and %d errors, want one of each", good, bad)
	}
}

// A letter that finds no room is an error, so that its event is not settled.
func TestBuryInAFullGraveyard(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	js := rawJS(t, srv.URL())
	s, err := js.Stream(t.Context(), events.StreamDead)
	must(t, err)
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = 256
	_, err = js.UpdateStream(t.Context(), cfg)
	must(t, err)
	if err := b.Bury(t.Context(), letter("orders", 1)); err == nil {
		t.Error("a full graveyard takes a letter")
	}
	cfg.MaxBytes = 1 << 20
	_, err = js.UpdateStream(t.Context(), cfg)
	must(t, err)
	must(t, b.Bury(t.Context(), letter("orders", 1)))
}

func TestAudit(t *testing.T) {
	srv := natstest.Start(t)
	reg := prometheus.NewRegistry()
	b := open(t, stream.Options{URL: srv.URL(), MaxBytes: 64 << 20, Metrics: reg})
	start := time.Now().UTC()
	var want []events.Delivery
	for i := range 100 {
		want = append(want, events.Delivery{
			Sink: "orders", EventID: fmt.Sprint("e-", i), PurchaseID: purchaseID(i % 2), Type: events.TypeChanged,
			Outcome: "sent", Attempt: 1, At: start, Millis: 12,
		})
		b.Audit(want[i])
	}
	b.Audit(events.Delivery{Sink: "ops", EventID: "n-1", Type: events.TypeNotice, Outcome: "sent"})
	read := func(f stream.DeliveryFilter) (got []events.Delivery) {
		for d, err := range b.Deliveries(t.Context(), f) {
			must(t, err)
			got = append(got, d)
		}
		return got
	}
	eventually(t, "all are stored", func() bool { return len(read(stream.DeliveryFilter{})) == 101 })
	if got := read(stream.DeliveryFilter{Sink: "orders"}); !reflect.DeepEqual(got, want) {
		t.Errorf("of one sink: %d records", len(got))
	}
	if got := read(stream.DeliveryFilter{Sink: "orders", PurchaseID: purchaseID(1), Since: start.Add(-time.Minute)}); len(got) != 50 {
		t.Errorf("of one purchase: %d records, want 50", len(got))
	}
	if got := read(stream.DeliveryFilter{Since: time.Now().Add(time.Hour)}); len(got) != 0 {
		t.Errorf("of the future: %d records", len(got))
	}

	// Without a server nobody waits, and what is lost is counted.
	srv.Stop()
	for range 20_000 {
		b.Audit(want[0])
	}
	b.Audit(events.Delivery{Sink: "a.b", EventID: "e"})
	eventually(t, "the loss is counted", func() bool { return counter(t, reg, "herald_stream_audit_dropped_total") >= 20_001 })
}

func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	var sum float64
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestCloseSendsTheAudit(t *testing.T) {
	srv := natstest.Start(t)
	b, err := stream.Open(t.Context(), stream.Options{URL: srv.URL(), MaxBytes: 64 << 20})
	must(t, err)
	for i := range 500 {
		b.Audit(events.Delivery{Sink: "orders", EventID: fmt.Sprint("e-", i), PurchaseID: purchaseID(1)})
	}
	must(t, b.Close(context.Background()))
	s, err := rawJS(t, srv.URL()).Stream(t.Context(), events.StreamDeliveries)
	must(t, err)
	if n := s.CachedInfo().State.Msgs; n != 500 {
		t.Errorf("%d records are stored, want 500", n)
	}
}

func TestNewestHistoryAndStart(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	if got := ids(t, b.Newest(t.Context())); len(got) != 0 {
		t.Errorf("an empty stream holds %v", got)
	}
	if seq, stored, err := b.StreamStart(t.Context()); seq != 0 || !stored.IsZero() || err != nil {
		t.Errorf("an empty stream starts at %d, %s, %v", seq, stored, err)
	}
	var want []string
	for i := range 600 { // more than one batch
		seq := publish(t, b, reading(i, 0, 1, 0), 0)
		if i < 3 {
			publish(t, b, reading(i, 0, 2, 0), seq)
			want = append(want, reading(i, 0, 2, 0).ID)
			continue
		}
		want = append(want, reading(i, 0, 1, 0).ID)
	}
	publish(t, b, notice("no purchase"), 0)
	wantIDs(t, "newest", ids(t, b.Newest(t.Context())), want)
	wantIDs(t, "history", ids(t, b.History(t.Context(), purchaseID(1))), []string{reading(1, 0, 1, 0).ID, reading(1, 0, 2, 0).ID})
	if got := ids(t, b.History(t.Context(), purchaseID(9999))); len(got) != 0 {
		t.Errorf("history of an unknown purchase: %v", got)
	}
	if got := ids(t, b.Stored(t.Context(), time.Now().Add(-time.Hour))); len(got) != 604 {
		t.Errorf("%d are stored, want 604", len(got))
	}
	publish(t, b, settled(reading(5, 0, 2, 0)), 9)
	var open []string
	for i := range 600 {
		if i != 5 {
			open = append(open, purchaseID(i))
		}
	}
	followed, err := b.Followed(t.Context(), connection)
	must(t, err)
	wantIDs(t, "followed", followed, open)
	if got, err := b.Followed(t.Context(), "another"); len(got) != 0 || err != nil {
		t.Errorf("another connection follows %v, %v", got, err)
	}
	for range b.Newest(t.Context()) {
		break // a reader may stop early
	}
	js := rawJS(t, srv.URL())
	s, err := js.Stream(t.Context(), events.StreamPurchases)
	must(t, err)
	must(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(5)))
	if seq, stored, err := b.StreamStart(t.Context()); seq != 5 || stored.IsZero() || err != nil {
		t.Errorf("the stream starts at %d, %s, %v", seq, stored, err)
	}
	eventually(t, "walks leave no consumer behind", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.State.Consumers == 0
	})
}

func TestTail(t *testing.T) {
	srv := natstest.Start(t)
	b := openURL(t, srv.URL())
	all := feed(t, b, 0, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan string)
	ended := make(chan error, 1)
	go func() {
		for env, err := range b.Tail(ctx, stream.From{After: 1}) {
			if err != nil {
				ended <- err
				return
			}
			got <- env.Event.ID
		}
	}()
	want := func(id string) {
		t.Helper()
		select {
		case g := <-got:
			if g != id {
				t.Errorf("got %s, want %s", g, id)
			}
		case err := <-ended:
			t.Fatalf("the tail ended: %v", err)
		case <-time.After(patience):
			t.Fatalf("%s does not come", id)
		}
	}
	want(all[1])
	want(all[2])
	n := notice("seen too")
	publish(t, b, n, 0)
	want(n.ID)
	srv.Restart()
	after := reading(3, 0, 1, 0)
	eventually(t, "an event is stored again", func() bool { // the client may not have noticed yet
		_, err := b.Publish(t.Context(), after, 0)
		return err == nil
	})
	want(after.ID)
	cancel()
	if err := <-ended; err == nil || ctx.Err() == nil {
		t.Errorf("the tail ends with %v", err)
	}
}

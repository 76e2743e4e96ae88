package deliver_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/email"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// hook is a receiver on loopback that answers by h.
func hook(t *testing.T, h http.HandlerFunc) *sinkfakes.Hook {
	t.Helper()
	f, err := sinkfakes.NewHook("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if h != nil {
		f.Always(&sinkfakes.Answer{Handler: h})
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// posting is a webhook sink to it.
func posting(t *testing.T, f *sinkfakes.Hook, c webhook.Config) *webhook.Sink {
	t.Helper()
	c.Name, c.URL, c.AllowCIDRs = "hook", secret.New(f.URL("/")), []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// ids counts the events that the receiver accepted by their id.
func ids(f *sinkfakes.Hook) map[string]int {
	got := map[string]int{}
	for _, r := range f.Received() {
		got[r.Header.Get("Webhook-Id")]++
	}
	return got
}

func TestB14_SlowReceiversHoldUpNobodyElse(t *testing.T) {
	const concurrency = 4
	r := newRig(t)
	slow, well := hook(t, sinkfakes.Drip(50*time.Millisecond)), hook(t, nil)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mailing, mailed atomic.Int64 // open connections, and all
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			mailed.Add(1)
			if n := mailing.Add(1); n > concurrency {
				t.Errorf("%d connections to the mail server at once", n)
			}
			go func() { // greets nobody, and ends with the client
				_, _ = conn.Read(make([]byte, 1))
				mailing.Add(-1)
				_ = conn.Close()
			}()
		}
	}()
	t.Cleanup(func() { _ = silent.Close(); <-accepting })
	mail, err := email.New(email.Config{
		Name: "mail", Mode: email.ModePlain, Host: "127.0.0.1", Port: silent.Addr().(*net.TCPAddr).Port,
		From: "herald@example.test", To: []string{"ops@example.test"}, Timeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	stops := map[string]func(){}
	for name, s := range map[string]sinks.Sink{
		"slow": posting(t, slow, webhook.Config{Timeout: time.Second}), "mail": mail,
		"well": posting(t, well, webhook.Config{Timeout: time.Second}),
	} {
		o := r.options(name, s)
		o.Concurrency = concurrency
		stops[name] = r.run(o)
	}
	for i := range 50 {
		r.publish(i, 1)
	}
	eventually(t, "the healthy one has all", func() bool { return len(ids(well)) == 50 })
	r.settled("well")
	for id, n := range ids(well) {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	// Each try ends by the time-out: others are made.
	eventually(t, "the slow ones are tried again", func() bool { return len(slow.Received()) > concurrency && mailed.Load() > concurrency })
	for _, stop := range stops {
		stop() // ends within the grace although tries are under way, or the test does not end
	}
}

// A receiver that closes idle connections without a word: a request can meet a
// connection that has just gone.
func TestB15_ConnectionsThatWentStale(t *testing.T) {
	const idle = 20 * time.Millisecond
	f, err := sinkfakes.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fake := hook(t, nil)
	srv := &http.Server{IdleTimeout: idle, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		out, err := http.NewRequestWithContext(req.Context(), req.Method, fake.URL("/"), req.Body)
		if err != nil {
			t.Error(err)
			return
		}
		out.Header = req.Header.Clone()
		resp, err := http.DefaultClient.Do(out)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(f) }()
	t.Cleanup(func() { _ = srv.Close(); <-served; http.DefaultClient.CloseIdleConnections() })

	r := newRig(t)
	s, err := webhook.New(webhook.Config{
		Name: "hook", URL: secret.New("http://" + f.Addr().String()), AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r.run(r.options("orders", s))
	for i := range 200 {
		r.publish(i, 1)
		<-time.After(idle - time.Millisecond + time.Duration(i%20)*100*time.Microsecond) // around the moment of closing
	}
	r.settled("orders")
	got := ids(fake)
	if len(got) != 200 {
		t.Errorf("%d of 200 came", len(got))
	}
	bodies := map[string][]byte{}
	for _, req := range fake.Received() {
		id := req.Header.Get("Webhook-Id")
		if old := bodies[id]; old != nil && !bytes.Equal(old, req.Body) {
			t.Errorf("%s came with two bodies", id)
		}
		bodies[id] = req.Body
	}
	for d := range r.bus.Dead(t.Context(), "orders") {
		t.Errorf("dead letter %+v", d)
	}
}

// One event that cannot be written or judged is buried with its reason; the
// others go out. Answers that do not end, or are huge, settle their event once.
func TestBadInputStopsItselfOnly(t *testing.T) {
	id := func(n int) string { return events.EventID(purchaseID(n), events.Position{Revision: 1}) }
	for name, w := range map[string]struct {
		answer http.HandlerFunc
		config webhook.Config
		match  string
		dead   map[string]string // reason by event
		words  string            // of the reason
	}{
		"template": {
			config: webhook.Config{Template: `{"n": {{with .Purchase}}{{if eq .ChainRoot "` + purchaseID(3) + `"}}{{index .DetailsMissing 5}}{{else}}1{{end}}{{else}}1{{end}}}`},
			dead:   map[string]string{id(3): "rejected"}, words: "render",
		},
		"expression": {
			match: `subject != "` + purchaseID(3) + `" || 1 / (revision - revision) > 0`,
			dead:  map[string]string{id(3): "expression"}, words: "division by zero",
		},
		"20 MB": {answer: sinkfakes.Flood(http.StatusOK, 20<<20)},
		"drips": {answer: func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(http.StatusOK)
			for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C { // the status, then a byte now and then
				if _, err := w.Write([]byte("x")); err != nil || http.NewResponseController(w).Flush() != nil || req.Context().Err() != nil {
					tick.Stop()
					return
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			f := hook(t, w.answer)
			o := r.options("orders", posting(t, f, w.config))
			if w.match != "" {
				set, err := route.Compile([]route.Spec{{Name: "some", Match: w.match, Sinks: []string{"orders"}}})
				if err != nil {
					t.Fatal(err)
				}
				o.Set = set
			}
			r.run(o)
			want := map[string]int{}
			for i := range 10 {
				r.publish(i, 1)
				want[id(i)] = 1
			}
			r.settled("orders")
			dead := map[string]string{}
			for d, err := range r.bus.Dead(context.Background(), "orders") {
				if err != nil {
					t.Fatal(err)
				}
				dead[d.EventID] = d.Reason
				delete(want, d.EventID)
				if !strings.Contains(d.Detail, w.words) || len(d.Detail) > 4096 {
					t.Errorf("the reason says %s", d.Detail)
				}
			}
			if fmt.Sprint(dead) != fmt.Sprint(w.dead) || !maps.Equal(ids(f), want) {
				t.Errorf("dead %v, came %v", dead, ids(f))
			}
		})
	}
}

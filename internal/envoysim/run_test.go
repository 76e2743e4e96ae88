package envoysim

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func withStop(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	return ctx, stop
}

func TestAgentsRunToTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Seed: 2, Speed: 60, Quirks: DefaultQuirks()})
		tokens, err := w.Populate(Cast{Purchases: 20})
		if err != nil {
			t.Fatal(err)
		}
		if len(tokens) != 3 {
			t.Fatalf("%d tokens", len(tokens))
		}
		ctx, stop := withStop(t)
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		if w.Finished() {
			t.Error("finished before it began")
		}
		pass(2 * time.Hour)
		if !w.Finished() || w.Pending() != 0 {
			t.Errorf("not finished, %d things pending", w.Pending())
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		retried, rails := 0, map[Rail]bool{}
		for _, r := range w.Purchases() {
			if r.Purchase.Supersedes != "" {
				retried++
			}
			rails[r.Purchase.Rail] = true
			if r.Ledger.open() {
				t.Errorf("%s is %s and its money %s for ever", r.Purchase.ID, r.Purchase.State, r.Ledger.Status)
			}
		}
		if len(w.Purchases()) != 60 || len(rails) != 4 {
			t.Errorf("%d purchases on %v, %d retried", len(w.Purchases()), rails, retried)
		}
	})
}

func TestOneActivePurchaseAtATime(t *testing.T) {
	w := newWorld(t, Options{Seed: 6, Quirks: DefaultQuirks()})
	second := w.AddToken("asha", "origin:https://second.example.test")
	open := map[string]bool{}
	w.Subscribe(func(c Change) {
		if c.State.Terminal() {
			delete(open, c.ID)
		} else {
			open[c.ID] = true
		}
	})
	for _, token := range []string{w.token, second} {
		if err := w.AddAgent(Agent{Token: token, Purchases: 40, Every: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	agents := map[string]bool{}
	for w.Step() {
		if len(open) > 1 {
			t.Fatalf("%d purchases are open at once", len(open))
		}
	}
	for _, r := range w.Purchases() {
		agents[r.Purchase.Agent.ID] = true
	}
	if len(w.Purchases()) != 80 || len(agents) != 2 {
		t.Errorf("%d purchases by %v", len(w.Purchases()), agents)
	}
}

// TestConcurrentUse is for the race detector: everything at once, with the agents living fast.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Seed: 4, Speed: 20, Quirks: DefaultQuirks(), RequestsPerMinute: -1})
		tokens, err := w.Populate(Cast{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := withStop(t)
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		var all sync.WaitGroup
		for _, token := range tokens {
			all.Go(func() {
				for range 60 {
					w.callAs(token, toolAccount, `{}`)
					w.callAs(token, toolStatus, `{}`)
					pass(500 * time.Millisecond)
				}
			})
			all.Go(func() {
				for range 60 {
					pass(700 * time.Millisecond)
					records := w.Purchases()
					if n := len(records); n > 0 {
						p := records[n-1].Purchase
						w.callAs(token, toolStatus, heldBody(p.ID, p.Revision, 5))
						w.Ledger(p.ID)
						w.Amend(p.ID, func(p *Purchase) { p.Stop = true })
					}
					w.Inject(Fault{Kind: FaultError, Code: Unavailable, Count: 1})
					w.Canaries()
					w.GuiltyReads()
					w.Requests()
				}
			})
		}
		all.Wait()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		if w.Holds() != 0 || len(w.Purchases()) < 10 {
			t.Errorf("%d holds, %d purchases", w.Holds(), len(w.Purchases()))
		}
	})
}

func TestServe(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.start(Spec{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := withStop(t)
	done := make(chan error)
	go func() { done <- w.Serve(ctx, l) }()

	client := &http.Client{Transport: &http.Transport{Protocols: h2c()}}
	held := make(chan error)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/tools/"+toolStatus, strings.NewReader(heldBody(id, 0, 45)))
		if err != nil {
			held <- err
			return
		}
		r.Header.Set("Authorization", "Bearer "+w.token)
		resp, err := client.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		held <- err
	}()
	until(t, func() bool { return w.Holds() == 1 })
	stop()
	if err := <-held; err == nil {
		t.Error("the hold was answered at the end")
	}
	if err := <-done; err != nil {
		t.Errorf("Serve returned %v", err)
	}
	client.CloseIdleConnections()
	if w.Holds() != 0 {
		t.Errorf("%d holds are still open", w.Holds())
	}
}

func h2c() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// until polls a condition for five seconds.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	tick, over := time.NewTicker(2*time.Millisecond), time.After(5*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatal("waited in vain")
		}
	}
}

func BenchmarkStatus(b *testing.B) {
	s, err := New(Options{RequestsPerMinute: -1})
	if err != nil {
		b.Fatal(err)
	}
	w := &world{Sim: s, token: s.AddToken("asha", "origin:https://host.example.test")}
	var ids []string
	for range 10_000 {
		id, err := s.Put("asha", Purchase{Rail: OperatedCheckout, State: Processing})
		if err != nil {
			b.Fatal(err)
		}
		ids = append(ids, heldBody(id, 0, 0))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if a := w.benchCall(toolStatus, ids[i%len(ids)]); a != http.StatusOK {
			b.Fatal(a)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

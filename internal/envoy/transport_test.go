package envoy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// holds starts n calls at once and returns when the server holds them all; the
// function it gives lets them go and waits for them.
func holds(t *testing.T, protocol string, o HTTPOptions, n int) (*wire, func()) {
	t.Helper()
	body := reply(t, ToolStatus, true, nil)
	arrived, free := make(chan struct{}, n), make(chan struct{})
	w := serve(t, protocol, o, func(rw http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-free
		write(200, body)(rw, r)
	})
	early := make(chan error, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, err := ask(w.client, ToolStatus)
			early <- err
		})
	}
	for i := range n {
		select {
		case <-arrived:
		case err := <-early:
			close(free)
			wg.Wait()
			t.Fatalf("only %d of %d are held: %v", i, n, err)
		}
	}
	return w, func() {
		close(free)
		wg.Wait()
		for range n {
			if err := <-early; err != nil {
				t.Error(err)
			}
		}
	}
}

func TestManyHoldsShareFewConnections(t *testing.T) {
	for protocol, tc := range map[string]struct{ n, most int }{
		"h1":  {60, 60}, // one each, no way around it
		"h2":  {250, 9}, // 100 streams on each: 3, and what was dialled meanwhile
		"h2c": {250, 9},
	} {
		t.Run(protocol, func(t *testing.T) {
			w, done := holds(t, protocol, HTTPOptions{DialsPerHost: 2}, tc.n)
			done()
			if got := w.conns.Load(); got > int64(tc.most) {
				t.Errorf("%d connections for %d holds, want at most %d", got, tc.n, tc.most)
			}
			if w.hits.Load() != int64(tc.n) {
				t.Errorf("%d requests for %d calls", w.hits.Load(), tc.n)
			}
		})
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	for _, protocol := range protocols {
		w := serve(t, protocol, HTTPOptions{}, write(200, reply(t, ToolStatus, true, nil)))
		for range 5 {
			if _, err := ask(w.client, ToolStatus); err != nil {
				t.Fatal(err)
			}
		}
		if w.conns.Load() != 1 {
			t.Errorf("%s: %d connections", protocol, w.conns.Load())
		}
	}
}

// TestCallsWaitForRoom: where no more connections are allowed, a call takes the place of one that has ended.
func TestCallsWaitForRoom(t *testing.T) {
	for protocol, streams := range map[string]int{"h1": 1, "h2": 100, "h2c": 100} {
		t.Run(protocol, func(t *testing.T) {
			n := 2*streams + 1 // one too many
			arrived, free := make(chan struct{}, n), make(chan struct{})
			body := reply(t, ToolStatus, true, nil)
			w := serve(t, protocol, HTTPOptions{ConnsPerHost: 2}, func(rw http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				<-free
				write(200, body)(rw, r)
			})
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					if _, err := ask(w.client, ToolStatus); err != nil {
						t.Error(err)
					}
				})
			}
			for range n - 1 {
				<-arrived
			}
			select {
			case <-arrived:
				t.Error("a call too many is on its way")
			default:
			}
			free <- struct{}{}
			<-arrived
			close(free)
			wg.Wait()
			if w.conns.Load() != 2 {
				t.Errorf("%d connections", w.conns.Load())
			}
		})
	}
}

func TestClosedConnectionIsReplaced(t *testing.T) {
	for _, protocol := range protocols {
		w := serve(t, protocol, HTTPOptions{ConnsPerHost: 1}, write(200, reply(t, ToolStatus, true, nil)))
		for round := range 3 {
			if _, err := ask(w.client, ToolStatus); err != nil {
				t.Fatalf("%s: %v", protocol, err)
			}
			w.http.CloseIdleConnections()
			if got := w.conns.Load(); got != int64(round+1) {
				t.Errorf("%s: %d connections in round %d", protocol, got, round)
			}
		}
	}
}

// TestWaitingCallEndsWithItsContext: it is the caller's end, not an outage.
func TestWaitingCallEndsWithItsContext(t *testing.T) {
	w, done := holds(t, "h1", HTTPOptions{ConnsPerHost: 1}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.client.List(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	})
	cancel()
	wg.Wait()
	done()
}

// TestHostsDoNotWaitForEachOther: one host accepts and never greets.
func TestHostsDoNotWaitForEachOther(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stuck := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			stuck <- c
		}
	}()
	w := serve(t, "h1", HTTPOptions{DialsPerHost: 1}, write(200, reply(t, ToolStatus, true, nil)))
	silent := New(Options{BaseURL: "https://" + l.Addr().String(), Token: bearer, HTTP: w.http})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := silent.List(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("silent host: %v", err)
			}
		})
	}
	c := <-stuck
	if _, err := ask(w.client, ToolStatus); err != nil {
		t.Errorf("the other host: %v", err)
	}
	cancel()
	wg.Wait()
	c.Close()
	l.Close()
}

// cable is a listener of connections in memory, which can be cut without a word.
type cable struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
	cut   atomic.Bool
}

func (c *cable) Accept() (net.Conn, error) {
	select {
	case conn := <-c.conns:
		return conn, nil
	case <-c.done:
		return nil, net.ErrClosed
	}
}

func (c *cable) Close() error   { c.once.Do(func() { close(c.done) }); return nil }
func (c *cable) Addr() net.Addr { return &net.TCPAddr{} }

func (c *cable) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	c.conns <- there
	return &cuttable{Conn: here, cable: c}, nil
}

// cuttable swallows what is written once the cable is cut, as a dead network does.
type cuttable struct {
	net.Conn
	cable *cable
}

func (c *cuttable) Write(p []byte) (int, error) {
	if c.cable.cut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestDeadConnectionEndsAHoldBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &cable{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		s := &http.Server{
			Protocols: protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				l.cut.Store(true)
				<-r.Context().Done()
			}),
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.Serve(l) })
		h := newHTTPClient(HTTPOptions{UnencryptedHTTP2: true}, l.dial)
		c := New(Options{BaseURL: "http://127.0.0.1", Token: bearer, HTTP: h})
		after := int64(1)
		_, err := c.Status(t.Context(), StatusRequest{Purchase: purchaseID, AfterRevision: &after, Wait: MaxWait})
		o := outageOf(t, err)
		if o.Kind != OutageReset || o.Took > pingAfter+pingTimeout+time.Second || o.Took < pingAfter {
			t.Errorf("%+v: %v", o, err)
		}
		h.CloseIdleConnections()
		s.Close()
		wg.Wait()
	})
}

// TestTimeIsOver: a call ends after its wait and the grace, or with the context, whichever comes first, as a time-out.
func TestTimeIsOver(t *testing.T) {
	silent := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	for caller, want := range map[time.Duration]time.Duration{
		0: 30*time.Second + Grace, time.Hour: 30*time.Second + Grace, 7 * time.Second: 7 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if caller > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, caller)
				defer cancel()
			}
			_, err := client(silent).Status(ctx, StatusRequest{Purchase: purchaseID, Wait: 30 * time.Second})
			if o := outageOf(t, err); o.Kind != OutageTimeout || o.Took != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("caller's %s: %+v: %v", caller, o, err)
			}
		})
	}
}

// TestFarewellInMidHold: a server that takes no more calls on a connection (GOAWAY) ends the holds on it in their time,
// and the calls after it go to another connection.
func TestFarewellInMidHold(t *testing.T) {
	for _, protocol := range []string{"h2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			body := reply(t, ToolStatus, true, nil)
			held, free := make(chan struct{}), make(chan struct{})
			var calls atomic.Int64
			w := serve(t, protocol, HTTPOptions{}, func(rw http.ResponseWriter, r *http.Request) {
				switch calls.Add(1) {
				case 1:
					close(held)
					<-free
				case 2:
					rw.Header().Set("Connection", "close") // what net/http makes a GOAWAY of
				}
				write(200, body)(rw, r)
			})
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := ask(w.client, ToolStatus); err != nil {
					t.Errorf("the hold: %v", err)
				}
			})
			<-held
			made, deadline := int64(1), time.Now().Add(time.Minute)
			for w.conns.Load() == 1 && time.Now().Before(deadline) { // the farewell may come after its reply
				made++
				if _, err := ask(w.client, ToolStatus); err != nil {
					t.Errorf("a call after it: %v", err)
				}
			}
			if w.conns.Load() != 2 {
				t.Errorf("%d connections, want the old and a new one", w.conns.Load())
			}
			close(free)
			wg.Wait()
			if w.hits.Load() != made {
				t.Errorf("%d requests for %d calls", w.hits.Load(), made)
			}
		})
	}
}

// TestReplyThatDripsEndsInTime: bytes that come one by one do not make a call longer.
func TestReplyThatDripsEndsInTime(t *testing.T) {
	for _, protocol := range []string{"h1", "h2c"} {
		synctest.Test(t, func(t *testing.T) {
			l := &cable{conns: make(chan net.Conn, 1), done: make(chan struct{})}
			protocols := new(http.Protocols)
			protocols.SetHTTP1(protocol == "h1")
			protocols.SetUnencryptedHTTP2(protocol == "h2c")
			s := &http.Server{
				Protocols: protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					beat := time.NewTicker(time.Second)
					defer beat.Stop()
					for r.Context().Err() == nil {
						_, _ = w.Write([]byte(" "))
						_ = http.NewResponseController(w).Flush()
						select {
						case <-beat.C:
						case <-r.Context().Done():
						}
					}
				}),
			}
			var wg sync.WaitGroup
			wg.Go(func() { _ = s.Serve(l) })
			h := newHTTPClient(HTTPOptions{UnencryptedHTTP2: protocol == "h2c"}, l.dial)
			_, err := New(Options{BaseURL: "http://127.0.0.1", Token: bearer, HTTP: h}).List(t.Context())
			if o := outageOf(t, err); o.Kind != OutageTimeout || o.Took != Grace {
				t.Errorf("%s: %+v: %v", protocol, o, err)
			}
			h.CloseIdleConnections()
			s.Close()
			wg.Wait()
		})
	}
}

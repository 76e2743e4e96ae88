package envoy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// wire is a server and a client of the real transport, over HTTP/1.1, HTTP/2
// with TLS, or HTTP/2 without.
type wire struct {
	*httptest.Server
	client *Client
	http   *http.Client
	conns  atomic.Int64
	hits   atomic.Int64
}

var protocols = []string{"h1", "h2", "h2c"}

func serve(t *testing.T, protocol string, o HTTPOptions, handler http.HandlerFunc) *wire {
	t.Helper()
	w := &wire{}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.hits.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		handler(rw, r)
	}))
	w.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			w.conns.Add(1)
		}
	}
	w.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100}
	switch protocol {
	case "h2":
		w.EnableHTTP2 = true
		w.StartTLS()
		o.RootCAs = x509.NewCertPool()
		o.RootCAs.AddCert(w.Certificate())
	case "h2c":
		w.Config.Protocols = new(http.Protocols)
		w.Config.Protocols.SetUnencryptedHTTP2(true)
		w.Start()
		o.UnencryptedHTTP2 = true
	default:
		w.Start()
	}
	w.http = NewHTTPClient(o)
	w.client = New(Options{BaseURL: w.URL, Token: bearer, HTTP: w.http})
	t.Cleanup(func() {
		w.http.CloseIdleConnections()
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

func write(status int, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func TestRepliesOverTheWire(t *testing.T) {
	good := reply(t, ToolStatus, true, nil)
	failed := reply(t, ToolStatus, false, nil)
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		kind    OutageKind // "" for a decoded reply
		code    Code
		status  int
	}{
		"good":                  {handler: write(200, good)},
		"good with status 500":  {handler: write(500, good)},
		"failed with 200":       {handler: write(200, failed), code: CodeInvalidInput},
		"failed with 429":       {handler: write(429, failed), code: CodeInvalidInput},
		"no content":            {handler: write(204, nil), kind: OutageStatus, status: 204},
		"not modified":          {handler: write(304, nil), kind: OutageStatus, status: 304},
		"empty":                 {handler: write(200, nil), kind: OutageMalformed, status: 200},
		"page":                  {handler: write(200, []byte("<html>"+canary)), kind: OutageMalformed, status: 200},
		"proxy page":            {handler: write(502, []byte("<html>"+canary)), kind: OutageStatus, status: 502},
		"proxy JSON":            {handler: write(503, []byte(`{"message":"`+canary+`"}`)), kind: OutageStatus, status: 503},
		"JSON of another kind":  {handler: write(200, []byte(`{"message":"`+canary+`"}`)), kind: OutageMalformed, status: 200},
		"list":                  {handler: write(200, []byte(`[]`)), kind: OutageMalformed, status: 200},
		"cut JSON":              {handler: write(200, good[:len(good)/2]), kind: OutageMalformed, status: 200},
		"cut JSON with 503":     {handler: write(503, good[:len(good)/2]), kind: OutageStatus, status: 503},
		"two replies":           {handler: write(200, append(bytes.Clone(good), good...)), kind: OutageMalformed, status: 200},
		"another purchase":      {handler: write(200, bytes.ReplaceAll(good, []byte(purchaseID), []byte(otherID))), kind: OutageForeign, status: 200},
		"10 MB":                 {handler: write(200, bytes.Repeat([]byte(" "), 10<<20)), kind: OutageTooLarge, status: 200},
		"10 MB, length unknown": {handler: endless, kind: OutageTooLarge, status: 200},
		"reset before headers":  {handler: abort(nil), kind: OutageReset},
		"reset in mid-body":     {handler: abort(good), kind: OutageReset, status: 200},
	} {
		for _, protocol := range protocols {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				w := serve(t, protocol, HTTPOptions{}, tc.handler)
				got, err := result(w.client.Status(t.Context(), StatusRequest{Purchase: purchaseID}))
				var refusal *Error
				switch {
				case tc.code != CodeNone:
					if got != nil || !errors.As(err, &refusal) || refusal.Code != tc.code {
						t.Fatalf("%v, %v", got, err)
					}
				case tc.kind == "":
					if err != nil {
						t.Fatal(err)
					}
				default:
					if o := wantOutage(t, got, err, tc.kind); o.Status != tc.status || o.Took <= 0 || o.Tool != ToolStatus {
						t.Errorf("outage is %+v", o)
					}
					wantNoText(t, err, canary)
				}
				if n := w.hits.Load(); n != 1 {
					t.Errorf("%d requests for one call", n)
				}
			})
		}
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	block := bytes.Repeat([]byte(" "), 64<<10)
	for range 160 {
		if _, err := w.Write(block); err != nil || r.Context().Err() != nil {
			return
		}
	}
}

// abort breaks the connection off, after half of the body if there is one.
func abort(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if body != nil {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

func TestB12_RedirectsAreNotFollowed(t *testing.T) {
	for _, protocol := range protocols {
		for _, code := range []int{301, 302, 303, 307, 308} {
			for _, location := range []string{"/tools/get_account", "://" + canary} {
				elsewhere := serve(t, "h1", HTTPOptions{}, write(200, reply(t, ToolStatus, true, nil)))
				w := serve(t, protocol, HTTPOptions{}, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", strings.Replace(elsewhere.URL+location, elsewhere.URL+":", ":", 1))
					w.WriteHeader(code)
				})
				got, err := ask(w.client, ToolStatus)
				if o := wantOutage(t, got, err, OutageStatus); o.Status != code {
					t.Errorf("outage is %+v", o)
				}
				if w.hits.Load() != 1 || elsewhere.conns.Load() != 0 || strings.Contains(err.Error(), canary) {
					t.Errorf("%d requests here, %d connections there, %v", w.hits.Load(), elsewhere.conns.Load(), err)
				}
			}
		}
	}
}

// TestNoReplayOnAStaleConnection: the far side reads the second request of a
// kept connection and closes. Whether it acted on it nobody knows, so net/http may
// not send it again.
func TestNoReplayOnAStaleConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	body := reply(t, ToolStatus, true, nil)
	var requests, conns atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			wg.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for n := 0; n < 2; n++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					requests.Add(1)
					if n == 0 {
						_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
					}
				}
			})
		}
	})
	h := NewHTTPClient(HTTPOptions{})
	c := New(Options{BaseURL: "http://" + l.Addr().String(), Token: bearer, HTTP: h})
	if _, err := ask(c, ToolStatus); err != nil {
		t.Fatal(err)
	}
	got, err := ask(c, ToolStatus)
	wantOutage(t, got, err, OutageReset)
	if requests.Load() != 2 || conns.Load() != 1 {
		t.Errorf("%d requests on %d connections, want 2 on 1", requests.Load(), conns.Load())
	}
	h.CloseIdleConnections()
	l.Close()
	wg.Wait()
}

func TestNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	h := NewHTTPClient(HTTPOptions{})
	defer h.CloseIdleConnections()
	at := func(base string) (any, error) {
		return ask(New(Options{BaseURL: base + "/" + canary, Token: bearer, HTTP: h}), ToolStatus)
	}
	got, err := at("http://" + address)
	if o := wantOutage(t, got, err, OutageDial); !errors.Is(o, syscall.ECONNREFUSED) || o.Status != 0 {
		t.Errorf("refused: %v", err)
	}
	nowhere := newHTTPClient(HTTPOptions{}, func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: canary, IsNotFound: true}}
	})
	got, err = ask(New(Options{BaseURL: "https://api.example.test", Token: bearer, HTTP: nowhere}), ToolStatus)
	if o := wantOutage(t, got, err, OutageDial); !strings.Contains(o.Error(), "no such host") || strings.Contains(printed(err), canary) {
		t.Errorf("no host: %s", printed(err))
	}
	w := serve(t, "h2", HTTPOptions{}, write(200, nil))
	got, err = at(w.URL) // its authority is not among those of the system
	if o := wantOutage(t, got, err, OutageDial); !strings.Contains(o.Error(), "unknown authority") {
		t.Errorf("authority: %v", err)
	}
	plain := serve(t, "h1", HTTPOptions{}, write(200, nil))
	got, err = at(strings.Replace(plain.URL, "http:", "https:", 1))
	if o := wantOutage(t, got, err, OutageDial); !strings.Contains(o.Error(), "TLS") {
		t.Errorf("no TLS: %v", err)
	}
	if w.hits.Load()+plain.hits.Load() != 0 {
		t.Error("a request arrived")
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	h := NewHTTPClient(HTTPOptions{RootCAs: roots})
	defer h.CloseIdleConnections()
	got, err := ask(New(Options{BaseURL: s.URL, Token: bearer, HTTP: h}), ToolStatus)
	wantOutage(t, got, err, OutageDial)
}

func TestAnswerThatIsNoHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
		_, _ = io.WriteString(c, "SSH-2.0-"+canary+"\r\n\r\n")
	})
	h := NewHTTPClient(HTTPOptions{})
	got, err := ask(New(Options{BaseURL: "http://" + l.Addr().String(), Token: bearer, HTTP: h}), ToolStatus)
	wantOutage(t, got, err, OutageMalformed)
	wantNoText(t, err, canary)
	h.CloseIdleConnections()
	l.Close()
	wg.Wait()
}

// An answer that leaves HTTP, and then is silent, holds nobody.
func TestSwitchedProtocolIsAnOutage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: "+canary+"\r\n\r\n")
		_, _ = c.Read(make([]byte, 1)) // until the client closes
	})
	h := NewHTTPClient(HTTPOptions{})
	got, err := ask(New(Options{BaseURL: "http://" + l.Addr().String(), Token: bearer, HTTP: h}), ToolStatus)
	if o := wantOutage(t, got, err, OutageStatus); o.Status != http.StatusSwitchingProtocols {
		t.Errorf("outage is %+v", o)
	}
	wantNoText(t, err, canary)
	h.CloseIdleConnections()
	l.Close()
	wg.Wait()
}

func TestCancelledCallReturnsTheContextsError(t *testing.T) {
	for _, protocol := range protocols {
		for _, early := range []bool{true, false} {
			arrived, gone := make(chan struct{}), make(chan struct{})
			w := serve(t, protocol, HTTPOptions{}, func(w http.ResponseWriter, r *http.Request) {
				if early { // the headers come before the hold
					_ = http.NewResponseController(w).Flush()
				}
				close(arrived)
				<-r.Context().Done()
				close(gone)
			})
			var seen Call
			w.client.options.Observe = func(c Call) { seen = c }
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-arrived; cancel() }()
			after := int64(1)
			s, err := w.client.Status(ctx, StatusRequest{Purchase: purchaseID, AfterRevision: &after, Wait: MaxWait})
			if s != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("%v, %v", s, err)
			}
			if !seen.Ended || seen.Outage != "" {
				t.Errorf("observed %+v", seen)
			}
			<-gone
		}
	}
	c := client(roundTrip(func(r *http.Request) (*http.Response, error) { return nil, r.Context().Err() }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("already over: %v", err)
	}
}

func TestTimeOutIsTheWaitAndFifteenSeconds(t *testing.T) {
	after := int64(3)
	hold := StatusRequest{Purchase: purchaseID, AfterRevision: &after, Wait: 45 * time.Second}
	args := StatusRequest{Purchase: purchaseID, Args: []byte(`{"purchase":"` + purchaseID + `","wait_seconds":30}`)}
	for name, tc := range map[string]struct {
		call func(*Client) error
		want time.Duration
	}{
		"hold":        {status(hold), 60 * time.Second},
		"hold by arg": {status(args), 45 * time.Second},
		"read":        {status(StatusRequest{Purchase: purchaseID}), 15 * time.Second},
		"look":        {func(c *Client) error { _, err := c.Look(context.Background(), false); return err }, 15 * time.Second},
		"list":        {func(c *Client) error { _, err := c.List(context.Background()); return err }, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen Call
				c := client(roundTrip(func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}))
				c.options.Observe = func(c Call) { seen = c }
				o := outageOf(t, tc.call(c))
				if o.Kind != OutageTimeout || o.Took != tc.want || seen.Took != tc.want || seen.Outage != OutageTimeout {
					t.Errorf("%+v, observed %+v, want %s", o, seen, tc.want)
				}
			})
		})
	}
}

func TestObserveTellsEachCallOnce(t *testing.T) {
	var seen []Call
	see := func(c *Client) *Client {
		c.options.Observe = func(c Call) { seen = append(seen, c) }
		return c
	}
	_, _ = ask(see(answers(200, reply(t, ToolList, true, func(m map[string]any) { m["x"] = 1 }))), ToolList)
	_, _ = ask(see(answers(200, reply(t, ToolStatus, false, nil))), ToolStatus)
	_, _ = ask(see(answers(502, nil)), ToolAccount)
	_, _ = see(answers(200, nil)).Status(t.Context(), StatusRequest{})
	for i := range seen {
		seen[i].Took = 0
	}
	want := []Call{
		{Tool: ToolList, Unknown: 1}, {Tool: ToolStatus, Code: CodeInvalidInput}, {Tool: ToolAccount, Outage: OutageStatus},
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("observed %+v", seen)
	}
}

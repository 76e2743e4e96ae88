package envoy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// HTTPOptions are the settings of the transport that all connections share. The
// zero value is right for production.
type HTTPOptions struct {
	RootCAs *x509.CertPool // nil: those of the system
	// DialsPerHost is how many requests may be setting up a connection to one host
	// at a time. Zero: 8. Without a bound, a hundred holds that start together dial
	// a hundred times before the first HTTP/2 connection can take them all.
	DialsPerHost int
	// ConnsPerHost bounds the connections to one host. HTTP/1 needs one for each
	// hold. Zero: 4096.
	ConnsPerHost int
	// UnencryptedHTTP2 speaks HTTP/2 with prior knowledge to http:// addresses, and
	// no HTTP/1 there. For tests and benchmarks.
	UnencryptedHTTP2 bool
}

const (
	defaultDials     = 8
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	// A hold is silent for 45 s. The pings tell a silent connection from a dead one.
	pingAfter   = 20 * time.Second
	pingTimeout = 10 * time.Second
)

// NewHTTPClient gives the HTTP client that all connections share: HTTP/2 where
// TLS offers it, TLS 1.2 at least, no compression, no redirects, no cookies. Call
// its CloseIdleConnections at the end.
func NewHTTPClient(o HTTPOptions) *http.Client {
	dial := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	return newHTTPClient(o, dial)
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newHTTPClient(o HTTPOptions, dial dialFunc) *http.Client {
	if o.DialsPerHost <= 0 {
		o.DialsPerHost = defaultDials
	}
	if o.ConnsPerHost <= 0 {
		o.ConnsPerHost = 4096
	}
	p := new(http.Protocols)
	p.SetHTTP2(true)
	if o.UnencryptedHTTP2 {
		p.SetUnencryptedHTTP2(true)
	} else {
		p.SetHTTP1(true)
	}
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    handshakeTimeout,
		Protocols:              p,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true, // a second buffer would hold what the first one may not keep
		MaxConnsPerHost:        o.ConnsPerHost,
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    o.ConnsPerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Transport:     &gate{next: t, width: o.DialsPerHost, hosts: map[string]chan struct{}{}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// gate is what all connections share: the way to the hosts, and the memory for
// replies. It lets a bounded number of calls to one host look for a connection at
// a time. A call that finds one is through at once; the hosts do not wait for
// each other.
type gate struct {
	next   http.RoundTripper
	width  int
	slates slates

	mu    sync.Mutex
	hosts map[string]chan struct{} // as many as there are base URLs
}

// gateOf gives the gate of a transport; one that has none gets a gate of its own.
func gateOf(t http.RoundTripper) *gate {
	if g, ok := t.(*gate); ok {
		return g
	}
	if t == nil {
		return gateOf(NewHTTPClient(HTTPOptions{}).Transport)
	}
	return &gate{next: t, width: defaultDials, hosts: map[string]chan struct{}{}}
}

// RoundTrip implements http.RoundTripper. Clients of this package pass the gate
// before they come here.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) { return g.next.RoundTrip(req) }

// CloseIdleConnections is what http.Client.CloseIdleConnections calls.
func (g *gate) CloseIdleConnections() {
	if c, ok := g.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (g *gate) slots(host string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.hosts[host]
	if !ok {
		s = make(chan struct{}, g.width)
		g.hosts[host] = s
	}
	return s
}

// passage is one call's way through the gate.
type passage struct {
	slots   chan struct{}
	trace   httptrace.ClientTrace
	inside  atomic.Bool // it holds a slot
	through atomic.Bool // it has found a connection
}

// watch gives the context by which net/http tells that a connection was found.
func (p *passage) watch(ctx context.Context) context.Context {
	p.trace.GotConn = p.found
	return httptrace.WithClientTrace(ctx, &p.trace)
}

func (p *passage) found(httptrace.GotConnInfo) {
	p.through.Store(true)
	p.step()
}

// step gives the slot back, once.
func (p *passage) step() {
	if p.inside.Swap(false) {
		<-p.slots
	}
}

// enter waits for a slot.
func (p *passage) enter(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		p.inside.Store(true)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave ends the passage and tells whether it has found a connection.
func (p *passage) leave() bool {
	p.step()
	return p.through.Load()
}

package envoy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
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
		o.DialsPerHost = 8
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

// gate lets a bounded number of requests to one host look for a connection at a
// time. A request that finds one is through at once; the hosts do not wait for
// each other.
type gate struct {
	next  *http.Transport
	width int

	mu    sync.Mutex
	hosts map[string]chan struct{} // as many as there are base URLs
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	slots := g.slots(req.URL.Scheme + "://" + req.URL.Host)
	select {
	case slots <- struct{}{}:
	case <-req.Context().Done():
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, req.Context().Err()
	}
	release := sync.OnceFunc(func() { <-slots })
	defer release()
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { release() }}
	return g.next.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
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

// CloseIdleConnections is what http.Client.CloseIdleConnections calls.
func (g *gate) CloseIdleConnections() { g.next.CloseIdleConnections() }

package envoy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
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
	idleTimeout      = 90 * time.Second // of HTTP/2; an HTTP/1 connection stays until the host closes it
	// A hold is silent for 45 s. The pings tell a silent connection from a dead one.
	pingAfter   = 20 * time.Second
	pingTimeout = 10 * time.Second
)

// NewHTTPClient gives the HTTP client that all connections share: HTTP/2 where
// TLS offers it, TLS 1.2 at least, no compression, no redirects, no cookies, and
// nothing is sent twice. Call its CloseIdleConnections at the end.
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
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Transport:     &exchange{transport: t, options: o, lines: map[[2]string]*line{}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

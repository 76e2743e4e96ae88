package sinks

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"
)

const (
	dialTimeout     = 10 * time.Second
	maxHeaderBytes  = 64 << 10
	idleTimeout     = 60 * time.Second
	idleConnections = 32
)

// TLS names the PEM files for a connection. The zero value means the system's
// authorities and no client certificate.
type TLS struct {
	CA   string // authorities to trust instead of the system's
	Cert string // client certificate, with Key
	Key  string // its private key
}

// Config loads the files and makes a client configuration that wants TLS 1.2 or
// newer and the given server name; empty: the name that is dialled. The client
// certificate is read again for each handshake, so a renewed one is used without
// a restart.
func (t TLS) Config(serverName string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read authorities: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read authorities: %s holds no PEM certificate", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("load client certificate: cert and key go together")
	}
	if t.Cert == "" {
		return c, nil
	}
	if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
		return nil, fmt.Errorf("load client certificate: %w", err)
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("load client certificate: %w", err)
		}
		return &pair, nil
	}
	return c, nil
}

// ClientOptions shape the guarded HTTP client.
type ClientOptions struct {
	AllowCIDRs []netip.Prefix // ranges that may be reached although they are private, loopback, ...
	TLS        TLS
	// Proxy is an http, https or socks5 URL; empty: none. The environment is never asked. The
	// proxy itself may have any address, since an operator named it; it resolves names, so of the
	// target only an address written in the URL can be judged here.
	Proxy string
	// Resolver is for tests; nil: the system's.
	Resolver *net.Resolver
}

// NewHTTPClient builds the one kind of HTTP client that sinks use. Addresses are
// judged (see Judge) at dial time on every connection. Redirects are not
// followed: the 3xx answer itself is returned. Headers of an answer are bounded;
// time and size of bodies are bounded by Exchange. Close its idle connections
// when the sink ends.
func NewHTTPClient(o ClientOptions) (*http.Client, error) {
	tlsConfig, err := o.TLS.Config("")
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Resolver: o.Resolver}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // an answer of a few bytes must not unpack into gigabytes
	}
	g := &guarded{Transport: t}
	if o.Proxy == "" {
		dialer.Control = guard(o.AllowCIDRs)
	} else {
		proxy, err := url.Parse(o.Proxy)
		if err != nil || proxy.Host == "" {
			return nil, errors.New("parse proxy: want http://, https:// or socks5:// and a host")
		}
		t.Proxy = http.ProxyURL(proxy)
		g.literals, g.allow = true, o.AllowCIDRs
	}
	return &http.Client{
		Transport:     g,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// guarded judges addresses written in URLs where a proxy does the dialling.
type guarded struct {
	*http.Transport
	literals bool
	allow    []netip.Prefix
}

// RoundTrip refuses a literal address that is not allowed, and sends the rest.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.literals {
		if err := judgeLiteral(r.URL.Hostname(), g.allow); err != nil {
			return nil, err
		}
	}
	return g.Transport.RoundTrip(r)
}

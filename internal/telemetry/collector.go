package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	collectorPause = time.Second // before a collector that is busy is asked again
	collectorReply = 64 << 10    // bytes of an answer that are read
)

// collector hands spans to an OTLP collector over HTTP. The SDK's own client of this kind links gRPC for one type of
// message: a sixth of all packages, for a POST.
type collector struct {
	url    string
	header http.Header
	zip    bool
	http   *http.Client
}

// newCollector makes the client of the collector at an address. Of the standard's variables it follows those that say how
// to reach one: OTEL_EXPORTER_OTLP_HEADERS, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY, each also with
// TRACES_ after OTLP_.
func newCollector(u *url.URL, version string) (*collector, error) {
	header, err := collectorHeader(standard("HEADERS"))
	if err != nil {
		return nil, err
	}
	header.Set("Content-Type", "application/x-protobuf")
	header.Set("User-Agent", "herald/"+version)
	c := &collector{url: u.String(), header: header}
	switch word := standard("COMPRESSION"); word {
	case "", "none":
	case "gzip":
		c.zip = true
		header.Set("Content-Encoding", "gzip")
	default:
		return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_COMPRESSION: %q is neither gzip nor none", word)
	}
	trust, err := collectorTLS(standard("CERTIFICATE"), standard("CLIENT_CERTIFICATE"), standard("CLIENT_KEY"))
	if err != nil {
		return nil, err
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, TLSHandshakeTimeout: traceTimeout, IdleConnTimeout: idleTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       traceTimeout,
	}
	return c, nil
}

// standard gives a variable of the OTLP exporters; the one for traces alone comes first.
func standard(name string) string {
	if v := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name)); v != "" {
		return v
	}
	return strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + name))
}

// collectorHeader reads name=value pairs between commas, the values with % escapes. An error names no value: it may be a key.
func collectorHeader(list string) (http.Header, error) {
	out := http.Header{}
	for i, pair := range strings.Split(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_HEADERS: pair %d is no name=value", i+1)
		}
		out.Set(name, value)
	}
	return out, nil
}

// collectorTLS reads the authority that signed the collector's certificate, and our own certificate; each may be left out.
func collectorTLS(authority, certificate, key string) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		if err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("read OTEL_EXPORTER_OTLP_CERTIFICATE: the file has no certificate")
		}
	}
	if certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Start has nothing to do.
func (c *collector) Start(context.Context) error { return nil }

// Stop lets the connections go.
func (c *collector) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends a batch. A collector that is busy is asked again for as long as ctx lasts.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// On the wire this is the request of the collector's service: one field, of the same number and type.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	if c.zip {
		body = zipped(body)
	}
	for {
		err := c.post(ctx, body)
		var a status
		if !errors.As(err, &a) || !a.busy() {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(collectorPause):
		}
	}
}

func (c *collector) post(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request to the trace collector: %w", err)
	}
	r.Header = c.header.Clone()
	resp, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, collectorReply))
	switch {
	case resp.StatusCode/100 != 2:
		return status(resp.StatusCode)
	case err != nil:
		return fmt.Errorf("read the answer of the trace collector: %w", err)
	case partly(said):
		return errors.New("it took a part of the spans only")
	}
	return nil
}

// status is an answer that is no success.
type status int

// Error names the status.
func (s status) Error() string { return fmt.Sprintf("it answers with status %d", int(s)) }

// busy tells whether the standard has it asked again.
func (s status) busy() bool {
	switch int(s) {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// partly tells whether an answer of success counts spans that were refused: field 1 of its field 1.
func partly(said []byte) bool {
	inner, ok := field1(said, protowire.BytesType)
	if !ok {
		return false
	}
	message, _ := protowire.ConsumeBytes(inner)
	refused, ok := field1(message, protowire.VarintType)
	if !ok {
		return false
	}
	n, _ := protowire.ConsumeVarint(refused)
	return n != 0
}

// field1 gives what begins with the value of field 1 of a message.
func field1(b []byte, want protowire.Type) ([]byte, bool) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, false
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return nil, false
		}
		if number == 1 && kind == want {
			return b, true
		}
		b = b[size:]
	}
	return nil, false
}

func zipped(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // a bytes.Buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

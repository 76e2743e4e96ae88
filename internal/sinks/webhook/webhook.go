// Package webhook posts notifications to an HTTP receiver: as CloudEvents, signed
// after Standard Webhooks, or in the receiver's own format by a template or a
// preset (PagerDuty, Teams, Discord, ntfy).
//
// The answer decides what happens next:
//
//	2xx                      accepted
//	3xx                      Refused; redirects are not followed
//	401, 407, 403 that names authentication
//	                         Paused
//	408, 425                 Temporary
//	410                      Gone
//	429                      Down, for as long as Retry-After says
//	other 4xx                Refused
//	5xx                      Temporary; with Retry-After Down for that long
//	no connection            Down: DNS, dial, TLS, and an address that is not allowed,
//	                         since no event is to blame for any of them
//	no answer                Temporary: the receiver may have taken it
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/heraldbridge/herald/internal/deadline"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// Mode is where the attributes of an event are.
type Mode string

// The modes of CloudEvents over HTTP.
const (
	ModeStructured Mode = "structured" // in the body, with the data
	ModeBinary     Mode = "binary"     // in ce- headers; the body is the data
)

// DefaultTimeout bounds a try when the configuration does not.
const DefaultTimeout = 10 * time.Second

// Config describes one receiver.
type Config struct {
	Name string
	URL  secret.Value // http or https; path, query and user often are credentials
	// Secrets gives the signing secrets at each try, all of which sign. whsec_ and base64 is an HMAC key
	// (signature v1), whsk_ and base64 an ed25519 private key (v1a); the bytes of any other text are
	// an HMAC key as they stand. Nil or an empty list: not signed. The preset pagerduty takes the
	// first one as its routing key instead.
	Secrets     func(ctx context.Context) ([]secret.Value, error)
	Headers     map[string]secret.Value // further headers
	Timeout     time.Duration           // of one try; zero: DefaultTimeout
	Mode        Mode                    // empty: structured
	TLS         sinks.TLS
	Proxy       string
	AllowCIDRs  []netip.Prefix
	Preset      Preset           // not with Template
	Template    string           // text of a Go template that makes the body
	ContentType string           // of what Template makes; empty: application/json
	Location    *time.Location   // of times in presets and templates; nil: UTC
	Client      *http.Client     // nil: a guarded one made from TLS, Proxy and AllowCIDRs
	Now         func() time.Time // nil: time.Now
}

// Sink posts to one receiver.
type Sink struct {
	name    string
	url     *url.URL
	config  Config
	client  *http.Client
	own     bool        // client was made here
	header  http.Header // of every request
	host    string
	render  renderer
	signs   bool
	secrets []secret.Value // to be masked wherever they are echoed
	now     func() time.Time
}

// payload is a body and what describes it.
type payload struct {
	body        []byte
	contentType string
	header      http.Header
}

type renderer func(ctx context.Context, n sinks.Notification, keys []secret.Value) (payload, error)

// New checks a configuration, compiles and tries its template, and makes the
// sink. Errors never repeat the URL.
func New(c Config) (*Sink, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Sink{name: c.Name, config: c, client: c.Client, now: c.Now, signs: c.Secrets != nil && c.Preset != PresetPagerDuty}
	if s.config.Timeout <= 0 {
		s.config.Timeout = DefaultTimeout
	}
	var problems []error
	var err error
	if s.url, err = parseURL(c.URL); err != nil {
		problems = append(problems, err)
	}
	if err := checkHeaders(c.Headers); err != nil {
		problems = append(problems, err)
	}
	if s.render, err = newRenderer(c); err != nil {
		problems = append(problems, err)
	}
	if s.client == nil {
		s.own = true
		s.client, err = sinks.NewHTTPClient(sinks.ClientOptions{AllowCIDRs: c.AllowCIDRs, TLS: c.TLS, Proxy: c.Proxy})
		if err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("build webhook sink %s: %w", c.Name, errors.Join(problems...))
	}
	s.secrets = masked(s.url, c)
	s.header, s.host = constant(c.Headers, s.url)
	return s, nil
}

// constant is what every request has: the operator's headers, of which Host is none, and our name.
func constant(headers map[string]secret.Value, u *url.URL) (http.Header, string) {
	h := make(http.Header, len(headers)+1)
	for name, value := range headers {
		h.Set(name, value.Reveal())
	}
	h.Set("User-Agent", "Herald")
	host := cmp.Or(h.Get("Host"), u.Host)
	h.Del("Host")
	return h, host
}

// Close gives up idle connections.
func (s *Sink) Close() error {
	if s.own {
		s.client.CloseIdleConnections()
	}
	return nil
}

// Send posts one notification, once.
func (s *Sink) Send(ctx context.Context, n sinks.Notification) (sinks.Receipt, error) {
	ctx, cancel := deadline.Within(ctx, s.config.Timeout, s.config.Timeout/8)
	defer cancel()
	keys, err := s.keys(ctx)
	if err != nil {
		return sinks.Receipt{}, s.fail(&sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonAuth, Err: err})
	}
	mask := func() []secret.Value { return slices.Concat(s.secrets, keys) }
	p, err := s.render(ctx, n, keys)
	if err != nil {
		f := &sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender, Err: sinks.CleanError(err, mask()...)}
		if ctx.Err() != nil { // there was no time for it
			f.Verdict, f.Reason = sinks.Temporary, sinks.ReasonTimeout
		}
		return sinks.Receipt{}, s.fail(f)
	}
	r := s.request(p.body)
	if err := s.head(ctx, r, n, p, keys); err != nil {
		return sinks.Receipt{}, s.fail(&sinks.Failure{Verdict: sinks.Paused, Reason: sinks.ReasonAuth, Err: err})
	}
	answer, err := sinks.Exchange(ctx, s.client, r, sinks.Bounds{}, mask)
	if err != nil {
		var f *sinks.Failure
		errors.As(err, &f)
		return sinks.Receipt{}, s.fail(f)
	}
	if f := verdict(answer, s.now(), mask); f != nil {
		return sinks.Receipt{}, s.fail(f)
	}
	return sinks.Receipt{Detail: strconv.Itoa(answer.Status)}, nil
}

func (s *Sink) keys(ctx context.Context) ([]secret.Value, error) {
	if s.config.Secrets == nil {
		return nil, nil
	}
	keys, err := s.config.Secrets(ctx)
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	return keys, nil
}

// request is the bare POST. A connection that was closed while it idled lets it be sent on another one, hence GetBody.
func (s *Sink) request(body []byte) *http.Request {
	reader := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := reader()
	return &http.Request{
		Method: http.MethodPost, URL: s.url, Host: s.host, Header: make(http.Header, len(s.header)+8),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: first, GetBody: reader, ContentLength: int64(len(body)),
	}
}

// head sets the headers: the operator's first, so that ours always win. Values are
// shared by requests, which do not change them.
func (s *Sink) head(ctx context.Context, r *http.Request, n sinks.Notification, p payload, keys []secret.Value) error {
	maps.Copy(r.Header, s.header)
	maps.Copy(r.Header, p.header)
	r.Header.Set("Content-Type", p.contentType)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	if n.Attempt > 0 {
		r.Header.Set("Herald-Attempt", strconv.Itoa(n.Attempt))
	}
	if n.Replay {
		r.Header.Set("Herald-Replay", "1")
	}
	if n.Kind != "" && n.Kind != sinks.KindEvent {
		r.Header.Set("Herald-Kind", string(n.Kind))
	}
	id := messageID(n)
	r.Header.Set("Webhook-Id", id)
	at := s.now()
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	if !s.signs || len(keys) == 0 {
		return nil
	}
	signature, err := Sign(keys, id, at, p.body)
	if err != nil {
		return err
	}
	r.Header.Set("Webhook-Signature", signature)
	return nil
}

// messageID is the event's id, the same over all tries, so that receivers can
// drop repeats. A reminder is about an event that was sent already and must not
// be dropped as one.
func messageID(n sinks.Notification) string {
	if n.Kind == sinks.KindRemind {
		return n.Event.ID + "-remind-" + strconv.Itoa(n.Reminded)
	}
	return n.Event.ID
}

func (s *Sink) fail(f *sinks.Failure) error { return f.At(s.name) }

package sinks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/heraldbridge/herald/internal/secret"
)

const (
	// MaxExcerpt is the most of an answer that is kept, in bytes.
	MaxExcerpt = 8 << 10
	// maxDrain is how much more is read so that the connection can be used again.
	maxDrain = 64 << 10
	// maxShort is up to which length an answer is given room before any of it has come.
	maxShort = 4 << 10
	// bodyTime bounds the reading of a body whose status is known already.
	bodyTime = time.Second
	// maxRetryAfter bounds what a receiver may ask for.
	maxRetryAfter = time.Hour
)

// Answer is what a receiver said, bounded.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // bounded
}

// Bounds limit the reading of an answer's body. The zero value is right for
// receivers whose status says it all.
type Bounds struct {
	Keep int64         // bytes kept; zero: MaxExcerpt
	Time time.Duration // for the body, after the headers; zero: 1 s
}

// Exchange sends one request, once, and reads a bounded part of the answer. Any
// answer at all, whatever its status, is no error; a missing one is a *Failure,
// cleaned of addresses and of the secrets that mask gives (nil: of none). ctx
// bounds everything. The verdict is Down while no connection was made and
// Temporary afterwards, when the receiver may have seen the request.
func Exchange(ctx context.Context, c *http.Client, r *http.Request, b Bounds, mask func() []secret.Value) (Answer, error) {
	if b.Keep == 0 {
		b.Keep = MaxExcerpt
	}
	if b.Time == 0 {
		b.Time = bodyTime
	}
	var p phase
	resp, err := roundTrip(c, r.WithContext(httptrace.WithClientTrace(ctx, p.trace())))
	if err != nil {
		var secrets []secret.Value
		if mask != nil {
			secrets = mask()
		}
		return Answer{}, p.failure(err, secrets)
	}
	a := Answer{Status: resp.StatusCode, Header: resp.Header}
	if resp.Body != http.NoBody {
		// The status decides; a body that drips must not hold the try up to its whole time.
		timer := time.AfterFunc(b.Time, func() { _ = resp.Body.Close() })
		defer timer.Stop()
		a.Body = ReadBounded(resp, b.Keep)
	}
	return a, nil
}

// roundTrip is c.Do for a client without cookies that follows nothing. All else that Do does, at the price of a copy of
// the headers, is to take the user out of the address.
func roundTrip(c *http.Client, r *http.Request) (*http.Response, error) {
	if u := r.URL.User; u != nil && r.Header.Get("Authorization") == "" {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
	if c.Transport == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return c.Transport.RoundTrip(r)
}

// ReadBounded keeps at most n bytes of a body, reads at most 64 KiB more so that
// the connection can be used again, and closes it. What cannot be read is left
// out: the status has decided already. Of a receiver that switches protocols nothing
// is read: that body is the bare connection, which no context and no timer ends.
func ReadBounded(resp *http.Response, n int64) []byte {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	if length := resp.ContentLength; length >= 0 && length <= min(n, maxShort) {
		kept := make([]byte, length+1) // one more, to see the end
		got, _ := io.ReadFull(resp.Body, kept)
		return kept[:got]
	}
	kept, err := io.ReadAll(io.LimitReader(resp.Body, n))
	if err == nil && int64(len(kept)) == n { // else the end was seen
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
	return kept
}

// phase is how far a request came. The transport may still be dialling for it in
// the background when the request is over, hence the atomics.
type phase struct {
	resolving, connecting, handshaking, connected atomic.Bool
}

func (p *phase) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { p.resolving.Store(true) },
		DNSDone:           func(httptrace.DNSDoneInfo) { p.resolving.Store(false) },
		ConnectStart:      func(string, string) { p.connecting.Store(true) },
		TLSHandshakeStart: func() { p.handshaking.Store(true) },
		GotConn:           func(httptrace.GotConnInfo) { p.connected.Store(true) },
	}
}

func (p *phase) failure(err error, secrets []secret.Value) *Failure {
	f := &Failure{Verdict: Down, Reason: p.reason(err), Err: short(secret.Redact(err, secrets...), secrets)}
	// A refused handshake can show only after the connection was used: nothing was taken then either.
	if p.connected.Load() && f.Reason != ReasonTLS || errors.Is(err, context.Canceled) {
		f.Verdict = Temporary
	}
	return f
}

func (p *phase) reason(err error) Reason {
	var blocked *BlockedError
	var dns *net.DNSError
	switch {
	case errors.As(err, &blocked):
		return ReasonBlocked
	case errors.As(err, &dns), !p.connected.Load() && p.resolving.Load():
		return ReasonDNS
	case isTLS(err), !p.connected.Load() && p.handshaking.Load():
		return ReasonTLS
	case isTimeout(err), errors.Is(err, context.Canceled):
		if !p.connected.Load() && p.connecting.Load() {
			return ReasonDial
		}
		return ReasonTimeout
	case !p.connected.Load():
		return ReasonDial
	case IsReset(err):
		return ReasonReset
	default:
		return ReasonProtocol
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func isTLS(err error) bool {
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") {
		return true // how crypto/tls says that one side gave the handshake up
	}
	return errors.As(err, &cert) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &host) || errors.As(err, &authority)
}

// IsReset reports whether the other side ended the connection.
func IsReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// NetworkFailure classifies an error of a connection that a sink handles itself:
// Down while nothing was connected, Temporary afterwards.
func NetworkFailure(err error, connected bool, secrets ...secret.Value) *Failure {
	var p phase
	p.connected.Store(connected)
	p.connecting.Store(!connected)
	return p.failure(err, secrets)
}

// CleanError takes addresses and the given secrets out of an error.
func CleanError(err error, secrets ...secret.Value) error { return secret.Redact(err, secrets...) }

// short bounds the text of an error that may quote the other side: a line of an
// answer, a certificate's names.
func short(err error, secrets []secret.Value) error {
	if text := Excerpt([]byte(err.Error()), secrets...); text != err.Error() {
		return &shortened{text, err}
	}
	return err
}

type shortened struct {
	text  string
	cause error
}

func (s *shortened) Error() string { return s.text }

func (s *shortened) Unwrap() error { return s.cause }

// Excerpt is a short, masked, single-line part of an answer, for audit records
// and errors: at most 200 bytes, without control, bidirectional and invisible
// characters, since a terminal may show it.
func Excerpt(body []byte, secrets ...secret.Value) string {
	const limit = 200
	text := secret.RedactText(strings.ToValidUTF8(string(body), ""), secrets...)
	text = secret.RedactText(strings.Map(printable, text), secrets...) // what was broken up by what cannot be seen
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

func printable(r rune) rune {
	switch {
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return -1
	case unicode.IsControl(r):
		return ' '
	}
	return r
}

// RetryAfter reads the wait that an answer asks for, in seconds (whole or
// decimal) or as a date, at most one hour; zero: it asked for none.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(seconds) || seconds <= 0 {
			return 0
		}
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(text)
	if err != nil || !at.After(now) {
		return 0
	}
	return min(at.Sub(now), maxRetryAfter)
}

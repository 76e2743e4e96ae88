package envoy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/heraldbridge/herald/internal/secret"
)

const (
	grace = 15 * time.Second // on top of the wait, for the way there and back
	// A token this long is looked for in replies; a shorter one would be found by chance.
	echoBytes = 16
)

// decode takes from a valid envelope with ok true what the tool is asked for.
// Breaches of the contract go to the decoder; errForeign is the only error.
type decode func(*decoder, *envelope) error

// call makes one call and never a second one.
func (c *Client) call(ctx context.Context, tool Tool, body []byte, wait time.Duration, take decode) error {
	limited, cancel := context.WithTimeout(ctx, wait+grace)
	defer cancel()
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, token, err := c.request(httptrace.WithClientTrace(limited, trace), tool, body)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}

	start := time.Now()
	status := 0
	result := Call{Tool: tool}
	err = func() error {
		resp, err := c.transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		status = resp.StatusCode
		if resp.ContentLength > maxReply {
			return errTooLarge
		}
		reply, err := c.buffers.read(resp.Body)
		defer func() { c.buffers.wipe(reply) }()
		if err != nil {
			return err
		}
		return c.judge(tool, token, status, reply, take, &result)
	}()
	result.Took = time.Since(start)
	err = settle(ctx, err, &result, attempt{status: status, connected: connected.Load() || status != 0, late: limited.Err() != nil})
	if c.options.Observe != nil {
		c.options.Observe(result)
	}
	return err
}

// attempt is how far a call came.
type attempt struct {
	status    int  // 0: no HTTP answer
	connected bool // there was a connection
	late      bool // our own time-out has passed
}

// settle turns whatever ended a call into one of the errors that Reader
// promises, and notes it for the observer.
func settle(ctx context.Context, err error, result *Call, a attempt) error {
	var (
		refusal *Error
		outage  *Outage
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		result.Code = refusal.Code
		return err
	case errors.As(err, &outage):
		outage.Took = result.Took
	case ctx.Err() != nil:
		result.Ended = true
		return ctx.Err()
	default:
		kind, cleaned := cause(err, a)
		outage = &Outage{Tool: result.Tool, Kind: kind, Status: a.status, Took: result.Took, Err: cleaned}
	}
	result.Outage = outage.Kind
	return outage
}

// judge decides what a reply is. The HTTP status has a say only where no
// envelope is found.
func (c *Client) judge(tool Tool, token secret.Value, status int, reply []byte, take decode, result *Call) error {
	outage := func(kind OutageKind, err error) error {
		return &Outage{Tool: tool, Kind: kind, Status: status, Err: err}
	}
	if !json.Valid(reply) {
		if status != http.StatusOK {
			return outage(OutageStatus, nil)
		}
		return outage(OutageMalformed, errors.New("no JSON"))
	}
	reply = trimSpace(reply)
	if secret := token.Reveal(); len(secret) >= echoBytes && bytes.Contains(reply, []byte(secret)) {
		return outage(OutageMalformed, errors.New("the reply repeats the token"))
	}
	if status != http.StatusOK && !looksLikeEnvelope(reply) {
		return outage(OutageStatus, nil)
	}
	d := &decoder{}
	e := d.envelope(reply)
	if d.fault != nil {
		return outage(OutageMalformed, d.fault)
	}
	result.Unknown = d.unknown
	e.meta.Unknown = d.unknown
	if e.origin == "client" {
		return outage(OutageClientOwn, nil)
	}
	if !e.ok {
		return e.refusal(tool)
	}
	if e.tool != string(tool) {
		return outage(OutageMalformed, &fault{path: "tool", problem: "is another one"})
	}
	err := take(d, e)
	result.Unknown = d.unknown
	switch {
	case d.fault != nil:
		return outage(OutageMalformed, d.fault)
	case err != nil:
		return outage(OutageForeign, err)
	}
	return nil
}

// looksLikeEnvelope tells a damaged envelope from the JSON of some proxy.
func looksLikeEnvelope(reply []byte) bool {
	if kindOf(reply) != kindObject {
		return false
	}
	for _, m := range members(reply) {
		if m.is("ok") {
			return true
		}
	}
	return false
}

// request makes the HTTP request of one call. GetBody stays nil and no header
// promises idempotence: net/http must not send a call a second time by itself,
// since the lost reply of the first may have been a ready one.
func (c *Client) request(ctx context.Context, tool Tool, body []byte) (*http.Request, secret.Value, error) {
	own := func(problem string) (*http.Request, secret.Value, error) {
		return nil, secret.Value{}, &Outage{Tool: tool, Kind: OutageClientOwn, Err: errors.New(problem)}
	}
	if c.urls == nil {
		return own("the base URL is no http or https address without user, query and fragment")
	}
	address, ok := c.urls[tool]
	if !ok {
		return nil, secret.Value{}, refuse(tool, "/tool", "not one of the three tools that observe")
	}
	token, err := c.token(ctx)
	if err != nil {
		return own("read token: " + secret.CleanError(err).Error())
	}
	if !headerValue(token.Reveal()) {
		return own("read token: empty, or not fit for a header")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return own("make request: the base URL is not valid")
	}
	req.ContentLength, req.GetBody = int64(len(body)), nil
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "herald/"+c.options.Version)
	if c.options.Proof != nil {
		proof, err := c.options.Proof(ctx, req.Method, address, sha256.Sum256(body))
		if err != nil {
			return own("make proof: " + secret.Redact(err, token).Error())
		}
		if !headerValue(proof) {
			return own("make proof: empty, or not fit for a header")
		}
		req.Header.Set("Envoy-Installation-Proof", proof)
	}
	return req, token, nil
}

func (c *Client) token(ctx context.Context) (secret.Value, error) {
	if c.options.Token == nil {
		return secret.Value{}, errors.New("no source")
	}
	return c.options.Token(ctx)
}

// headerValue tells whether a secret can go into a header: net/http would refuse
// others, or cut them.
func headerValue(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}

package envoy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/heraldbridge/herald/internal/deadline"
	"github.com/heraldbridge/herald/internal/secret"
)

const (
	// Grace is what a call may take on top of its wait, for the way there and back.
	// A context that ends sooner, or little later, ends the call as the client's own time-out does.
	Grace = 15 * time.Second
	// Slack is how much later a context of the caller's may end a call than the client would by itself, so that calls
	// can share a deadline.
	Slack = 5 * time.Second
	// A token this long is looked for in replies; a shorter one would be found by chance.
	echoBytes = 16
)

// decode takes from a valid envelope with ok true what the tool is asked for.
// Breaches of the contract go to the decoder; errForeign is the only error.
type decode func(*decoder, *envelope) error

// call makes one call and never a second one. While a hold waits this is all that
// it keeps of ours: nothing of a reply is there before its first byte.
func (c *Client) call(ctx context.Context, tool Tool, body []byte, wait time.Duration, take decode) error {
	limited, cancel := deadline.Within(ctx, wait+Grace, Slack)
	defer cancel()
	req, token, err := c.request(limited, tool, body)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	result := Call{Tool: tool}
	start := time.Now()
	resp, err := c.transport.RoundTrip(req)
	reached := attempt{}
	if err == nil {
		reached.status = resp.StatusCode
		err = c.receive(resp, token, take, &result)
	}
	result.Took = time.Since(start)
	reached.late = errors.Is(limited.Err(), context.DeadlineExceeded)
	err = settle(ctx, err, &result, reached)
	if c.options.Observe != nil {
		c.options.Observe(result)
	}
	return err
}

// receive reads and judges a reply.
func (c *Client) receive(resp *http.Response, token secret.Value, take decode, result *Call) error {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return &Outage{Kind: OutageStatus, Status: resp.StatusCode} // what follows is no body, and nothing would end it
	}
	if resp.ContentLength > maxReply {
		return errTooLarge
	}
	s := c.slates.take()
	defer c.slates.wipe(s)
	if err := s.fill(resp.Body); err != nil {
		return err
	}
	return s.judge(token, resp.StatusCode, take, result)
}

// attempt is how far a call came.
type attempt struct {
	status int  // 0: no HTTP answer
	late   bool // its time was over
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
	case ctx.Err() != nil && !a.late:
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
func (s *slate) judge(token secret.Value, status int, take decode, result *Call) error {
	outage := func(kind OutageKind, err error) error {
		return &Outage{Tool: result.Tool, Kind: kind, Status: status, Err: err}
	}
	d := &s.decoder
	if !d.read(s.text) {
		if status != http.StatusOK {
			return outage(OutageStatus, nil)
		}
		return outage(OutageMalformed, errors.New("no JSON"))
	}
	if secret := token.Reveal(); len(secret) >= echoBytes && bytes.Contains(s.text, []byte(secret)) {
		return outage(OutageMalformed, errors.New("the reply repeats the token"))
	}
	if status != http.StatusOK && !d.looksLikeEnvelope() {
		return outage(OutageStatus, nil)
	}
	e := d.envelope()
	if d.fault != nil {
		return outage(OutageMalformed, d.fault)
	}
	result.Unknown = d.unknown
	e.meta.Unknown = d.unknown
	if e.origin == "client" {
		return outage(OutageClientOwn, nil)
	}
	if !e.ok {
		return e.refusal(result.Tool)
	}
	if e.tool != string(result.Tool) {
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
func (d *decoder) looksLikeEnvelope() bool {
	if d.values[root].kind != kindObject {
		return false
	}
	for n := root + 1; n < d.past(root); n = d.past(n + 1) {
		if d.is(n, "ok") {
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
	if c.requests == nil {
		return own("the base URL is no http or https address without user, query and fragment")
	}
	base, ok := c.requests[tool]
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
	req := base.WithContext(ctx)
	req.Body, req.ContentLength, req.Header = newPayload(body), int64(len(body)), c.header(token)
	if c.options.Proof != nil {
		proof, err := c.options.Proof(ctx, req.Method, req.URL.String(), sha256.Sum256(body))
		if err != nil {
			return own("make proof: " + secret.Redact(err, token).Error())
		}
		if !headerValue(proof) {
			return own("make proof: empty, or not fit for a header")
		}
		req.Header = maps.Clone(req.Header)
		req.Header.Set("Envoy-Installation-Proof", proof)
	}
	return req, token, nil
}

// bearing is a token and the header of its calls. All that wait share it: nothing
// changes a header that was sent.
type bearing struct {
	token  secret.Value
	header http.Header
}

func (c *Client) header(token secret.Value) http.Header {
	if b := c.bearing.Load(); b != nil && b.token.Reveal() == token.Reveal() {
		return b.header
	}
	b := &bearing{token: token, header: http.Header{
		"Authorization": {"Bearer " + token.Reveal()}, "Content-Type": {"application/json"}, "Accept": {"application/json"},
		"User-Agent": {"herald/" + c.options.Version},
	}}
	c.bearing.Store(b)
	return b.header
}

// payload is the body of a request.
type payload struct{ bytes.Reader }

func newPayload(body []byte) *payload {
	p := &payload{}
	p.Reset(body)
	return p
}

// Close does nothing: the bytes go with the request.
func (p *payload) Close() error { return nil }

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

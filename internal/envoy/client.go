// Package envoy is the contract envoy@2026-10 as Go types that have no room for
// secrets, and a client that calls once and never retries. Payment details,
// profile, addresses and links cannot be held because no field exists for them.
//
// A reply is decoded in place, from a buffer that is wiped afterwards. What is not
// decoded is never copied. A reply counts only as a whole: a member that is
// missing or of a wrong type makes an Outage, while fields that the contract does
// not name are dropped and counted, and words that it does not name are kept.
package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/heraldbridge/herald/internal/secret"
)

// StatusRequest asks for one purchase. Purchase is required: the contract would let
// the call pass without and choose one itself, so the client refuses.
type StatusRequest struct {
	Purchase string // purchase id or idempotency key
	// Args, when set, goes out as these very bytes (next.args as it came); the client
	// checks that its purchase member equals Purchase and that it holds nothing but
	// what [ParseArgs] takes. AfterRevision and Wait are not looked at then.
	Args json.RawMessage
	// AfterRevision and Wait make a hold. Wait of zero is a plain read; 45 s at the
	// most, in whole seconds.
	AfterRevision *int64
	Wait          time.Duration
}

// Reader is what the client offers; each call is made once.
//
// Errors: *Error for ok false, *Outage without a valid envelope (of kind timeout when
// the context's time is over), the context's error when it was cancelled. ErrRefused (which is an *Error too) for a call that was not sent.
type Reader interface {
	Status(ctx context.Context, r StatusRequest) (*Status, error)
	Look(ctx context.Context, withAgent bool) (*Look, error)
	List(ctx context.Context) (*List, error)
}

// Options make a Client.
type Options struct {
	// BaseURL is where /tools/{tool} hangs, http or https, without query.
	BaseURL string
	// Token gives the bearer; it is asked before each call. A failure is an Outage
	// of kind client_own.
	Token func(context.Context) (secret.Value, error)
	// Proof gives the header Envoy-Installation-Proof of a key-bound connection for
	// the SHA-256 digest of the exact body. Asked afresh for each call; nil: none.
	Proof func(ctx context.Context, method, url string, digest [32]byte) (string, error)
	// HTTP is shared by all connections, see [NewHTTPClient]. Only its Transport is
	// used, so that neither redirects nor cookies exist here. Nil: a client of its own.
	HTTP *http.Client
	// Version goes into the User-Agent; empty: dev.
	Version string
	// Observe is told of each call that was sent, once, when it has ended; nil: nobody.
	Observe func(Call)
}

// Call is what became of one call, in words that are safe as metric labels.
type Call struct {
	Tool    Tool
	Code    Code       // set for ok false; check Known before using it as a label
	Outage  OutageKind // set without a valid envelope
	Ended   bool       // the caller's context ended it
	Took    time.Duration
	Unknown int // fields that the contract does not name
}

// Client calls the three tools, each call once.
type Client struct {
	options   Options
	transport http.RoundTripper
	slates    *slates
	bearing   atomic.Pointer[bearing]
	requests  map[Tool]*http.Request // what all calls of a tool share; nil if the base URL is unusable
}

var _ Reader = (*Client)(nil)

// New makes a Client. It does not connect. With a base URL that is none, each
// call is an Outage of kind client_own.
func New(o Options) *Client {
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.HTTP == nil || o.HTTP.Transport == nil {
		o.HTTP = NewHTTPClient(HTTPOptions{})
	}
	c := &Client{options: o, transport: o.HTTP.Transport, slates: &slates{}}
	if x, ok := c.transport.(*exchange); ok {
		c.slates = &x.slates
	}
	u, err := url.Parse(o.BaseURL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return c
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath would begin without
	}
	c.requests = map[Tool]*http.Request{}
	for _, t := range []Tool{ToolStatus, ToolList, ToolAccount} {
		c.requests[t] = &http.Request{
			Method: http.MethodPost, URL: u.JoinPath("tools", string(t)), Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}
	}
	return c
}

// Status reads one purchase; with a wait it returns when the purchase changes
// or the wait is over. A reply about another purchase is an Outage of kind foreign.
func (c *Client) Status(ctx context.Context, r StatusRequest) (*Status, error) {
	body, wait, err := statusBody(r)
	if err != nil {
		return nil, err
	}
	var s *Status
	err = c.call(ctx, ToolStatus, body, wait, func(d *decoder, e *envelope) error {
		if e.purchase == none {
			d.fail("purchase", "is null")
			return nil
		}
		s = &Status{Meta: e.meta, Next: e.next, UserAction: e.userAction}
		d.purchase("purchase", e.purchase, &s.Purchase)
		asked := s.Purchase.IdempotencyKey
		if ValidPurchaseID(r.Purchase) {
			asked = s.Purchase.PurchaseID
		}
		if d.fault == nil && asked != r.Purchase {
			return errForeign
		}
		s.Unknown = d.unknown
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Look reads the active purchase and the open card money of the account, and with
// withAgent who the agent is. It releases nothing.
func (c *Client) Look(ctx context.Context, withAgent bool) (*Look, error) {
	body := `{"include":["active_purchase","held_purchases"]}`
	if withAgent {
		body = `{"include":["active_purchase","held_purchases","agent"]}`
	}
	var l *Look
	err := c.call(ctx, ToolAccount, []byte(body), 0, func(d *decoder, e *envelope) error {
		l = d.look(e.meta, e.data)
		l.Unknown = d.unknown
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// List reads the newest 20 purchases. It may lag behind a status read.
func (c *Client) List(ctx context.Context) (*List, error) {
	var l *List
	err := c.call(ctx, ToolList, []byte(`{"limit":20}`), 0, func(d *decoder, e *envelope) error {
		l = d.list(e.meta, e.data)
		l.Unknown = d.unknown
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// errForeign marks a reply about another purchase than the one asked for.
var errForeign = errors.New("about another purchase")

// Package sinks is what every sink is given, how it may fail, and the guarded
// HTTP client that all of them share. A sink renders and sends one notification,
// once; waiting, retrying and order belong to the caller.
package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Kind says why a notification goes out.
type Kind string

// Kinds of notification.
const (
	KindEvent   Kind = "event"   // a matching event, passed on
	KindOpen    Kind = "open"    // an alarm opens
	KindUpdate  Kind = "update"  // an open alarm changed
	KindRemind  Kind = "remind"  // it still lasts
	KindResolve Kind = "resolve" // it ended
	KindTest    Kind = "test"    // an operator tries the sink
)

// Notification is one thing to say.
type Notification struct {
	Kind         Kind
	Event        events.Event    // personal fields that the sink may not have are gone already
	Document     events.Document // the event as stored, where that holds no more than Event
	Subscription string
	Urgent       bool
	Since        time.Time         // when the alarm began, or the situation
	Thread       map[string]string // what the sink's last Receipt about this chain said; nil at first
	Replay       bool              // a dead letter, replayed
	Attempt      int               // from 1
	Reminded     int               // which reminder this is, from 1; the same over retries
	Held         int               // changes held back by pacing since the last notification
}

// Key is the conversation that a notification belongs to: the chain of purchases
// that replaced each other, or the connection for notices.
func (n Notification) Key() string {
	if n.Event.Purchase != nil {
		return n.Event.Purchase.ChainRoot
	}
	return n.Event.Source
}

// Receipt is what a sink wants to be given back with the next notification of
// the same conversation. It holds no secret.
type Receipt struct {
	Thread map[string]string
	Detail string // what the receiver said, short and masked; for the audit record
}

// Sink sends one notification, once. It is safe for concurrent use and stops
// within a second of ctx ending. A nil error means that the receiver accepted
// it; any other is a *Failure.
type Sink interface {
	Send(ctx context.Context, n Notification) (Receipt, error)
}

// Verdict is the instruction that a failure carries.
type Verdict string

// The verdicts. Temporary and Refused are the message's, Down is the sink's,
// Paused and Gone need an operator.
const (
	Temporary Verdict = "temporary" // this message, again later
	Refused   Verdict = "refused"   // this message, a plain refusal: few tries
	Rejected  Verdict = "rejected"  // this message, never again: SMTP 5xx after RCPT or DATA, a template that fails
	Down      Verdict = "down"      // no connection, 429 or Retry-After: the sink, after After
	Paused    Verdict = "paused"    // credentials are refused: until they change
	Gone      Verdict = "gone"      // 410: until the configuration changes
)

// Reason is the closed set of causes, used as a metric label.
type Reason string

// Reasons of failure.
const (
	ReasonDNS       Reason = "dns"
	ReasonDial      Reason = "dial"
	ReasonTLS       Reason = "tls"
	ReasonBlocked   Reason = "blocked_address"
	ReasonTimeout   Reason = "timeout"
	ReasonReset     Reason = "reset"
	ReasonRateLimit Reason = "rate_limited"
	ReasonAuth      Reason = "auth"
	ReasonRedirect  Reason = "redirect"
	ReasonStatus    Reason = "status"
	ReasonServer    Reason = "server_error"
	ReasonGone      Reason = "gone"
	ReasonRender    Reason = "render"
	ReasonProtocol  Reason = "protocol" // the answer made no sense
	ReasonRecipient Reason = "recipient"
)

// Failure is why a try failed and what to do. Its text names the sink and the
// cause, never a secret part of a URL, a header or a body.
type Failure struct {
	Verdict Verdict
	Reason  Reason
	After   time.Duration // how long the receiver asked to wait; zero: it did not
	Status  int           // HTTP or SMTP status; 0: none
	Err     error         // cleaned
}

// Error gives reason, status and cause.
func (f *Failure) Error() string {
	s := string(f.Reason)
	if f.Status != 0 {
		s += fmt.Sprintf(" (%d)", f.Status)
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}

// Unwrap gives the cleaned cause.
func (f *Failure) Unwrap() error { return f.Err }

// At names the sink in the text of the failure.
func (f *Failure) At(sink string) *Failure {
	if f.Err == nil {
		f.Err = errors.New("no further cause")
	}
	f.Err = fmt.Errorf("sink %s: %w", sink, f.Err)
	return f
}

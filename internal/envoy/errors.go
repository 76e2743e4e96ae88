package envoy

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is error.code of the contract. Branch on it, never on the HTTP status.
type Code string

// The codes of contract envoy@2026-10, and CodeNone for a reply that is no
// valid envelope (proxy page, cut JSON, reset, time-out) or that names origin client.
const (
	CodeNone                 Code = ""
	CodeInvalidInput         Code = "INVALID_INPUT"
	CodeUnauthenticated      Code = "UNAUTHENTICATED"
	CodeNotAllowed           Code = "NOT_ALLOWED"
	CodeServiceNotEnabled    Code = "SERVICE_NOT_ENABLED"
	CodeNotFound             Code = "NOT_FOUND"
	CodeIdempotencyConflict  Code = "IDEMPOTENCY_CONFLICT"
	CodeActivePurchaseExists Code = "ACTIVE_PURCHASE_EXISTS"
	CodeStateConflict        Code = "STATE_CONFLICT"
	CodeNoRail               Code = "NO_RAIL"
	CodeRateLimited          Code = "RATE_LIMITED"
	CodeUnavailable          Code = "UNAVAILABLE"
	CodeClientUpdateRequired Code = "CLIENT_UPDATE_REQUIRED"
)

// Error is a reply with ok false.
type Error struct {
	Tool      Tool
	Code      Code
	Retryable bool
	// After is how long Envoy asks to wait: next.after_seconds, else
	// retry_after_seconds; zero if neither is given.
	After time.Duration
	// Fields are the JSON pointers of error.fields; no value of ours is in them.
	Fields []string
	Meta   Meta
}

// Error names tool, code and request id, and nothing that the reply carried as text.
func (e *Error) Error() string {
	s := "call " + string(e.Tool) + ": envoy answered " + string(e.Code)
	if len(e.Fields) > 0 {
		s += " for " + strings.Join(e.Fields, ", ")
	}
	if e.Meta.RequestID != "" {
		s += " (request " + e.Meta.RequestID + ")"
	}
	return s
}

// OutageKind is the closed set of ways in which no valid envelope came back.
type OutageKind string

// Kinds of outage.
const (
	OutageDial      OutageKind = "dial"
	OutageTimeout   OutageKind = "timeout"
	OutageReset     OutageKind = "reset"
	OutageStatus    OutageKind = "status"     // an HTTP answer that is no envelope: 204, 304, 502 with a page, a redirect
	OutageMalformed OutageKind = "malformed"  // cut or wrong JSON, a missing field, a wrong type
	OutageTooLarge  OutageKind = "too_large"  // over 1 MiB
	OutageForeign   OutageKind = "foreign"    // about another purchase than the one asked for
	OutageClientOwn OutageKind = "client_own" // origin: client
)

// Outage is a call without a valid envelope. The lost reply may have been a
// ready one, so the caller plans again and never repeats blindly.
type Outage struct {
	Tool   Tool
	Kind   OutageKind
	Status int           // HTTP status, 0 if none came
	Took   time.Duration // from request to failure: an ended hold is no failure
	Err    error         // cleaned: no URL, no token, no byte of the body
}

// Error names tool, kind and status.
func (e *Outage) Error() string {
	s := "call " + string(e.Tool) + ": no valid reply (" + string(e.Kind) + ")"
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cleaned cause.
func (e *Outage) Unwrap() error { return e.Err }

// ErrRefused says that the client did not send the call at all. The error is an
// *Error with code INVALID_INPUT besides, so that it is handled like one of Envoy's.
var ErrRefused = errors.New("refused before sending")

// refuse makes the error of a call that is not sent. The problem holds no value
// that the caller gave.
func refuse(tool Tool, field, problem string) error {
	return fmt.Errorf("%w: %s: %w", ErrRefused, problem, &Error{Tool: tool, Code: CodeInvalidInput, Fields: []string{field}})
}

// Known tells whether the contract names the code. Use it before a code becomes
// a metric's label.
func (c Code) Known() bool {
	switch c {
	case CodeInvalidInput, CodeUnauthenticated, CodeNotAllowed, CodeServiceNotEnabled, CodeNotFound,
		CodeIdempotencyConflict, CodeActivePurchaseExists, CodeStateConflict, CodeNoRail, CodeRateLimited,
		CodeUnavailable, CodeClientUpdateRequired:
		return true
	case CodeNone:
		return false
	default:
		return false
	}
}

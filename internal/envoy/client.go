// Package envoy is the contract envoy@2026-10 as Go types that have no room for
// secrets, and a client that calls once and never retries. Payment details,
// profile, addresses and links cannot be held because no field exists for them.
package envoy

import (
	"context"
	"encoding/json"
	"time"
)

// StatusRequest asks for one purchase. Purchase is required: the contract would let
// the call pass without and choose one itself, so the client refuses.
type StatusRequest struct {
	Purchase string // purchase id or idempotency key
	// Args, when set, goes out as these very bytes (next.args as it came); the client
	// checks only that its purchase member equals Purchase.
	Args json.RawMessage
	// AfterRevision and Wait make a hold. Wait of zero is a plain read; 45 s at the most.
	AfterRevision *int64
	Wait          time.Duration
}

// Reader is what the client offers; each call is made once.
//
// Errors: *Error for ok false, *Outage without a valid envelope, the context's error
// when the context ended.
type Reader interface {
	Status(ctx context.Context, r StatusRequest) (*Status, error)
	Look(ctx context.Context, withAgent bool) (*Look, error)
	List(ctx context.Context) (*List, error)
}

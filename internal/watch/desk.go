package watch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// op is what is asked of the owner of a connection.
type op string

const (
	opRegister   op = "register"
	opUnregister op = "unregister"
	opList       op = "list"
)

// request is what a host asks of the owner of a connection, over HTTP or NATS.
type request struct {
	Op       op     `json:"op,omitempty"` // empty: register
	Purchase string `json:"purchase,omitempty"`
}

// check tells what is wrong with a request.
func (q request) check() *mistake {
	switch q.Op {
	case opList:
		if q.Purchase != "" {
			return &mistake{Code: "bad_input", Field: "purchase", Problem: "not used with op list"}
		}
		return nil
	case opRegister, opUnregister:
	default:
		return &mistake{Code: "bad_input", Field: "op", Problem: "use register, unregister or list"}
	}
	if !events.ValidReference(q.Purchase) {
		return &mistake{
			Code: "bad_input", Field: "purchase",
			Problem: "give a purchase id (pur_ and 32 lowercase hexadecimal digits) or an idempotency key (16 to 64 of letters, digits, - and _)",
		}
	}
	return nil
}

// mistake is the body of an answer that refuses.
type mistake struct {
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem"`
}

// reply is the answer to a request.
type reply struct {
	Connection string   `json:"connection,omitempty"`
	PurchaseID string   `json:"purchase_id,omitempty"`
	KeyHash    string   `json:"key_hash,omitempty"`
	Registered bool     `json:"registered,omitempty"`
	Watches    *[]Watch `json:"watches,omitempty"`
	Error      *mistake `json:"error,omitempty"`
}

func (r reply) encode() []byte {
	body, err := json.Marshal(r)
	if err != nil {
		return []byte("{}") // every part of it can be encoded
	}
	return body
}

// status is the HTTP status of a reply to o.
func (r reply) status(o op) int {
	if r.Error == nil {
		switch o {
		case opUnregister:
			return http.StatusNoContent
		case opList:
			return http.StatusOK
		case opRegister:
		}
		return http.StatusCreated
	}
	switch r.Error.Code {
	case "bad_input", "unknown_connection":
		return http.StatusBadRequest
	case "not_watched":
		return http.StatusNotFound
	case "not_owner":
		return http.StatusConflict
	case "too_many":
		return http.StatusTooManyRequests
	default:
		return http.StatusServiceUnavailable
	}
}

// storeWait bounds how long a registration may take to be stored.
const storeWait = 5 * time.Second

// Answer fulfils a request about a connection that this process watches:
//
//	{"purchase": "<purchase id or idempotency key>"}
//	{"op": "unregister", "purchase": "..."}
//	{"op": "list"}
//
// The answers are those of Handler. It never fails: a mistake is an answer too.
func (w *Watcher) Answer(ctx context.Context, connection string, body []byte) []byte {
	if len(body) > bodyLimit {
		return reply{Error: &mistake{Code: "bad_input", Problem: "the request is over 4096 bytes"}}.encode()
	}
	members, m := readMembers(body, "op", "purchase")
	if m != nil {
		return reply{Error: m}.encode()
	}
	q := request{Op: op(members["op"]), Purchase: members["purchase"]}
	if q.Op == "" {
		q.Op = opRegister
	}
	if m := q.check(); m != nil {
		return reply{Error: m}.encode()
	}
	r, err := w.fulfil(ctx, connection, q)
	if err != nil {
		return refusalFor(err).encode()
	}
	return r.encode()
}

// ask has a request fulfilled here, or by the process that watches the connection.
func (w *Watcher) ask(ctx context.Context, connection string, q request) []byte {
	r, err := w.fulfil(ctx, connection, q)
	switch {
	case err == nil:
		return r.encode()
	case errors.Is(err, ErrNotOwner) && w.desk != nil:
		body, err := json.Marshal(q)
		if err != nil {
			return refusalFor(err).encode()
		}
		answer, err := w.desk.Ask(ctx, connection, body)
		if err != nil {
			return refusalFor(err).encode()
		}
		return answer
	default:
		return refusalFor(err).encode()
	}
}

// fulfil does what a checked request asks on a connection of this process.
func (w *Watcher) fulfil(ctx context.Context, connection string, q request) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	switch q.Op {
	case opList:
		list, err := w.Watches(ctx, connection)
		if list == nil {
			list = []Watch{}
		}
		return reply{Watches: &list}, err
	case opUnregister:
		return reply{Connection: connection}, w.Unregister(ctx, connection, q.Purchase)
	case opRegister:
	}
	r := reply{Connection: connection, Registered: true}
	if events.ValidPurchaseID(q.Purchase) {
		r.PurchaseID = q.Purchase
	} else {
		r.KeyHash = events.HashKey(q.Purchase)
	}
	return r, w.Register(ctx, connection, q.Purchase)
}

// refusalFor gives an error its answer.
func refusalFor(err error) reply {
	m := mistake{Problem: err.Error()}
	switch {
	case errors.Is(err, ErrUnknownConnection):
		m.Code, m.Field = "unknown_connection", "connection"
	case errors.Is(err, ErrNotWatched):
		m.Code, m.Field = "not_watched", "purchase"
	case errors.Is(err, ErrBadReference):
		m.Code, m.Field = "bad_input", "purchase"
	case errors.Is(err, ErrNotOwner):
		m.Code, m.Problem = "not_owner", "no process watches the connection at the moment: ask again in some seconds"
	case errors.Is(err, ErrTooMany):
		m.Code = "too_many"
	default:
		m = mistake{Code: "not_stored", Problem: "perhaps watched, but not surely stored: ask again"}
	}
	return reply{Error: &m}
}

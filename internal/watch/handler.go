package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Handler serves /v1/watches:
//
//	POST    {"connection": "...", "purchase": "<purchase id or idempotency key>"}: 201 when it is stored
//	DELETE  the same body: 204
//	GET     ?connection=...: {"watches": [...]}
//
// Answers to mistakes are {"error": {"code": "...", "field": "...", "problem": "..."}}: 400 for wrong input, an unknown
// connection included, 404 for a reference that is not watched, 409 where another process watches the connection, 503 when the registration could
// not be stored. The caller sees to authentication.
func (w *Watcher) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/watches", w.serveRegister)
	mux.HandleFunc("DELETE /v1/watches", w.serveUnregister)
	mux.HandleFunc("GET /v1/watches", w.serveWatches)
	return mux
}

// reference is the body of POST and DELETE.
type reference struct {
	Connection string `json:"connection"`
	Purchase   string `json:"purchase"`
}

// mistake is the body of an answer that refuses.
type mistake struct {
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem"`
}

const (
	bodyLimit = 4096
	storeWait = 5 * time.Second
)

// readReference decodes strictly: unknown and repeated members, other types and trailing bytes are mistakes. What was sent
// is never repeated in the answer, for it may be a key.
func readReference(r *http.Request) (reference, *mistake) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	if err != nil || len(body) > bodyLimit {
		return reference{}, &mistake{Code: "bad_input", Problem: "the body is not readable or over 4096 bytes"}
	}
	members, m := readMembers(body)
	if m != nil {
		return reference{}, m
	}
	ref := reference{Connection: members["connection"], Purchase: members["purchase"]}
	switch {
	case !events.ValidConnection(ref.Connection):
		return ref, &mistake{Code: "bad_input", Field: "connection", Problem: "name a connection: letters, digits, - and _, 64 at the most"}
	case !events.ValidReference(ref.Purchase):
		return ref, &mistake{
			Code: "bad_input", Field: "purchase",
			Problem: "give a purchase id (pur_ and 32 lowercase hexadecimal digits) or an idempotency key (16 to 64 of letters, digits, - and _)",
		}
	}
	return ref, nil
}

// readMembers reads an object of two texts.
func readMembers(body []byte) (map[string]string, *mistake) {
	wrong := &mistake{Code: "bad_input", Problem: "the body must be one JSON object"}
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, wrong
	}
	out := map[string]string{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, wrong
		}
		field, _ := name.(string)
		if field != "connection" && field != "purchase" {
			return nil, &mistake{Code: "bad_input", Field: knownPart(field), Problem: "unknown field; use connection and purchase"}
		}
		if _, twice := out[field]; twice {
			return nil, &mistake{Code: "bad_input", Field: field, Problem: "given twice"}
		}
		value, err := dec.Token()
		text, ok := value.(string)
		if err != nil || !ok {
			return nil, &mistake{Code: "bad_input", Field: field, Problem: "must be a text"}
		}
		out[field] = text
	}
	if _, err := dec.Token(); err != nil {
		return nil, wrong
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &mistake{Code: "bad_input", Problem: "something follows the JSON object"}
	}
	return out, nil
}

// knownPart names an unknown field if it is a plain word.
func knownPart(field string) string {
	if events.ValidWord(field) {
		return field
	}
	return "unnamed"
}

func (w *Watcher) serveRegister(rw http.ResponseWriter, r *http.Request) {
	ref, m := readReference(r)
	if m != nil {
		refuse(rw, http.StatusBadRequest, *m)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeWait)
	defer cancel()
	if err := w.Register(ctx, ref.Connection, ref.Purchase); err != nil {
		refuseFor(rw, err)
		return
	}
	out := Watch{Connection: ref.Connection, Registered: true}
	if events.ValidPurchaseID(ref.Purchase) {
		out.PurchaseID = ref.Purchase
	} else {
		out.KeyHash = events.HashKey(ref.Purchase)
	}
	answer(rw, http.StatusCreated, map[string]any{
		"connection": out.Connection, "purchase_id": out.PurchaseID, "key_hash": out.KeyHash, "registered": true,
	})
}

func (w *Watcher) serveUnregister(rw http.ResponseWriter, r *http.Request) {
	ref, m := readReference(r)
	if m != nil {
		refuse(rw, http.StatusBadRequest, *m)
		return
	}
	if err := w.Unregister(r.Context(), ref.Connection, ref.Purchase); err != nil {
		refuseFor(rw, err)
		return
	}
	rw.WriteHeader(http.StatusNoContent)
}

func (w *Watcher) serveWatches(rw http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	for name := range query {
		if name != "connection" {
			refuse(rw, http.StatusBadRequest, mistake{Code: "bad_input", Field: knownPart(name), Problem: "unknown parameter; use connection"})
			return
		}
	}
	name := query.Get("connection")
	if name != "" && !events.ValidConnection(name) {
		refuse(rw, http.StatusBadRequest, mistake{Code: "bad_input", Field: "connection", Problem: "not the name of a connection"})
		return
	}
	list, err := w.Watches(r.Context(), name)
	if err != nil {
		refuseFor(rw, err)
		return
	}
	if list == nil {
		list = []Watch{}
	}
	answer(rw, http.StatusOK, map[string]any{"watches": list})
}

// refuseFor gives an error its answer.
func refuseFor(rw http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrUnknownConnection):
		refuse(rw, http.StatusBadRequest, mistake{Code: "unknown_connection", Field: "connection", Problem: err.Error()})
	case errors.Is(err, ErrNotWatched):
		refuse(rw, http.StatusNotFound, mistake{Code: "not_watched", Field: "purchase", Problem: err.Error()})
	case errors.Is(err, ErrBadReference):
		refuse(rw, http.StatusBadRequest, mistake{Code: "bad_input", Field: "purchase", Problem: err.Error()})
	case errors.Is(err, ErrNotOwner):
		refuse(rw, http.StatusConflict, mistake{Code: "not_owner", Problem: err.Error()})
	case errors.Is(err, ErrTooMany):
		refuse(rw, http.StatusTooManyRequests, mistake{Code: "too_many", Problem: err.Error()})
	default:
		refuse(rw, http.StatusServiceUnavailable, mistake{Code: "not_stored", Problem: "watched, but not stored yet: ask again"})
	}
}

func refuse(rw http.ResponseWriter, status int, m mistake) {
	answer(rw, status, map[string]any{"error": m})
}

func answer(rw http.ResponseWriter, status int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(body)
}

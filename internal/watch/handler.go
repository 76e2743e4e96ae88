package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/heraldbridge/herald/internal/events"
)

// Handler serves /v1/watches:
//
//	POST    {"connection": "...", "purchase": "<purchase id or idempotency key>"}: 201 when it is stored
//	DELETE  the same body: 204
//	GET     ?connection=...: {"watches": [...]}
//
// Answers to mistakes are {"error": {"code": "...", "field": "...", "problem": "..."}}: 400 for wrong input, an unknown
// connection included, 404 for a reference that is not watched, 409 where no process watches the connection at the moment,
// 503 when the registration could not be stored. What concerns a connection of another process is asked of that one over
// the desk. Without a connection, GET lists those of this process. The caller sees to authentication.
func (w *Watcher) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/watches", w.serveRegister)
	mux.HandleFunc("DELETE /v1/watches", w.serveUnregister)
	mux.HandleFunc("GET /v1/watches", w.serveWatches)
	return mux
}

const bodyLimit = 4096

// readReference decodes the body of POST and DELETE: the connection and what is asked of it. What was sent is never
// repeated in the answer, for it may be a key.
func readReference(r *http.Request, o op) (connection string, q request, m *mistake) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	if err != nil || len(body) > bodyLimit {
		return "", request{}, &mistake{Code: "bad_input", Problem: "the body is not readable or over 4096 bytes"}
	}
	members, m := readMembers(body, "connection", "purchase")
	if m != nil {
		return "", request{}, m
	}
	connection, q = members["connection"], request{Op: o, Purchase: members["purchase"]}
	if !events.ValidConnection(connection) {
		return "", request{}, &mistake{
			Code: "bad_input", Field: "connection", Problem: "name a connection: letters, digits, - and _, 64 at the most",
		}
	}
	return connection, q, q.check()
}

// readMembers reads an object of texts strictly: unknown and repeated members, other types and trailing bytes are
// mistakes.
func readMembers(body []byte, known ...string) (map[string]string, *mistake) {
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
		if !slices.Contains(known, field) {
			return nil, &mistake{Code: "bad_input", Field: knownPart(field), Problem: "unknown field; use " + strings.Join(known, " and ")}
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
	w.serveReference(rw, r, opRegister)
}

func (w *Watcher) serveUnregister(rw http.ResponseWriter, r *http.Request) {
	w.serveReference(rw, r, opUnregister)
}

func (w *Watcher) serveReference(rw http.ResponseWriter, r *http.Request, o op) {
	connection, q, m := readReference(r, o)
	if m != nil {
		respond(rw, q.Op, reply{Error: m}.encode())
		return
	}
	respond(rw, o, w.ask(r.Context(), connection, q))
}

func (w *Watcher) serveWatches(rw http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	for name := range query {
		if name != "connection" {
			m := &mistake{Code: "bad_input", Field: knownPart(name), Problem: "unknown parameter; use connection"}
			respond(rw, opList, reply{Error: m}.encode())
			return
		}
	}
	name := query.Get("connection")
	if name != "" && !events.ValidConnection(name) {
		m := &mistake{Code: "bad_input", Field: "connection", Problem: "not the name of a connection"}
		respond(rw, opList, reply{Error: m}.encode())
		return
	}
	respond(rw, opList, w.ask(r.Context(), name, request{Op: opList}))
}

// respond sends an answer with the status that is its own.
func respond(rw http.ResponseWriter, o op, body []byte) {
	var said reply
	status := http.StatusInternalServerError
	if json.Unmarshal(body, &said) == nil {
		status = said.status(o)
	}
	rw.Header().Set("Cache-Control", "no-store")
	if status == http.StatusNoContent {
		rw.WriteHeader(status)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write(body)
}

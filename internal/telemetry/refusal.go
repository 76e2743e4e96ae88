package telemetry

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// plain is the content type that net/http gives its own refusals: an unknown path, a method that a path does not have.
const plain = "text/plain; charset=utf-8"

// inJSON has refusals in plain text, those of net/http as well as ours, leave as the documents that the API answers
// with: {"error": {"field": "", "problem": "..."}}. A reader who does not take a part of an answer for as long as
// patience lasts is cut off.
func inJSON(next http.Handler, patience time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &translator{ResponseWriter: w, patience: patience}
		next.ServeHTTP(t, r)
		t.end()
	})
}

// translator holds a refusal in plain text back until it is whole, and passes everything else through.
type translator struct {
	http.ResponseWriter
	patience time.Duration
	status   int          // of a refusal that is held back
	text     bytes.Buffer // what it says
}

// soon gives the reader its time for the part that comes. A connection that knows no deadlines goes without.
func (t *translator) soon() {
	_ = http.NewResponseController(t.ResponseWriter).SetWriteDeadline(time.Now().Add(t.patience))
}

// WriteHeader passes a status on, or begins to hold back.
func (t *translator) WriteHeader(status int) {
	if status >= http.StatusBadRequest && t.Header().Get("Content-Type") == plain {
		t.status = status
		return
	}
	t.soon()
	t.ResponseWriter.WriteHeader(status)
}

// Write passes bytes on, or keeps them.
func (t *translator) Write(p []byte) (int, error) {
	if t.status != 0 {
		return t.text.Write(p)
	}
	t.soon()
	return t.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController flush, and set deadlines.
func (t *translator) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// end sends what was held back.
func (t *translator) end() {
	if t.status == 0 {
		return
	}
	t.Header().Del("Content-Length")
	t.Header().Set("Content-Type", "application/json")
	t.soon()
	t.ResponseWriter.WriteHeader(t.status)
	enc := json.NewEncoder(t.ResponseWriter)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]any{"error": map[string]string{"field": "", "problem": t.problem()}}) // the reader may have gone
}

// problem says what to do where net/http says only that something is wrong.
func (t *translator) problem() string {
	switch allow := t.Header().Get("Allow"); {
	case t.status == http.StatusMethodNotAllowed && allow != "":
		return "this path takes " + allow
	case t.status == http.StatusNotFound:
		return "there is no such page"
	}
	return strings.TrimSpace(t.text.String())
}

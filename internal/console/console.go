// Package console is the JSON API of a running process: what operators and the
// command line ask of it. It reads events from the stream and publishes wishes;
// it holds no handle to the loops that watch and deliver.
package console

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Feed gives stored events from a moment on, and then new ones as they come.
// The sequence ends when ctx does, or with an error.
type Feed interface {
	Tail(ctx context.Context, since time.Time) iter.Seq2[events.Envelope, error]
}

// Matcher compiles an expression over events. Its error tells the user what is
// wrong with the expression.
type Matcher func(expression string) (func(e events.Event, now time.Time) (bool, error), error)

// Options are what the console needs. All of them are required.
type Options struct {
	Feed  Feed
	Match Matcher
}

// Handler serves the API under /v1/.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/events", o.tail)
	return mux
}

// tail streams events as JSON lines, each a CloudEvents document as it is
// stored. Parameters: match (CEL, all if empty), since (a duration back from
// now, RFC 3339, or empty for new events only).
func (o Options) tail(w http.ResponseWriter, r *http.Request) {
	match, err := o.matcher(r.FormValue("match"))
	if err != nil {
		refuse(w, "match", err)
		return
	}
	since, err := moment(r.FormValue("since"), time.Now())
	if err != nil {
		refuse(w, "since", err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	// The stream lasts as long as its reader does.
	_ = out.SetWriteDeadline(time.Time{})
	w.WriteHeader(http.StatusOK)
	_ = out.Flush()
	for env, err := range o.Feed.Tail(r.Context(), since) {
		if err != nil {
			return
		}
		if env.Bad != nil {
			continue
		}
		if ok, err := match(env.Event, time.Now()); err != nil || !ok {
			continue
		}
		if _, err := w.Write(append(env.Raw, '\n')); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
	}
}

func (o Options) matcher(expression string) (func(events.Event, time.Time) (bool, error), error) {
	if expression == "" {
		return func(events.Event, time.Time) (bool, error) { return true, nil }, nil
	}
	return o.Match(expression)
}

// moment reads the since parameter.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a duration such as 1h nor a time such as 2026-01-02T15:04:05Z", text)
	}
	return t, nil
}

// refuse answers 400 and names the parameter.
func refuse(w http.ResponseWriter, field string, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"field": field, "problem": err.Error()}})
}

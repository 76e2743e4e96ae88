// Package console is the JSON API of a running process and the operator page
// over it: what operators, the page and the command line ask. It reads events,
// outcomes and dead letters from the streams and publishes wishes; it holds no
// handle to the loops that watch and deliver.
//
// Every answer is JSON. A refusal is {"error": {"field": "...", "problem":
// "..."}}: 400 for wrong input, 403 for a request that another site made, 404
// for what is not there, 503 for what cannot be done now. Lists take limit and
// after, the next of the page before. Unknown parameters and members are
// refused.
package console

import (
	"context"
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

// Options are what the console needs. Feed and Match are required; what else is
// nil is answered with 404, as by a process that has no such part.
type Options struct {
	Feed      Feed
	Match     Matcher
	Archive   Archive
	Audit     Audit
	Graveyard Graveyard
	Silences  Silences
	Owners    Owners
	Parts     Parts
	Standings Standings
	Route     RouteFunc
	Vault     Vault
	Version   string // shown on the page
}

// maxStreams bounds the readers of tails and live changes at one time.
const maxStreams = 64

// console is a Handler with what it remembers between requests.
type console struct {
	Options
	index   index
	streams chan struct{} // one token per open stream
}

// Handler serves the API under /v1/ and the operator page.
func Handler(o Options) http.Handler {
	c := &console{Options: o, streams: make(chan struct{}, maxStreams)}
	c.index.archive = o.Archive
	mux := http.NewServeMux()
	for pattern, part := range c.routes() {
		mux.HandleFunc(pattern, part)
	}
	servePage(mux, o.Version)
	return Guard(mux)
}

// routes is the whole API.
func (c *console) routes() map[string]http.HandlerFunc {
	has := func(there bool, what string, h func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			err := error(&Refusal{Status: http.StatusNotFound, Problem: "this process " + what})
			if there {
				err = h(w, r)
			}
			if err != nil {
				refuse(w, err)
			}
		}
	}
	archive := c.Archive != nil
	const noArchive, noDead = "keeps no events", "keeps no dead letters"
	const noSilence, noRoute = "keeps no silences", "delivers nothing and has no subscriptions: ask a herald or a notifier"
	return map[string]http.HandlerFunc{
		"GET /v1/events":                 has(true, "", c.tail),
		"GET /v1/live":                   has(true, "", c.live),
		"GET /v1/purchases":              has(archive, noArchive, c.listPurchases),
		"GET /v1/purchases/{id}":         has(archive && c.Audit != nil, noArchive, c.showPurchase),
		"GET /v1/deliveries":             has(c.Audit != nil, "keeps no delivery records", c.listDeliveries),
		"GET /v1/dead":                   has(c.Graveyard != nil, noDead, c.listDead),
		"GET /v1/dead/{event}":           has(c.Graveyard != nil, noDead, c.showDead),
		"POST /v1/dead/replay":           has(c.Graveyard != nil && c.Owners != nil, noDead, c.replayDead),
		"DELETE /v1/dead/{sink}/{event}": has(c.Graveyard != nil, noDead, c.dropDead),
		"GET /v1/silences":               has(c.Silences != nil, noSilence, c.listSilences),
		"POST /v1/silences":              has(c.Silences != nil, noSilence, c.addSilence),
		"DELETE /v1/silences/{id}":       has(c.Silences != nil, noSilence, c.removeSilence),
		"GET /v1/sinks":                  has(c.Parts != nil, "knows no sinks", c.listSinks),
		"POST /v1/sinks/{name}/test":     has(c.Owners != nil, "knows no sinks", c.testSink),
		"GET /v1/connections":            has(c.Parts != nil, "knows no connections", c.listConnections),
		"GET /v1/explain/{purchase}":     has(archive && c.Audit != nil && c.Route != nil, noRoute, c.explain),
		"POST /v1/simulate":              has(archive && c.Route != nil, noRoute, c.simulate),
		"POST /v1/leakcheck":             has(c.Vault != nil, "cannot read its own stores", c.leakcheck),
		"GET /v1/{rest...}":              has(false, "has no such page", nil),
	}
}

// tail streams events as JSON lines, each a CloudEvents document as it is
// stored. Parameters: match (CEL, all if empty), since (a duration back from
// now, RFC 3339, or empty for new events only).
func (c *console) tail(w http.ResponseWriter, r *http.Request) error {
	q, err := parameters(r, "match", "since")
	if err != nil {
		return err
	}
	match, err := c.matcher(q.Get("match"))
	if err != nil {
		return wrong("match", place(err))
	}
	since, err := moment(q.Get("since"), time.Now())
	if err != nil {
		return wrong("since", err.Error())
	}
	done, err := c.openStream(w, "application/x-ndjson")
	if err != nil {
		return err
	}
	defer done()
	out := http.NewResponseController(w)
	for env, err := range c.Feed.Tail(r.Context(), since) {
		if err != nil {
			return nil // the answer has begun: its end is all that can be said
		}
		if env.Bad != nil {
			continue
		}
		if ok, err := match(env.Event, time.Now()); err != nil || !ok {
			continue
		}
		if _, err := w.Write(append(env.Raw, '\n')); err != nil || out.Flush() != nil {
			return nil // the reader has gone
		}
	}
	return nil
}

// openStream begins an answer that lasts as long as its reader does.
func (c *console) openStream(w http.ResponseWriter, contentType string) (done func(), err error) {
	select {
	case c.streams <- struct{}{}:
	default:
		return nil, &Refusal{Status: http.StatusServiceUnavailable, Problem: fmt.Sprintf("%d readers follow already", maxStreams)}
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	return func() { <-c.streams }, nil
}

func (c *console) matcher(expression string) (func(events.Event, time.Time) (bool, error), error) {
	if expression == "" {
		return func(events.Event, time.Time) (bool, error) { return true, nil }, nil
	}
	return c.Match(expression)
}

// moment reads the since parameter. It gives a time that the stream can begin
// at: one before 1970 is 1970, one in the future is now.
func moment(text string, now time.Time) (time.Time, error) {
	t, err := anyMoment(text, now)
	if earliest := time.Unix(1, 0); err == nil && t.Before(earliest) {
		return earliest.UTC(), nil
	}
	if err == nil && t.After(now) {
		return now, nil
	}
	return t, err
}

func anyMoment(text string, now time.Time) (time.Time, error) {
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

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/mail"
	"strings"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
)

// view sees all that becomes visible outside of Envoy, shows it, and remembers
// it for the verdict.
type view struct {
	out   io.Writer
	quiet bool
	st    *stage
	start time.Time

	mu        sync.Mutex
	changes   map[reading]time.Time // when Envoy changed it
	published map[string]events.Event
	newest    map[string]events.Event // by purchase
	documents [][]byte
	events    []events.Event
	lies      []string
	shown     struct{ posts, mails, hooks int }
}

type reading struct {
	purchase string
	revision int64
}

func newView(o Options, st *stage) *view {
	return &view{
		out: o.Out, quiet: o.JSON, st: st, start: time.Now(), changes: map[reading]time.Time{},
		published: map[string]events.Event{}, newest: map[string]events.Event{},
	}
}

func (v *view) begin() {
	v.st.sim.Subscribe(func(c envoysim.Change) {
		v.mu.Lock()
		defer v.mu.Unlock()
		at := reading{c.ID, int64(c.Revision)}
		if _, known := v.changes[at]; !known {
			v.changes[at] = c.At
		}
	})
	v.say(fmt.Sprintf("%d people shop through stand-in agents; Herald watches, nothing leaves this machine", users))
}

// follow shows events as the running process gives them out.
func (v *view) follow(ctx context.Context, url string) {
	client := console.Client{URL: url, HTTP: &http.Client{}}
	for env, err := range client.Tail(ctx, "", "1m") {
		if err != nil {
			v.say("the event feed ended: " + err.Error())
			return
		}
		falsehood := lie(v.st.sim, env.Event)
		v.mu.Lock()
		if falsehood != "" {
			v.lies = append(v.lies, falsehood)
		}
		v.events = append(v.events, env.Event)
		v.published[env.Event.ID] = env.Event
		v.documents = append(v.documents, env.Raw)
		if env.Event.Purchase != nil {
			v.newest[env.Event.Subject] = env.Event
		}
		v.mu.Unlock()
		v.line("event ", console.Line(env.Event))
	}
}

// refresh shows what the receivers got, and every few seconds the counts.
func (v *view) refresh(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		v.arrivals()
		if n%25 == 0 {
			v.progress()
		}
		select {
		case <-ctx.Done():
			v.arrivals()
			return
		case <-tick.C:
		}
	}
}

func (v *view) arrivals() {
	posts, mails, hooks := v.st.slack.Posts(), v.st.mail.Mails(), v.st.hook.Received()
	v.mu.Lock()
	from := v.shown
	v.shown.posts, v.shown.mails, v.shown.hooks = len(posts), len(mails), len(hooks)
	v.mu.Unlock()
	for _, p := range posts[from.posts:] {
		v.line("slack ", firstLine(p.Text))
	}
	for _, m := range mails[from.mails:] {
		v.line("email ", subject(m.Data))
	}
	for _, r := range hooks[from.hooks:] {
		v.line("hook  ", fmt.Sprintf("%s, signature %s, answered %d", r.Header.Get("webhook-id"), verdict(r), r.Status))
	}
}

func (v *view) progress() {
	s := v.count()
	v.line("      ", fmt.Sprintf("-- %d purchases, %d changes, %d events; sent: slack %d, email %d, webhook %d",
		s.Purchases, s.Revisions, s.Published, s.Deliveries["ops-slack"], s.Deliveries["ops-email"], s.Deliveries["orders"]))
}

func (v *view) say(text string) { v.line("      ", text) }

func (v *view) line(kind, text string) {
	if v.quiet {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, "%6.1fs %s %s\n", time.Since(v.start).Seconds(), kind, text)
}

// settle waits until the newest state of every purchase has been published and
// has reached the webhook, or patience ends.
func (v *view) settle(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for len(v.behind()) > 0 || len(v.undelivered()) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// behind names the purchases whose newest revision is not published.
func (v *view) behind() []string {
	var out []string
	truth := v.st.sim.Purchases()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range truth {
		e, ok := v.newest[r.Purchase.ID]
		if !ok || e.Purchase.Reading.Revision < int64(r.Purchase.Revision) {
			out = append(out, r.Purchase.ID)
		}
	}
	return out
}

// undelivered names the events that the webhook should have got and has not.
func (v *view) undelivered() []string {
	got := map[string]bool{}
	for _, r := range v.st.hook.Received() {
		if r.Status/100 == 2 {
			got[r.Header.Get("webhook-id")] = true
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for id, e := range v.published {
		passed := e.Type == events.TypeChanged && e.Purchase.Reading.Cause != events.CauseBaseline &&
			e.Purchase.Reading.Cause != events.CauseStill
		if passed && !got[id] {
			out = append(out, id)
		}
	}
	return out
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func subject(data []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return "a mail that does not parse: " + err.Error()
	}
	text, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return m.Header.Get("Subject")
	}
	return text
}

// revisionOf reads the reading that a webhook body is about.
func revisionOf(body []byte) (reading, bool) {
	var d struct {
		Subject string `json:"subject"`
		Type    string `json:"type"`
		Data    struct {
			Reading struct {
				Revision int64  `json:"revision"`
				Cause    string `json:"cause"`
			} `json:"reading"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &d) != nil {
		return reading{}, false
	}
	ok := d.Type == string(events.TypeChanged) && d.Data.Reading.Cause == string(events.CauseRevision)
	return reading{d.Subject, d.Data.Reading.Revision}, ok
}

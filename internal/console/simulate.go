package console

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// SimulateRequest asks what other subscriptions would have told.
type SimulateRequest struct {
	Subscriptions []Subscription `json:"subscriptions"`
	Since         string         `json:"since,omitempty"` // a duration back or a time; empty: a day
}

// Simulation is what subscriptions would have told over the stored events,
// beside the running ones. Both are worked out in the same way: sending is taken
// to succeed at once, silences do not hold, and alarms from before the span are
// not known.
type Simulation struct {
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Events  int       `json:"events"`
	New     Tally     `json:"new"`
	Running Tally     `json:"running"`
	Same    int       `json:"same"`    // told by both
	Added   []Told    `json:"added"`   // told by the new ones only
	Removed []Told    `json:"removed"` // told by the running ones only
	Cut     bool      `json:"cut,omitempty"`
}

// Tally counts notifications.
type Tally struct {
	Total  int            `json:"total"`
	BySink map[string]int `json:"by_sink"`
	Buried int            `json:"buried,omitempty"` // an expression could not be worked out
}

// Told is one notification.
type Told struct {
	At           time.Time        `json:"at"`
	Sink         string           `json:"sink"`
	Subscription string           `json:"subscription"`
	Action       string           `json:"action"` // pass, open, update, remind, resolve
	Urgent       bool             `json:"urgent,omitempty"`
	EventID      string           `json:"event_id"`
	Purchase     string           `json:"purchase,omitempty"`
	Situation    events.Situation `json:"situation,omitempty"`
}

// identity is by which notifications of two simulations are the same.
func (t Told) identity() string { return t.Sink + "\x00" + t.EventID + "\x00" + t.Action }

const (
	mostEvents    = 500_000
	mostTold      = 200_000
	mostShownTold = 1000
	mostSubs      = 200
)

var errTooMuch = errors.New("over 200000 notifications: choose a shorter span")

func (c *console) simulate(w http.ResponseWriter, r *http.Request) error {
	var q SimulateRequest
	if err := body(w, r, &q); err != nil {
		return err
	}
	now := time.Now()
	since, err := moment(orElse(q.Since, "24h"), now)
	if err != nil {
		return wrong("since", err.Error())
	}
	if len(q.Subscriptions) > mostSubs {
		return wrong("subscriptions", fmt.Sprintf("are more than %d", mostSubs))
	}
	if q.Subscriptions == nil {
		return wrong("subscriptions", "are missing")
	}
	fresh, err := c.Route(q.Subscriptions, nil)
	if err != nil {
		return wrong("subscriptions", err.Error())
	}
	running, err := c.Route(nil, nil)
	if err != nil {
		return err
	}
	a, b := newReplay(fresh), newReplay(running)
	out := Simulation{Since: since, Until: now}
	for env, err := range c.Archive.Stored(r.Context(), since) {
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if env.Bad != nil || env.Sequence == 0 {
			continue
		}
		if out.Events++; out.Events > mostEvents {
			return wrong("since", fmt.Sprintf("takes in more than %d events", mostEvents))
		}
		if err := errors.Join(a.event(env), b.event(env)); err != nil {
			return wrong("since", err.Error())
		}
	}
	if err := errors.Join(a.until(now), b.until(now)); err != nil {
		return wrong("since", err.Error())
	}
	out.compare(a, b)
	return give(w, out)
}

// compare fills in what both told.
func (s *Simulation) compare(a, b *replay) {
	s.New, s.Running = a.tally(), b.tally()
	s.Added, s.Removed = without(a.told, b.told), without(b.told, a.told)
	s.Same = len(a.told) - len(s.Added)
	if len(s.Added) > mostShownTold {
		s.Added, s.Cut = s.Added[:mostShownTold], true
	}
	if len(s.Removed) > mostShownTold {
		s.Removed, s.Cut = s.Removed[:mostShownTold], true
	}
}

// without gives those of list that other has not, as often as it has not.
func without(list, other []Told) []Told {
	have := map[string]int{}
	for _, t := range other {
		have[t.identity()]++
	}
	out := []Told{}
	for _, t := range list {
		if have[t.identity()] > 0 {
			have[t.identity()]--
			continue
		}
		out = append(out, t)
	}
	return out
}

// replay runs decisions over stored events with a clock of its own.
type replay struct {
	router    Router
	sinks     []string
	standings map[string]events.Standing // by sink and conversation
	waits     map[string]int             // by sink and subject: number of the pause in force
	queue     pauses
	told      []Told
	buried    int
	number    int // of the newest pause
}

// pause is a purchase that is decided again at a moment.
type pause struct {
	sink   string
	key    string
	env    events.Envelope
	until  time.Time
	number int
}

// pauses is a heap by time.
type pauses []pause

func (h pauses) Len() int { return len(h) }
func (h pauses) Less(i, j int) bool {
	return cmp.Or(h[i].until.Compare(h[j].until), cmp.Compare(h[i].number, h[j].number)) < 0
}
func (h pauses) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *pauses) Push(x any) { *h = append(*h, x.(pause)) }

// Pop is for container/heap.
func (h *pauses) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = pause{}
	*h = old[:len(old)-1]
	return last
}

func newReplay(r Router) *replay {
	return &replay{router: r, sinks: r.Sinks(), standings: map[string]events.Standing{}, waits: map[string]int{}}
}

// event takes the next event, after everything that was due before it.
func (p *replay) event(env events.Envelope) error {
	if err := p.until(env.Stored); err != nil {
		return err
	}
	env.Raw = nil
	for _, sink := range p.sinks {
		p.decide(sink, env, env.Stored, false)
	}
	return p.until(env.Stored)
}

// until lets time pass.
func (p *replay) until(now time.Time) error {
	for len(p.queue) > 0 && !p.queue[0].until.After(now) {
		w := heap.Pop(&p.queue).(pause)
		if p.waits[w.key] != w.number {
			continue // another one took its place
		}
		if len(p.told) > mostTold {
			return errTooMuch
		}
		delete(p.waits, w.key)
		p.decide(w.sink, w.env, w.until, true)
	}
	return nil
}

// decide asks once and remembers the answer as if it had been carried out.
func (p *replay) decide(sink string, env events.Envelope, now time.Time, again bool) {
	key := sink + "\x00" + standingKey(env.Event)
	v := p.router.Decide(Question{
		Event: env.Event, Stored: env.Stored, Standing: p.standings[key], Sink: sink, Now: now, Again: again,
	})
	if v.Err != nil {
		p.buried++
		return
	}
	if len(v.Standing.Alarms) > 0 || len(p.standings[key].Alarms) > 0 {
		p.standings[key] = v.Standing
	}
	if v.Told {
		t := Told{At: now, Sink: sink, Subscription: v.Subscription, Action: v.Action, Urgent: v.Urgent, EventID: env.Event.ID, Purchase: env.Event.Subject}
		if env.Event.Purchase != nil {
			t.Situation = env.Event.Purchase.Situation
		}
		p.told = append(p.told, t)
	}
	if env.Event.Purchase != nil {
		p.wait(pause{sink: sink, key: sink + "\x00" + env.Subject, env: env, until: v.Until}, now, v.Told)
	}
}

// wait has a purchase decided again; a zero time ends its waiting.
func (p *replay) wait(w pause, now time.Time, told bool) {
	delete(p.waits, w.key)
	if w.until.IsZero() {
		return
	}
	if !w.until.After(now) && !told { // nothing was done, so asking again at once would never end
		w.until = now.Add(time.Second)
	}
	p.number++
	w.number = p.number
	p.waits[w.key] = w.number
	heap.Push(&p.queue, w)
}

func (p *replay) tally() Tally {
	t := Tally{Total: len(p.told), BySink: map[string]int{}, Buried: p.buried}
	for _, one := range p.told {
		t.BySink[one.Sink]++
	}
	slices.SortStableFunc(p.told, func(a, b Told) int { return a.At.Compare(b.At) })
	return t
}

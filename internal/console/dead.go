package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// DeadView is a dead letter.
type DeadView struct {
	Sink       string           `json:"sink"`
	EventID    string           `json:"event_id"`
	PurchaseID string           `json:"purchase_id,omitempty"`
	Situation  events.Situation `json:"situation,omitempty"`
	Reason     string           `json:"reason"`
	Detail     string           `json:"detail"` // the last failure, masked
	Attempts   int              `json:"attempts"`
	First      time.Time        `json:"first"`
	Buried     time.Time        `json:"buried"`
	Sequence   uint64           `json:"sequence"`
	Event      json.RawMessage  `json:"event,omitempty"` // the document; only where one event is asked for
	Raw        []byte           `json:"raw,omitempty"`   // instead of it, where it is no JSON
}

func viewDead(d events.DeadLetter, whole bool) DeadView {
	v := DeadView{
		Sink: d.Sink, EventID: d.EventID, Reason: d.Reason, Detail: d.Detail, Attempts: d.Attempts,
		First: d.First, Buried: d.Buried, Sequence: d.Sequence,
	}
	if e, err := events.Decode(d.Event); err == nil && e.Purchase != nil {
		v.PurchaseID, v.Situation = e.Subject, e.Purchase.Situation
	}
	switch {
	case !whole:
	case json.Valid(d.Event):
		v.Event = d.Event
	default:
		v.Raw = d.Event
	}
	return v
}

func (d DeadView) key() string { return newestFirst(d.Buried) + d.Sink + "/" + d.EventID }

// mostDead bounds the letters that one request looks at.
const mostDead = 50_000

// letters reads the dead letters of a sink, or of all, newest first. A record
// that cannot be read is left out: it is shown by the stream's own tools.
func (c *console) letters(ctx context.Context, sink string) ([]DeadView, error) {
	if sink != "" && !events.ValidConnection(sink) {
		return nil, wrong("sink", "is no name of a sink")
	}
	var list []DeadView
	for d, err := range c.Graveyard.Dead(ctx, sink) {
		if err != nil {
			return nil, fmt.Errorf("read dead letters: %w", err)
		}
		if list = append(list, viewDead(d, false)); len(list) >= mostDead {
			break
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].key() < list[j].key() })
	return list, nil
}

// lettersOf gives the dead letters of a purchase's events, where a record says
// that one was buried.
func (c *console) lettersOf(ctx context.Context, records map[string][]SinkView) ([]DeadView, error) {
	if c.Graveyard == nil {
		return nil, nil
	}
	var out []DeadView
	for id, list := range records {
		if !slices.ContainsFunc(list, func(v SinkView) bool { return v.Outcome == outcomeBuried }) {
			continue
		}
		found, err := c.Graveyard.DeadOne(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("read dead letters: %w", err)
		}
		for _, d := range found {
			out = append(out, viewDead(d, false))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].key() < out[j].key() })
	return out, nil
}

func (c *console) listDead(w http.ResponseWriter, r *http.Request) error {
	q, err := parameters(r, "sink", "limit", "after")
	if err != nil {
		return err
	}
	list, err := c.letters(r.Context(), q.Get("sink"))
	if err != nil {
		return err
	}
	page, err := cut(list, DeadView.key, q)
	if err != nil {
		return err
	}
	return give(w, struct {
		Page[DeadView]
		Total int `json:"total"`
	}{page, len(list)})
}

func (c *console) showDead(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	found, err := c.deadOne(r.Context(), r.PathValue("event"))
	if err != nil {
		return err
	}
	page := Page[DeadView]{}
	for _, d := range found {
		page.Items = append(page.Items, viewDead(d, true))
	}
	return give(w, page)
}

func (c *console) deadOne(ctx context.Context, event string) ([]events.DeadLetter, error) {
	if !events.ValidEventID(event) {
		return nil, wrong("event", "is no id of an event")
	}
	found, err := c.Graveyard.DeadOne(ctx, event)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	if len(found) == 0 {
		return nil, absent("event", "no dead letter of this event rests here")
	}
	return found, nil
}

func (c *console) dropDead(w http.ResponseWriter, r *http.Request) error {
	sink, event := r.PathValue("sink"), r.PathValue("event")
	if !events.ValidConnection(sink) {
		return wrong("sink", "is no name of a sink")
	}
	found, err := c.deadOne(r.Context(), event)
	if err != nil {
		return err
	}
	for _, d := range found {
		if d.Sink != sink {
			continue
		}
		if err := c.Graveyard.Unbury(r.Context(), sink, event); err != nil {
			return fmt.Errorf("drop dead letter: %w", err)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return absent("sink", "no dead letter of this event rests for this sink")
}

// ReplayRequest says which dead letters to send again. Exactly one of Event,
// Sink and All is set; Sink may narrow Event.
type ReplayRequest struct {
	Event  string  `json:"event,omitempty"`
	Sink   string  `json:"sink,omitempty"`
	All    bool    `json:"all,omitempty"`
	DryRun bool    `json:"dry_run,omitempty"`
	Rate   float64 `json:"rate,omitempty"` // letters a second; 0: 10
	By     string  `json:"by,omitempty"`
}

// ReplayReport is what became of a replay.
type ReplayReport struct {
	Matched int          `json:"matched"`
	Asked   int          `json:"asked"` // wishes that an owner took
	Left    int          `json:"left"`  // letters beyond what one request takes
	DryRun  bool         `json:"dry_run,omitempty"`
	Letters []ReplayLine `json:"letters"`
}

// ReplayLine is what became of one letter.
type ReplayLine struct {
	Sink    string     `json:"sink"`
	EventID string     `json:"event_id"`
	Status  WishStatus `json:"status,omitempty"` // empty on a dry run
	Problem string     `json:"problem,omitempty"`
}

const (
	mostReplays = 1000 // letters of one request
	usualRate   = 10.0
	leastRate   = 0.01 // a ticker cannot wait for ever
	mostRate    = 1000.0
	askTimeout  = 10 * time.Second
)

func (q ReplayRequest) check() error {
	ways := 0
	for _, one := range []bool{q.All, q.Event != "", q.Sink != "" && q.Event == ""} {
		if one {
			ways++
		}
	}
	switch {
	case ways != 1:
		return wrong("event", "say which letters: one of event, sink and all")
	case q.Event != "" && !events.ValidEventID(q.Event):
		return wrong("event", "is no id of an event")
	case q.Sink != "" && !events.ValidConnection(q.Sink):
		return wrong("sink", "is no name of a sink")
	case q.Rate != 0 && (q.Rate < leastRate || q.Rate > mostRate):
		return wrong("rate", fmt.Sprintf("is not from %g to %g a second", leastRate, mostRate))
	}
	return nil
}

// replayDead asks the owners of the sinks to send letters again. It takes the
// oldest first, since they come before in what they tell.
func (c *console) replayDead(w http.ResponseWriter, r *http.Request) error {
	var q ReplayRequest
	if err := body(w, r, &q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	list, err := c.toReplay(r.Context(), q)
	if err != nil {
		return err
	}
	report := ReplayReport{Matched: len(list), DryRun: q.DryRun, Letters: []ReplayLine{}}
	if len(list) > mostReplays {
		report.Left, list = len(list)-mostReplays, list[:mostReplays]
	}
	err = c.ask(r.Context(), q, list, &report)
	if err != nil {
		return err
	}
	return give(w, report)
}

func (c *console) toReplay(ctx context.Context, q ReplayRequest) ([]DeadView, error) {
	var list []DeadView
	if q.Event == "" {
		found, err := c.letters(ctx, q.Sink)
		if err != nil {
			return nil, err
		}
		list = found
	} else {
		found, err := c.deadOne(ctx, q.Event)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			if q.Sink == "" || d.Sink == q.Sink {
				list = append(list, viewDead(d, false))
			}
		}
		if len(list) == 0 {
			return nil, absent("sink", "no dead letter of this event rests for this sink")
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Sequence < list[j].Sequence })
	return list, nil
}

// ask sends the wishes at the asked pace. A sink without an owner is asked once.
func (c *console) ask(ctx context.Context, q ReplayRequest, list []DeadView, report *ReplayReport) error {
	rate := q.Rate
	if rate == 0 {
		rate = usualRate
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	orphans := map[string]string{}
	for i, d := range list {
		line := ReplayLine{Sink: d.Sink, EventID: d.EventID}
		switch problem := orphans[d.Sink]; {
		case q.DryRun:
		case problem != "":
			line.Status, line.Problem = WishRefused, problem
		default:
			if i > 0 {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			res := c.wish(ctx, d.Sink, Wish{Kind: WishReplay, Event: d.EventID, By: clip(q.By, 80)})
			line.Status, line.Problem = res.Status, res.Problem
			if res.Problem == ErrNoOwner.Error() {
				orphans[d.Sink] = res.Problem
			}
			if res.OK() {
				report.Asked++
			}
		}
		report.Letters = append(report.Letters, line)
	}
	return nil
}

// wish asks an owner; trouble on the way is a refusal too.
func (c *console) wish(ctx context.Context, sink string, w Wish) WishResult {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	res, err := c.Owners.Ask(ctx, sink, w)
	switch {
	case errors.Is(err, ErrNoOwner):
		return WishResult{Status: WishRefused, Problem: ErrNoOwner.Error()}
	case err != nil:
		return WishResult{Status: WishRefused, Problem: err.Error()}
	}
	return res
}

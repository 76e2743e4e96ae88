package console

import (
	"context"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Summary is the newest state of a purchase at a connection, for lists.
type Summary struct {
	ID             string           `json:"id"`
	Connection     string           `json:"connection"`
	Situation      events.Situation `json:"situation"`
	SituationSince time.Time        `json:"situation_since,omitzero"`
	SituationBasis string           `json:"situation_basis"`
	Certain        bool             `json:"certain"`
	State          events.State     `json:"state"`
	Money          events.Money     `json:"money"`
	Unsettled      bool             `json:"unsettled"`
	Terminal       bool             `json:"terminal"`
	WaitingOn      string           `json:"waiting_on"`
	Merchant       string           `json:"merchant"`
	Amount         string           `json:"amount"`
	Deadline       string           `json:"deadline,omitempty"` // JSON name of the next deadline
	DeadlineAt     *time.Time       `json:"deadline_at,omitempty"`
	Overdue        bool             `json:"overdue,omitempty"`
	Revision       int64            `json:"revision"`
	Epoch          int64            `json:"epoch"`
	Cause          events.Cause     `json:"cause"`
	EventID        string           `json:"event_id"`
	ChainRoot      string           `json:"chain_root"`
	UpdatedAt      time.Time        `json:"updated_at,omitzero"`
	Stored         time.Time        `json:"stored"`
	Sequence       uint64           `json:"sequence"`
	Attention      bool             `json:"attention"` // confirming, needs_support, or other money that hangs
}

// summarize shortens an event for lists.
func summarize(env events.Envelope, now time.Time) Summary {
	p := env.Event.Purchase
	s := Summary{
		ID: env.Event.Subject, Connection: p.Connection, Situation: p.Situation, SituationSince: p.SituationSince,
		SituationBasis: p.SituationBasis, Certain: p.Certain, State: p.State, Money: p.Money, Unsettled: p.Unsettled,
		Terminal: p.Terminal, WaitingOn: p.WaitingOn, Merchant: clip(p.Merchant.Name, 120), Amount: clip(p.Amount.Display, 40),
		Overdue: p.Overdue != nil, Revision: p.Reading.Revision, Epoch: p.Reading.Epoch, Cause: p.Reading.Cause,
		EventID: env.Event.ID, ChainRoot: p.ChainRoot, UpdatedAt: p.UpdatedAt, Stored: env.Stored, Sequence: env.Sequence,
		Attention: p.Unsettled || p.Situation == events.SituationConfirming || p.Situation == events.SituationNeedsSupport,
	}
	if p.Overdue != nil {
		s.Deadline, s.DeadlineAt = p.Overdue.Deadline, &p.Overdue.At
	} else if name, at, ok := events.NextDeadline(env.Event, now); ok {
		s.Deadline, s.DeadlineAt = name, &at
	}
	return s
}

// key orders the list: money that nobody can place first, the oldest of it at
// the top; then what waits, by its deadline; then the rest, newest first.
func (s Summary) key() string {
	id := s.ID + "/" + s.Connection
	switch {
	case s.Situation == events.SituationNeedsSupport:
		return "0" + oldestFirst(s.SituationSince) + id
	case s.Situation == events.SituationConfirming:
		return "1" + oldestFirst(s.SituationSince) + id
	case s.Unsettled:
		return "2" + oldestFirst(s.SituationSince) + id
	case !s.Terminal && s.DeadlineAt != nil:
		return "3" + oldestFirst(*s.DeadlineAt) + id
	case !s.Terminal:
		return "4" + newestFirst(s.Stored) + id
	}
	return "5" + newestFirst(s.Stored) + id
}

// index remembers the newest state of every purchase for a moment, so that the
// pages of one list are not each a walk over the stream.
type index struct {
	archive Archive
	mu      sync.Mutex
	list    []Summary
	counts  map[events.Situation]int
	at      time.Time
	took    time.Duration
}

const freshFor = time.Second

// read gives the list, sorted, walking over the stream if the last walk is old.
// A walk that takes long is used for longer.
func (x *index) read(ctx context.Context) ([]Summary, map[events.Situation]int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.at.IsZero() && time.Since(x.at) < max(freshFor, 5*x.took) {
		return x.list, x.counts, nil
	}
	begun := time.Now()
	var list []Summary
	counts := map[events.Situation]int{}
	for env, err := range x.archive.Newest(ctx) {
		if err != nil {
			return nil, nil, fmt.Errorf("read the newest events: %w", err)
		}
		if env.Bad != nil || env.Event.Purchase == nil {
			continue
		}
		s := summarize(env, begun)
		counts[s.Situation]++
		list = append(list, s)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].key() < list[j].key() })
	x.list, x.counts, x.at, x.took = list, counts, time.Now(), time.Since(begun)
	return list, counts, nil
}

// PurchaseList is a page of purchases with the numbers of all of them.
type PurchaseList struct {
	Page[Summary]
	Total     int                      `json:"total"`     // of all purchases, whatever is selected
	Attention int                      `json:"attention"` // of them, confirming, needs_support or with other money that hangs
	Counts    map[events.Situation]int `json:"counts"`
}

func (c *console) listPurchases(w http.ResponseWriter, r *http.Request) error {
	q, err := parameters(r, "situation", "unsettled", "connection", "q", "limit", "after")
	if err != nil {
		return err
	}
	situation := events.Situation(q.Get("situation"))
	if situation != "" && !knownSituation(situation) {
		return wrong("situation", "is no situation; there are "+strings.Join(situations(), ", "))
	}
	unsettled, given, err := truth(q, "unsettled")
	if err != nil {
		return err
	}
	connection, text := q.Get("connection"), strings.ToLower(strings.TrimSpace(q.Get("q")))
	if connection != "" && !events.ValidConnection(connection) {
		return wrong("connection", "is no name of a connection")
	}
	list, counts, err := c.index.read(r.Context())
	if err != nil {
		return err
	}
	out := PurchaseList{Total: len(list), Counts: counts}
	chosen := make([]Summary, 0, len(list))
	for _, s := range list {
		if s.Attention {
			out.Attention++
		}
		if (situation == "" || s.Situation == situation) && (!given || s.Unsettled == unsettled) &&
			(connection == "" || s.Connection == connection) && (text == "" || s.has(text)) {
			chosen = append(chosen, s)
		}
	}
	if out.Page, err = cut(chosen, Summary.key, q); err != nil {
		return err
	}
	return give(w, out)
}

// has tells whether a purchase is meant by a search text in lower case.
func (s Summary) has(text string) bool {
	return strings.Contains(s.ID, text) || strings.Contains(s.ChainRoot, text) ||
		strings.Contains(strings.ToLower(s.Merchant), text)
}

func situations() []string {
	return []string{
		string(events.SituationNeedsSupport), string(events.SituationConfirming), string(events.SituationWaitingForUser),
		string(events.SituationNeedsAnswer), string(events.SituationNeedsDetails), string(events.SituationReady),
		string(events.SituationWorking), string(events.SituationUnknown), string(events.SituationStopped), string(events.SituationDone),
	}
}

func knownSituation(s events.Situation) bool {
	for _, one := range situations() {
		if one == string(s) {
			return true
		}
	}
	return false
}

// PurchaseView is everything that is known of one purchase.
type PurchaseView struct {
	ID      string       `json:"id"`
	Current *Summary     `json:"current"`
	History []EventView  `json:"history"`        // oldest first, of all connections
	Dead    []DeadView   `json:"dead,omitempty"` // letters that rest
	Chain   events.Chain `json:"chain"`
	Cut     bool         `json:"cut,omitempty"` // the oldest events are left out
}

// EventView is an event of a purchase with what became of it at each sink.
type EventView struct {
	Event      events.Event `json:"event"`
	Stored     time.Time    `json:"stored"`
	Sequence   uint64       `json:"sequence"`
	Deliveries []SinkView   `json:"deliveries"`
}

// SinkView is the records of one event at one sink, oldest first.
type SinkView struct {
	Sink     string            `json:"sink"`
	Outcome  string            `json:"outcome"` // of the newest record
	Attempts []events.Delivery `json:"attempts"`
}

// mostHistory bounds the events and the records of one purchase that are shown.
const (
	mostHistory = 1000
	mostRecords = 20000
)

func (c *console) showPurchase(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	id := r.PathValue("id")
	history, cut, err := c.history(r.Context(), id)
	if err != nil {
		return err
	}
	records, err := c.records(r.Context(), id)
	if err != nil {
		return err
	}
	view := PurchaseView{ID: id, History: make([]EventView, 0, len(history)), Cut: cut}
	for _, env := range history {
		view.History = append(view.History, EventView{
			Event: env.Event, Stored: env.Stored, Sequence: env.Sequence, Deliveries: records[env.Event.ID],
		})
	}
	last := history[len(history)-1]
	current := summarize(last, time.Now())
	view.Current, view.Chain = &current, last.Event.Purchase.Chain
	if view.Dead, err = c.lettersOf(r.Context(), records); err != nil {
		return err
	}
	return give(w, view)
}

// history reads the events of a purchase, at least one and the newest if there
// are too many.
func (c *console) history(ctx context.Context, id string) (list []events.Envelope, cut bool, err error) {
	if !events.ValidPurchaseID(id) {
		return nil, false, wrong("purchase", "is no purchase id: pur_ and 32 hexadecimal digits")
	}
	for env, err := range c.Archive.History(ctx, id) {
		if err != nil {
			return nil, false, fmt.Errorf("read history: %w", err)
		}
		if env.Bad != nil || env.Event.Purchase == nil {
			continue
		}
		if list = append(list, env); len(list) >= 2*mostHistory {
			list, cut = append([]events.Envelope(nil), list[len(list)-mostHistory:]...), true
		}
	}
	if len(list) > mostHistory {
		list, cut = list[len(list)-mostHistory:], true
	}
	if len(list) == 0 {
		return nil, false, absent("purchase", "no event about this purchase is stored")
	}
	return list, cut, nil
}

// records groups the delivery records of a purchase by event and sink.
func (c *console) records(ctx context.Context, id string) (map[string][]SinkView, error) {
	out := map[string][]SinkView{}
	n := 0
	for d, err := range c.Audit.Deliveries(ctx, DeliveryFilter{PurchaseID: id}) {
		if err != nil {
			return nil, fmt.Errorf("read deliveries: %w", err)
		}
		if n++; n > mostRecords {
			break
		}
		out[d.EventID] = addRecord(out[d.EventID], d)
	}
	return out, nil
}

func addRecord(list []SinkView, d events.Delivery) []SinkView {
	for i := range list {
		if list[i].Sink == d.Sink {
			list[i].Attempts, list[i].Outcome = append(list[i].Attempts, d), d.Outcome
			return list
		}
	}
	list = append(list, SinkView{Sink: d.Sink, Outcome: d.Outcome, Attempts: []events.Delivery{d}})
	sort.Slice(list, func(i, j int) bool { return list[i].Sink < list[j].Sink })
	return list
}

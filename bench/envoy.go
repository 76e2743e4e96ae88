package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// envoyServer is a stand-in for Envoy that is made for load: it holds reads until
// it is told to change purchases, and does nothing else that Envoy does.
type envoyServer struct {
	url            string
	status         *statusReply
	account, lists *statusReply
	room           sync.Pool // buffers for replies

	mu        sync.Mutex
	longest   time.Duration // of one hold, whatever was asked for
	purchases map[string]*purchase
	waiting   []*hold // oldest first
	head      int
	held      int
	arrived   chan struct{} // capacity 1: a hold began
}

type purchase struct {
	id       string
	revision int64
	updated  time.Time
}

// hold is a read that waits for a change.
type hold struct {
	p    *purchase
	done chan struct{} // closed by a change
	over bool          // it has ended, by whatever
}

func newEnvoyRole(ctx context.Context) (map[string]handler, func(), error) {
	s := &envoyServer{
		room:      sync.Pool{New: func() any { b := make([]byte, 0, 2*replyBytes); return &b }},
		purchases: map[string]*purchase{}, arrived: make(chan struct{}, 1),
	}
	var err, err2, err3 error
	s.status, err = newStatusReply()
	s.account, err2 = newAccountReply()
	s.lists, err3 = newListReply()
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	s.url = "http://" + l.Addr().String()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tools/get_purchase_status", s.serveStatus)
	mux.HandleFunc("POST /tools/get_account", s.fixed(s.account))
	mux.HandleFunc("POST /tools/list_purchases", s.fixed(s.lists))
	srv := &http.Server{
		Handler: mux, Protocols: protocols, ReadHeaderTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250},
	}
	go func() { _ = srv.Serve(l) }() // ends with Close, which the process does not outlive
	return map[string]handler{
		"prepare": handle(s.prepare), "held": handle(s.count), "change": handle(s.change),
	}, func() { _ = srv.Close() }, nil
}

type prepareArgs struct {
	Purchases int           `json:"purchases"`
	Longest   time.Duration `json:"longest"` // cuts holds short; zero: as asked for
}

type prepared struct {
	URL string `json:"url"`
}

// prepare makes the purchases. All have the same first revision.
func (s *envoyServer) prepare(_ context.Context, a prepareArgs) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = a.Longest
	now := time.Now()
	for i := range a.Purchases {
		id := purchaseID(i)
		s.purchases[id] = &purchase{id: id, revision: 1, updated: now}
	}
	return prepared{URL: s.url}, nil
}

// count says how many reads are held.
func (s *envoyServer) count(context.Context, struct{}) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, nil
}

type changeArgs struct {
	Count int     `json:"count"`
	Rate  float64 `json:"rate"` // changes a second; zero: as fast as purchases are held
}

type changed struct {
	Seconds float64 `json:"seconds"` // from the first change to the last
}

// change raises the revision of purchases that are held, longest held first, and
// returns when it is done.
func (s *envoyServer) change(ctx context.Context, a changeArgs) (any, error) {
	begun := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	stuck := time.NewTimer(readyWithin)
	defer stuck.Stop()
	for done := 0; done < a.Count; {
		due := a.Count
		if a.Rate > 0 {
			due = min(due, int(time.Since(begun).Seconds()*a.Rate)+1)
		}
		for done < due && s.changeOne() {
			done++
			stuck.Reset(readyWithin)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-stuck.C:
			return nil, fmt.Errorf("change purchases: after %d of %d none is held any more", done, a.Count)
		case <-tick.C:
		case <-s.arrived:
		}
	}
	return changed{Seconds: time.Since(begun).Seconds()}, nil
}

func (s *envoyServer) changeOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.head < len(s.waiting) {
		h := s.waiting[s.head]
		s.waiting[s.head] = nil
		s.head++
		if s.head == len(s.waiting) || s.head > 1<<16 {
			s.waiting = append([]*hold(nil), s.waiting[s.head:]...)
			s.head = 0
		}
		if h.over {
			continue
		}
		h.over = true
		s.held--
		h.p.revision++
		h.p.updated = time.Now()
		close(h.done)
		return true
	}
	return false
}

func (s *envoyServer) serveStatus(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Purchase      string `json:"purchase"`
		AfterRevision *int64 `json:"after_revision"`
		WaitSeconds   int    `json:"wait_seconds"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 4096))
	if err == nil {
		err = json.Unmarshal(body, &ask)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	p := s.purchases[ask.Purchase]
	if p == nil {
		s.mu.Unlock()
		http.Error(w, "no such purchase", http.StatusNotFound)
		return
	}
	wait := time.Duration(ask.WaitSeconds) * time.Second
	if s.longest > 0 {
		wait = min(wait, s.longest)
	}
	if wait > 0 && ask.AfterRevision != nil && *ask.AfterRevision >= p.revision {
		h := &hold{p: p, done: make(chan struct{})}
		s.waiting = append(s.waiting, h)
		s.held++
		s.mu.Unlock()
		s.wait(r.Context(), h, wait)
		s.mu.Lock()
	}
	revision, updated := p.revision, p.updated
	s.mu.Unlock()
	s.reply(w, s.status, p.id, revision, updated)
}

func (s *envoyServer) wait(ctx context.Context, h *hold, d time.Duration) {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-h.done:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.over {
		h.over = true
		s.held--
	}
}

func (s *envoyServer) fixed(t *statusReply) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { s.reply(w, t, "", 0, time.Time{}) }
}

func (s *envoyServer) reply(w http.ResponseWriter, t *statusReply, id string, revision int64, updated time.Time) {
	b := s.room.Get().(*[]byte)
	*b = t.fill((*b)[:0], id, revision, updated, time.Now())
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(*b) // a client that has gone asks again
	s.room.Put(b)
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// receiver takes webhooks, counts them and measures how old they are. It checks
// nothing else, so that the sender is what is measured.
type receiver struct {
	url  string
	addr string
	srv  *http.Server
	room sync.Pool

	mu      sync.Mutex
	count   int
	seen    map[string]struct{} // by Webhook-Id
	ages    []time.Duration     // since updated_at
	first   time.Time
	last    time.Time
	arrived chan struct{} // capacity 1
}

func newReceiverRole(ctx context.Context) (map[string]handler, func(), error) {
	r := &receiver{
		room: sync.Pool{New: func() any { return new(bytes.Buffer) }},
		seen: map[string]struct{}{}, arrived: make(chan struct{}, 1),
	}
	r.addr = "127.0.0.1:0"
	if _, err := r.up(ctx, struct{}{}); err != nil {
		return nil, nil, err
	}
	r.url = "http://" + r.addr + hookPath
	return map[string]handler{
		"reset": handle(r.reset), "await": handle(r.await), "up": handle(r.up), "down": handle(r.down),
	}, func() { _ = r.srv.Close() }, nil
}

// hookPath is where webhooks are counted; those to otherPath are taken and
// forgotten.
const (
	hookPath  = "/hook"
	otherPath = "/other"
)

// up listens, on the same address as before.
func (r *receiver) up(ctx context.Context, _ struct{}) (any, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	r.addr = l.Addr().String()
	r.srv = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: time.Minute}
	go func(srv *http.Server) { _ = srv.Serve(l) }(r.srv) // ends with Close, which the process does not outlive
	return nil, nil
}

// down ends every connection and takes no other.
func (r *receiver) down(context.Context, struct{}) (any, error) { return nil, r.srv.Close() }

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	b := r.room.Get().(*bytes.Buffer)
	b.Reset()
	_, err := io.Copy(b, io.LimitReader(req.Body, 1<<20))
	now := time.Now()
	updated, known := updatedAt(b.Bytes())
	r.room.Put(b)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if req.URL.Path == otherPath {
		return
	}
	id := req.Header.Get("Webhook-Id")
	r.mu.Lock()
	r.count++
	if r.first.IsZero() {
		r.first = now
	}
	r.last = now
	if _, again := r.seen[id]; !again {
		r.seen[id] = struct{}{}
		if known {
			r.ages = append(r.ages, now.Sub(updated))
		}
	}
	r.mu.Unlock()
	select {
	case r.arrived <- struct{}{}:
	default:
	}
	_, _ = io.WriteString(w, "ok") // a sender that has gone sends again
}

// updatedAt finds when the purchase of an event changed.
func updatedAt(event []byte) (time.Time, bool) {
	_, rest, found := bytes.Cut(event, []byte(`"updated_at":"`))
	if !found {
		return time.Time{}, false
	}
	text, _, found := bytes.Cut(rest, []byte{'"'})
	if !found {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	return t, err == nil
}

type receiverURL struct {
	URL string `json:"url"`
}

// reset forgets all that came.
func (r *receiver) reset(context.Context, struct{}) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count, r.seen, r.ages = 0, map[string]struct{}{}, nil
	r.first, r.last = time.Time{}, time.Time{}
	return receiverURL{URL: r.url}, nil
}

type awaitArgs struct {
	Count int           `json:"count"` // different webhooks
	Idle  time.Duration `json:"idle"`  // give up when none has come for so long
}

// received is what came.
type received struct {
	Count   int           `json:"count"`
	Unique  int           `json:"unique"`
	Seconds float64       `json:"seconds"` // from the first to the last
	P50     time.Duration `json:"p50"`
	P99     time.Duration `json:"p99"`
}

// await returns when so many different webhooks have come, or none comes any more.
func (r *receiver) await(ctx context.Context, a awaitArgs) (any, error) {
	idle := time.NewTimer(a.Idle)
	defer idle.Stop()
	for {
		r.mu.Lock()
		enough := len(r.seen) >= a.Count
		r.mu.Unlock()
		if enough {
			return r.picture(), nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-idle.C:
			return r.picture(), nil
		case <-r.arrived:
			idle.Reset(a.Idle)
		}
	}
}

func (r *receiver) picture() received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return received{
		Count: r.count, Unique: len(r.seen), Seconds: r.last.Sub(r.first).Seconds(),
		P50: quantile(r.ages, 0.5), P99: quantile(r.ages, 0.99),
	}
}

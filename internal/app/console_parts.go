package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/deliver"
	"github.com/heraldbridge/herald/internal/watch"
)

const (
	statusSubject = "envoy.control.status" // every process with a console answers
	statusWait    = 600 * time.Millisecond // for the answers of all processes
	statusQuiet   = 200 * time.Millisecond // after the last answer
	statusFresh   = time.Second            // how long answers are used again
)

// report is how the parts of one process are doing, as it tells others.
type report struct {
	Process     string               `json:"process"`
	Sinks       []console.Sink       `json:"sinks"`
	Connections []console.Connection `json:"connections"`
}

// parts gathers the reports of all processes that answer.
type parts struct {
	name    string
	stores  *stores
	kinds   func() map[string]string // of the sinks that this process is configured with
	loops   func() []*deliver.Loop   // those in force
	watcher *watch.Watcher           // nil: this process watches nothing
	alone   bool                     // no other process can be part of this
	sent    prometheus.Gatherer      // counts what sinks accepted
	rates   rates

	mu   sync.Mutex
	last []report
	at   time.Time
}

func newParts(a *App, st *stores, loops func() []*deliver.Loop, w *watch.Watcher) *parts {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	p := &parts{
		name: fmt.Sprintf("%s on %s, pid %d", a.Role, host, os.Getpid()), stores: st, loops: loops, watcher: w,
		kinds: a.kinds, alone: a.Config.Redis.URL == "", sent: a.registry,
	}
	return p
}

// kinds names the kind of each sink of the configuration in force.
func (a *App) kinds() map[string]string {
	out := map[string]string{}
	for _, s := range a.wiring().sinks {
		out[s.cfg.Name] = string(s.cfg.Kind())
	}
	return out
}

// run answers other processes, and keeps the rates, until ctx ends.
func (p *parts) run(ctx context.Context) error {
	sub, err := p.stores.bus.Conn().Subscribe(statusSubject, func(m *nats.Msg) {
		body, err := json.Marshal(p.own())
		if err == nil {
			_ = m.Respond(body) // whoever asked asks again
		}
	})
	if err != nil {
		return fmt.Errorf("listen for questions about status: %w", err)
	}
	tick := time.NewTicker(rateEvery)
	defer tick.Stop()
	for {
		p.rates.add(time.Now(), sentBySink(p.sent))
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = sub.Unsubscribe()
			return nil
		}
	}
}

// own is how this process is doing.
func (p *parts) own() report {
	r := report{Process: p.name}
	for _, l := range p.loops() {
		s := l.Status()
		one := console.Sink{
			Name: s.Name, Kind: p.kinds()[s.Name], State: string(s.State), Since: s.Since, Failure: s.Failure,
			NextProbe: s.NextProbe, LastSuccess: s.LastSuccess, InHand: s.InHand, Sending: s.Sending, Waiting: s.Waiting,
			StoreError: s.StoreError, Configured: true, Rate: p.rates.perMinute(s.Name),
		}
		if s.State != deliver.StateWaiting && s.State != deliver.StateStopped {
			one.Owner = p.name
		}
		r.Sinks = append(r.Sinks, one)
	}
	if p.watcher == nil {
		return r
	}
	for _, c := range p.watcher.Status() {
		one := console.Connection{
			Name: c.Name, Parked: string(c.Parked), ParkedSince: c.ParkedSince, Blind: c.Blind, BlindWhy: c.BlindWhy,
			Calls: c.Calls, Share: c.Share, ClosedUntil: c.ClosedUntil, Open: c.Open, Unsettled: c.Unsettled, Holds: c.Holds,
			Registered: c.Registered, Unpublished: c.Unpublished, LastReply: c.LastReply, LastPublish: c.LastPublish,
			StoreTrouble: c.StoreTrouble,
		}
		if c.Owner {
			one.Owner = p.name
		}
		r.Connections = append(r.Connections, one)
	}
	return r
}

// all gives the reports of this process and of all that answer.
func (p *parts) all(ctx context.Context) []report {
	if p.alone {
		return []report{p.own()}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || time.Since(p.at) > statusFresh {
		p.last, p.at = p.ask(ctx), time.Now()
	}
	return append([]report{p.own()}, p.last...)
}

// ask gathers what others answer. One that does not answer in time is left out:
// its sinks are shown without an owner.
func (p *parts) ask(ctx context.Context) []report {
	found := []report{}
	nc := p.stores.bus.Conn()
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return found
	}
	defer sub.Unsubscribe() //nolint:errcheck // it ends with the connection anyway
	if err := nc.PublishRequest(statusSubject, inbox, nil); err != nil {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	for {
		next, stop := context.WithTimeout(ctx, statusQuiet)
		m, err := sub.NextMsgWithContext(next)
		stop()
		if err != nil {
			return found
		}
		var r report
		if json.Unmarshal(m.Data, &r) == nil && r.Process != "" && r.Process != p.name {
			found = append(found, r)
		}
	}
}

// Sinks gives every sink that is configured anywhere or still has a consumer.
func (p *parts) Sinks(ctx context.Context) ([]console.Sink, error) {
	byName := map[string]console.Sink{}
	for _, r := range p.all(ctx) {
		for _, s := range r.Sinks {
			if had, ok := byName[s.Name]; !ok || had.Owner == "" && s.Owner != "" {
				byName[s.Name] = s
			}
		}
	}
	names, err := p.stores.bus.Sinks(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, ok := byName[name]; !ok {
			byName[name] = console.Sink{Name: name, State: "unknown"}
		}
	}
	out := make([]console.Sink, 0, len(byName))
	for _, s := range byName {
		if err := backlog(ctx, p.stores.bus, &s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Connections gives every connection of the watchers that answer.
func (p *parts) Connections(ctx context.Context) ([]console.Connection, error) {
	var out []console.Connection
	for _, r := range p.all(ctx) {
		for _, c := range r.Connections {
			i := slices.IndexFunc(out, func(o console.Connection) bool { return o.Name == c.Name })
			switch {
			case i < 0:
				out = append(out, c)
			case out[i].Owner == "" && c.Owner != "":
				out[i] = c
			}
		}
	}
	return out, nil
}

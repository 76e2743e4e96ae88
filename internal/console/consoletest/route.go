package consoletest

import (
	"slices"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/events"
)

// Route decides plainly: the first subscription of a sink that matches passes
// the event on, or, with a for, opens an alarm once that has gone by.
func (w *World) Route(subs []console.Subscription, silences []events.Silence) (console.Router, error) {
	if subs == nil {
		subs = w.Subs
	}
	for _, s := range subs {
		if _, err := Match(s.Match); err != nil {
			return nil, err
		}
	}
	return router{subs, silences}, nil
}

type router struct {
	subs     []console.Subscription
	silences []events.Silence
}

// Sinks names the sinks.
func (r router) Sinks() []string {
	var out []string
	for _, s := range r.subs {
		out = append(out, s.Sinks...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Decide works one out.
func (r router) Decide(q console.Question) console.Verdict {
	v := console.Verdict{Action: "skip", Reason: "no_match", Standing: q.Standing}
	for _, s := range r.subs {
		match, err := Match(s.Match)
		if err != nil {
			v.Err = err
			return v
		}
		if yes, _ := match(q.Event, q.Now); !yes || !slices.Contains(s.Sinks, q.Sink) {
			continue
		}
		v.Subscription = s.Name
		if q.Event.Purchase != nil && q.Event.Purchase.Reading.Cause == events.CauseBaseline && s.For == 0 {
			v.Reason = "baseline"
			return v
		}
		if end := r.silenced(q); !end.IsZero() {
			v.Action, v.Reason, v.Until = "wait", "silenced", end
			return v
		}
		if due := q.Stored.Add(time.Duration(s.For)); s.For > 0 && q.Now.Before(due) {
			v.Action, v.Reason, v.Until = "wait", "dwelling", due
			return v
		}
		v.Action, v.Reason, v.Told = "pass", "", true
		if s.For > 0 {
			v.Action = "open"
		}
		return v
	}
	return v
}

func (r router) silenced(q console.Question) time.Time {
	for _, s := range r.silences {
		if match, err := Match(s.Match); err == nil {
			if yes, _ := match(q.Event, q.Now); yes && s.Until.After(q.Now) {
				return s.Until
			}
		}
	}
	return time.Time{}
}

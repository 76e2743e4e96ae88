package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
)

// route compiles subscriptions for the console; nil stands for the running ones.
func (a *App) route(subs []console.Subscription, silences []events.Silence) (console.Router, error) {
	set := a.wiring().routes
	if subs != nil {
		specs := make([]route.Spec, 0, len(subs))
		for _, s := range subs {
			specs = append(specs, route.Spec{
				Name: s.Name, Match: s.Match, Urgent: s.Urgent, For: time.Duration(s.For), Repeat: time.Duration(s.Repeat),
				Resolve: s.Resolve, Sinks: s.Sinks,
			})
		}
		var err error
		if set, err = route.Compile(specs); err != nil {
			return nil, inOneLine(err)
		}
	}
	quiet, err := route.CompileSilences(silences)
	if err != nil {
		// The others hold all the same, as they do in the loops.
		a.Log.Debug("silence left out", "error", err)
	}
	return router{set, quiet}, nil
}

// inOneLine says all mistakes of subscriptions one after another.
func inOneLine(err error) error {
	all := route.CompileErrors(err)
	if len(all) == 0 {
		return fmt.Errorf("compile subscriptions: %w", err)
	}
	lines := make([]string, 0, len(all))
	for _, one := range all {
		lines = append(lines, one.Error())
	}
	return errors.New(strings.Join(lines, "; "))
}

// router is a set of subscriptions as the console asks it.
type router struct {
	set      *route.Set
	silences route.Silences
}

// Sinks names the sinks that have a subscription.
func (r router) Sinks() []string { return r.set.Sinks() }

// Decide works out one decision.
func (r router) Decide(q console.Question) console.Verdict {
	d := route.Decide(route.Input{
		Event: q.Event, Stored: q.Stored, Standing: q.Standing, Sink: q.Sink, Set: r.set, Silences: r.silences,
		Now: q.Now, Again: q.Again,
	})
	return console.Verdict{
		Action: string(d.Action), Told: d.Action.Told(), Subscription: d.Subscription, Urgent: d.Urgent,
		Since: d.Since, Until: d.Until, Reason: string(d.Reason), Standing: d.Standing, Err: d.Err,
	}
}

// Subscriptions reads those of a configuration file, without following its
// references. Its errors are config.Errors.
func Subscriptions(file string) ([]console.Subscription, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &UsageError{fmt.Errorf("read configuration: %w", err)}
	}
	cfg, err := config.Parse(file, text)
	if err != nil {
		return nil, err
	}
	out := make([]console.Subscription, 0, len(cfg.Subscriptions))
	for _, s := range cfg.Subscriptions {
		out = append(out, console.Subscription{
			Name: s.Name, Match: s.Match.Text, Urgent: s.Urgent.Text, For: console.Duration(s.For),
			Repeat: console.Duration(s.Repeat), Resolve: s.Resolve, Sinks: s.Sinks,
		})
	}
	return out, nil
}

package route

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Action is what to do about an event at one sink.
type Action string

// The actions. Pass, open, update, remind and resolve are told; skip and wait are not.
const (
	ActionPass    Action = "pass"    // tell the event as it is
	ActionOpen    Action = "open"    // tell that an alarm begins
	ActionUpdate  Action = "update"  // tell a change of an open alarm
	ActionRemind  Action = "remind"  // tell that an alarm still lasts
	ActionResolve Action = "resolve" // tell what became of an alarm
	ActionSkip    Action = "skip"    // nothing to tell
	ActionWait    Action = "wait"    // nothing to tell before Until
)

// Told reports whether the action sends something.
func (a Action) Told() bool {
	switch a {
	case ActionPass, ActionOpen, ActionUpdate, ActionRemind, ActionResolve:
		return true
	case ActionSkip, ActionWait:
		return false
	}
	return false
}

// Reason says why nothing, or not yet, is told.
type Reason string

// The reasons.
const (
	ReasonNoMatch  Reason = "no_match"  // no subscription of the sink matches
	ReasonBaseline Reason = "baseline"  // first contact is not news
	ReasonStill    Reason = "still"     // nothing changed
	ReasonDwelling Reason = "dwelling"  // the match has not held for long enough
	ReasonSilenced Reason = "silenced"  // a silence postpones it
	ReasonTold     Reason = "told"      // it was told, and no reminder is due
	ReasonEnded    Reason = "ended"     // an alarm ended of which nobody is told
	ReasonLater    Reason = "look_back" // the condition depends on the time
)

// lookBack is how often a condition that depends on the time is worked out again.
const lookBack = time.Minute

// Input is everything that a decision depends on.
type Input struct {
	Event    events.Event
	Stored   time.Time // when the stream took the event
	Standing events.Standing
	Sink     string
	Set      *Set
	Silences Silences
	Now      time.Time
	// Again: the event was decided before and only time has passed, so nothing
	// is passed on a second time.
	Again bool
}

// Decision is what to do, and what to remember once it is done.
type Decision struct {
	Action       Action
	Subscription string
	Urgent       bool
	Since        time.Time // since when the match has held
	Until        time.Time // when to decide again, after the action; zero: only at the next event
	Reason       Reason    // of skip and wait
	// Standing is the one handed in, with the alarms as they are when the action
	// is done; see Untold.
	Standing events.Standing
	// Err: an expression could not be worked out; the event is buried for this sink.
	Err error
}

// Untold is what to remember when the action could not be done: alarms go on
// dwelling or lasting, and nothing counts as told.
func (d Decision) Untold(prior events.Standing) events.Standing {
	s := d.Standing
	if !d.Action.Told() || d.Action == ActionPass {
		return s
	}
	s.Alarms = maps.Clone(d.Standing.Alarms)
	if s.Alarms == nil {
		s.Alarms = map[string]events.Alarm{}
	}
	before, had := prior.Alarms[d.Subscription]
	if !had {
		before = s.Alarms[d.Subscription]
		before.Opened, before.Told, before.Reminded = time.Time{}, time.Time{}, 0
	}
	s.Alarms[d.Subscription] = before
	return s
}

// Buried is what to remember when the sink will never get what was to be told: the
// next reminder is the next try, and an alarm whose opening is lost is opened by it.
func (d Decision) Buried() events.Standing {
	s := d.Standing
	if d.Action != ActionOpen {
		return s
	}
	s.Alarms = maps.Clone(s.Alarms)
	alarm := s.Alarms[d.Subscription]
	alarm.Opened = time.Time{}
	s.Alarms[d.Subscription] = alarm
	return s
}

// step is what one subscription wants.
type step struct {
	action Action
	sub    *subscription
	urgent bool
	since  time.Time
	until  time.Time
	reason Reason
	alarm  *events.Alarm // as it is after the step; nil: none
}

// Decide says what the sink is told about the event. The first subscription of
// the sink that matches has the event; alarms that are under way are looked
// after by their own subscription whichever that is. One decision tells one
// thing: where more is due, Until is Now.
func Decide(in Input) Decision {
	d := Decision{Action: ActionSkip, Reason: ReasonNoMatch, Standing: in.Standing}
	if in.Set == nil {
		return d
	}
	steps, err := collect(in)
	if err != nil {
		d.Err = err
		return d
	}
	best := -1
	for i, s := range steps {
		if best < 0 || rank(s.action) > rank(steps[best].action) {
			best = i
		}
	}
	alarms := map[string]events.Alarm{}
	for i, s := range steps {
		alarm := s.alarm
		if i != best && s.action.Told() {
			s.until = in.Now // its turn comes next
			if before, had := in.Standing.Alarms[s.sub.Name]; had {
				alarm = &before
			}
		}
		if alarm != nil && s.sub.alarm() {
			alarms[s.sub.Name] = *alarm
		}
		if !s.until.IsZero() && (d.Until.IsZero() || s.until.Before(d.Until)) {
			d.Until = s.until
		}
	}
	d.Standing.Alarms = alarms
	if len(alarms) == 0 {
		d.Standing.Alarms = nil
	}
	if best < 0 {
		return d
	}
	b := steps[best]
	d.Action, d.Urgent, d.Since, d.Reason, d.Subscription = b.action, b.urgent, b.since, b.reason, b.sub.Name
	return d
}

// rank orders what is told first.
func rank(a Action) int {
	return slices.Index([]Action{
		ActionSkip, ActionWait, ActionRemind, ActionUpdate, ActionOpen, ActionPass, ActionResolve,
	}, a)
}

// collect asks every subscription of the sink that has a say.
func collect(in Input) ([]step, error) {
	var steps []step
	won := false
	for _, s := range in.Set.bySink[in.Sink] {
		alarm, has := in.Standing.Alarms[s.Name]
		if won && (!has || !s.alarm()) {
			continue
		}
		match, err := s.match.Match(in.Event, in.Now)
		if err != nil {
			return nil, fmt.Errorf("decide by subscription %s: %w", s.Name, err)
		}
		won = won || match
		var st *step
		switch {
		case match && (!s.alarm() || in.Event.Purchase == nil):
			st, err = s.pass(in)
		case !s.alarm() || in.Event.Purchase == nil:
		case match || has:
			st, err = s.alarmStep(in, alarm, has, match)
		case s.match.UsesNow() && !settled(in.Event):
			st = &step{action: ActionWait, until: in.Now.Add(lookBack), reason: ReasonLater}
		}
		if err != nil {
			return nil, fmt.Errorf("decide by subscription %s: %w", s.Name, err)
		}
		if st != nil {
			st.sub = s
			steps = append(steps, *st)
		}
	}
	if in.Event.Purchase == nil { // a notice is no news of a purchase: its alarms stay as they are
		for _, s := range in.Set.bySink[in.Sink] {
			if alarm, has := in.Standing.Alarms[s.Name]; has && s.alarm() {
				steps = append(steps, step{action: ActionSkip, sub: s, alarm: &alarm})
			}
		}
	}
	return steps, nil
}

// pass hands the event on. A notice is a point in time, so a subscription that
// keeps alarms passes it on as well.
func (s *subscription) pass(in Input) (*step, error) {
	if reason := quiet(in.Event); reason != "" {
		return &step{action: ActionSkip, reason: reason}, nil
	}
	if in.Again {
		return &step{action: ActionSkip, reason: ReasonTold}, nil
	}
	urgent, err := s.isUrgent(in)
	if err != nil {
		return nil, err
	}
	since := in.Event.Time
	if p := in.Event.Purchase; p != nil && !p.SituationSince.IsZero() {
		since = p.SituationSince
	}
	return &step{action: ActionPass, urgent: urgent, since: since}, nil
}

func (s *subscription) isUrgent(in Input) (bool, error) {
	if s.urgent == nil {
		return false, nil
	}
	return s.urgent.Match(in.Event, in.Now)
}

// quiet names why an event is not news by itself; empty: it is.
func quiet(e events.Event) Reason {
	if e.Purchase == nil {
		return ""
	}
	switch e.Purchase.Reading.Cause {
	case events.CauseBaseline:
		return ReasonBaseline
	case events.CauseStill:
		return ReasonStill
	case events.CauseRevision, events.CauseReading, events.CauseReset:
	}
	return ""
}

func settled(e events.Event) bool {
	return e.Purchase != nil && e.Purchase.Terminal && !e.Purchase.Unsettled
}

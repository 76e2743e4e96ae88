package route

import (
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// alarmStep is the life of one alarm: dwell, open, change, remind, end.
func (s *subscription) alarmStep(in Input, alarm events.Alarm, has, match bool) (*step, error) {
	own := !has || about(alarm, in.Event)
	if in.Again && !own {
		// Another purchase of the chain has it now, and its own event drives it.
		return &step{action: ActionSkip, reason: ReasonTold, alarm: &alarm}, nil
	}
	var st *step
	var err error
	switch {
	case !match:
		st, err = s.unmatched(in, alarm, own)
	case alarm.Opened.IsZero():
		st, err = s.dwell(in, alarm, has)
	default:
		st, err = s.last(in, alarm)
	}
	if err != nil {
		return nil, err
	}
	return s.postpone(in, st, alarm, has), nil
}

// postpone turns what would be told into a wait: while a silence holds, and for
// an event that is delivered to nobody, where the clock tells instead.
func (s *subscription) postpone(in Input, st *step, alarm events.Alarm, has bool) *step {
	if !st.action.Told() {
		return st
	}
	end, reason := in.Silences.until(in.Event, in.Now), ReasonSilenced
	if end.IsZero() && !in.Again && quiet(in.Event) == ReasonStill {
		end, reason = in.Now, ReasonStill
	}
	if end.IsZero() {
		return st
	}
	kept := alarm
	if !has {
		kept = events.Alarm{Since: st.since, Event: in.Event.ID}
	}
	return &step{action: ActionWait, urgent: st.urgent, since: st.since, until: end, reason: reason, alarm: &kept}
}

// dwell is an alarm that nobody was told of yet.
func (s *subscription) dwell(in Input, alarm events.Alarm, has bool) (*step, error) {
	urgent, err := s.isUrgent(in)
	if err != nil {
		return nil, err
	}
	if !has {
		alarm.Since = in.Stored
		if alarm.Since.IsZero() || s.match.UsesNow() && in.Again {
			alarm.Since = in.Now
		}
	}
	if in.Again && !alarm.Told.IsZero() { // its opening was buried
		if due := s.next(alarm.Told); due.IsZero() || in.Now.Before(due) {
			return s.remind(in, alarm, urgent), nil
		}
	}
	alarm.Event = in.Event.ID
	due := alarm.Since.Add(s.For)
	if !urgent && in.Now.Before(due) {
		return &step{action: ActionWait, since: alarm.Since, until: s.sooner(in.Now, due), reason: ReasonDwelling, alarm: &alarm}, nil
	}
	alarm.Opened, alarm.Told, alarm.Urgent = in.Now, in.Now, urgent
	return &step{action: ActionOpen, urgent: urgent, since: alarm.Since, until: s.next(in.Now), alarm: &alarm}, nil
}

// last is an open alarm whose condition still holds.
func (s *subscription) last(in Input, alarm events.Alarm) (*step, error) {
	urgent, err := s.isUrgent(in)
	if err != nil {
		return nil, err
	}
	if alarm.Event != in.Event.ID && quiet(in.Event) == "" || urgent && !alarm.Urgent {
		alarm.Event, alarm.Told, alarm.Urgent = in.Event.ID, in.Now, urgent
		return &step{action: ActionUpdate, urgent: urgent, since: alarm.Since, until: s.next(in.Now), alarm: &alarm}, nil
	}
	return s.remind(in, alarm, urgent), nil
}

// remind tells that an alarm still lasts, if that is due.
func (s *subscription) remind(in Input, alarm events.Alarm, urgent bool) *step {
	due := s.next(alarm.Told)
	if due.IsZero() {
		st := &step{action: ActionSkip, reason: ReasonTold, alarm: &alarm}
		if s.match.UsesNow() {
			st.action, st.until = ActionWait, in.Now.Add(lookBack)
		}
		return st
	}
	if in.Now.Before(due) {
		return &step{action: ActionWait, since: alarm.Since, until: s.sooner(in.Now, due), reason: ReasonTold, alarm: &alarm}
	}
	alarm.Told = in.Now
	alarm.Reminded++
	return &step{action: ActionRemind, urgent: urgent, since: alarm.Since, until: s.next(in.Now), alarm: &alarm}
}

// unmatched is an alarm whose condition no longer holds.
func (s *subscription) unmatched(in Input, alarm events.Alarm, own bool) (*step, error) {
	if quiet(in.Event) == ReasonStill {
		return &step{action: ActionSkip, reason: ReasonStill, alarm: &alarm}, nil
	}
	if alarm.Opened.IsZero() {
		if !own {
			return &step{action: ActionSkip, reason: ReasonDwelling, alarm: &alarm}, nil
		}
		return &step{action: ActionSkip, reason: ReasonEnded}, nil // the match broke before anybody was told
	}
	ends, err := s.ends(in, own)
	switch {
	case err != nil:
		return nil, err
	case !ends && own:
		return s.remind(in, alarm, false), nil
	case !ends:
		return &step{action: ActionSkip, reason: ReasonTold, alarm: &alarm}, nil
	case !s.Resolve:
		return &step{action: ActionSkip, reason: ReasonEnded}, nil
	}
	return &step{action: ActionResolve, since: alarm.Since}, nil
}

// ends reports whether an event that does not match ends an open alarm. A
// superseding ends none, since the money may hang with either purchase; nor does
// a new ready handout end one about money that hangs. Another purchase of the
// chain ends one about hanging money only by being settled itself.
func (s *subscription) ends(in Input, own bool) (bool, error) {
	p := in.Event.Purchase
	if p.State == events.StateSuperseded {
		return false, nil
	}
	if own && p.Situation != events.SituationReady || settled(in.Event) {
		return true, nil
	}
	hanging, err := s.aboutHangingMoney(in)
	return !hanging, err
}

// aboutHangingMoney asks the condition itself: would it hold if the purchase
// were being confirmed?
func (s *subscription) aboutHangingMoney(in Input) (bool, error) {
	e, p := in.Event, *in.Event.Purchase
	p.State, p.Situation, p.Money = events.StateVerifying, events.SituationConfirming, events.MoneyUnknown
	p.Unsettled, p.Terminal = true, false
	e.Purchase = &p
	return s.match.Match(e, in.Now)
}

// next is when to remind of something told at that moment; zero: never.
func (s *subscription) next(told time.Time) time.Time {
	if s.Repeat <= 0 {
		return time.Time{}
	}
	return told.Add(s.Repeat)
}

// sooner brings a wait forward when the condition may change by itself.
func (s *subscription) sooner(now, due time.Time) time.Time {
	if at := now.Add(lookBack); s.match.UsesNow() && at.Before(due) {
		return at
	}
	return due
}

// about reports whether the alarm was last driven by an event of the same
// purchase. Event ids begin with the purchase's.
func about(alarm events.Alarm, e events.Event) bool {
	return alarm.Event == "" || strings.HasPrefix(alarm.Event, e.Subject+"-")
}

package watch

import (
	"context"
	"errors"
	"time"

	"github.com/heraldbridge/herald/internal/backoff"
	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// ParkReason says why a connection makes no calls.
type ParkReason string

// Reasons to park a connection.
const (
	ParkToken        ParkReason = "token"         // Envoy does not accept the token
	ParkNotAllowed   ParkReason = "not_allowed"   // all three tools are refused
	ParkService      ParkReason = "service"       // the service is not enabled for the user
	ParkClientUpdate ParkReason = "client_update" // Envoy does not accept this version of the client
)

// park is a connection that makes no calls but trials.
type park struct {
	reason   ParkReason
	silent   bool // the token is read again first; nobody is told yet
	checking bool // the token source is being read
	outdated bool // the refused call was older than one that worked: a trial tells more than the token source
	since    time.Time
	until    time.Time // next trial
	tries    int
	trying   bool
	turn     time.Time // when the next trial may go out by the process's budget for failing authentications
	checked  time.Time // when the token source was read last
}

// parkWait is the time between trials.
func parkWait(r ParkReason, tries int) time.Duration {
	switch r {
	case ParkToken:
		return doubling(5*time.Minute, time.Hour, tries)
	case ParkClientUpdate:
		return time.Hour
	case ParkNotAllowed, ParkService:
		return 15 * time.Minute
	default:
		return 15 * time.Minute
	}
}

// parkFor stops the calls of the connection, or keeps them stopped after a trial.
func (t *term) parkFor(ctx context.Context, r ParkReason, err error, now time.Time) {
	if p := t.park; p != nil && p.reason == r && !p.silent {
		if p.trying {
			p.tries++
			p.until = now.Add(parkWait(r, p.tries))
		}
		return
	}
	t.park = &park{reason: r, since: now, until: now.Add(parkWait(r, 0)), checked: now}
	t.say(ctx, events.NoticeParked, now, events.Notice{
		Code: codeOf(err), Support: supportOf(err), Text: parkText(r),
	})
}

func parkText(r ParkReason) string {
	switch r {
	case ParkToken:
		return "Envoy does not accept the token. The connection is not watched until its token source gives another; it is tried again now and then."
	case ParkNotAllowed:
		return "Envoy refuses all three reading tools. The connection is not watched; it is tried again every 15 minutes."
	case ParkService:
		return "The service is not enabled for this user. The connection is not watched; it is tried again every 15 minutes."
	case ParkClientUpdate:
		return "Envoy does not accept this version of Herald. Nothing is watched until Herald is updated."
	default:
		return ""
	}
}

func codeOf(err error) string {
	var refused *envoy.Error
	if errors.As(err, &refused) {
		return string(refused.Code)
	}
	return ""
}

// unauthenticated reads the token source again. A changed token is tried at once, an unchanged one parks the connection,
// unless a call that was asked for after the refused one has worked: then the token was changed under a hold.
func (t *term) unauthenticated(ctx context.Context, asked time.Time, err error, now time.Time) {
	if p := t.park; p != nil {
		if p.trying {
			t.parkFor(ctx, ParkToken, err, now)
		}
		return // a call that was under way when the token was refused
	}
	t.park = &park{reason: ParkToken, silent: true, outdated: asked.Before(t.sense.worked), since: now, until: never}
	t.checkToken(ctx, err, now)
}

// checkToken asks whether the token has changed.
func (t *term) checkToken(ctx context.Context, cause error, now time.Time) {
	p, changed := t.park, t.conn.TokenChanged
	p.checked = now
	if changed == nil {
		t.tokenChecked(ctx, p, false, cause, now)
		return
	}
	p.checking = true
	t.spawn(ctx, func(ctx context.Context) effect {
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		yes := changed(limited)
		return func(ctx context.Context, now time.Time) {
			p.checking = false
			t.tokenChecked(ctx, p, yes, cause, now)
		}
	})
}

// tokenChecked tries a token that is new, or that may work. The first time, an unchanged one parks.
func (t *term) tokenChecked(ctx context.Context, p *park, changed bool, cause error, now time.Time) {
	switch {
	case t.park != p:
	case changed || p.outdated:
		p.until = now
	case p.silent:
		t.parkFor(ctx, ParkToken, cause, now)
	}
}

// trial offers the one call that a parked connection may make: a look, when its time has come.
func (t *term) trial(now time.Time) (errand, time.Time, bool) {
	p := t.park
	switch {
	case p.checking || p.trying || t.looking:
		return errand{}, never, false
	case now.Before(p.until):
		return errand{}, p.until, false
	}
	if p.reason == ParkToken {
		if p.turn.IsZero() {
			p.turn = t.w.auth.reserve(now)
		}
		if p.turn.After(now) {
			return errand{}, p.turn, false
		}
	}
	return errand{do: actLook, wish: wish{class: classDeadline, since: now}}, now, true
}

// trialBegins marks the look that goes out now as the trial of a parked connection.
func (t *term) trialBegins() {
	if t.park != nil {
		t.park.trying, t.park.turn = true, time.Time{}
	}
}

// trialFailed ends a trial that gave nothing. One that failed for another reason than the park is repeated soon.
func (t *term) trialFailed(now time.Time) {
	p := t.park
	if p == nil || !p.trying {
		return
	}
	p.trying = false
	if !p.until.After(now) {
		p.until = now.Add(10*time.Second + backoff.Policy{Base: time.Minute}.Delay(0))
	}
}

// contact is any valid reply: the connection works. One that was asked for before the connection was parked proves
// nothing about now.
func (t *term) contact(ctx context.Context, asked, now time.Time) {
	t.sense.replied, t.sense.worked = now, later(t.sense.worked, asked)
	if t.park != nil && !asked.Before(t.park.since) {
		t.resume(ctx, now)
	}
}

// resume makes calls again.
func (t *term) resume(ctx context.Context, now time.Time) {
	p := t.park
	t.park = nil
	if p.reason == ParkClientUpdate {
		t.w.halt(false)
	}
	if !p.silent {
		t.say(ctx, events.NoticeResumed, now, events.Notice{Text: "The connection is watched again.", Code: ""})
	}
	t.scheduleAll(now)
}

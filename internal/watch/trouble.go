package watch

import (
	"context"
	"errors"
	"time"

	"github.com/heraldbridge/herald/internal/backoff"
	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

// outageDelays is the wait after calls that gave no valid envelope.
func outageDelays() backoff.Policy { return backoff.Policy{Base: time.Second, Max: time.Minute} }

// settle works out what a failed call means for its line, and does what concerns the whole connection.
func (t *term) settle(ctx context.Context, l *line, tool envoy.Tool, held time.Duration, asked time.Time, err error, now time.Time) remedy {
	r, after := remedyFor(err, held)
	if l.lastFail != r {
		l.slow, l.refused, l.foreign = 0, 0, 0
	}
	l.lastFail = r
	switch r {
	case remedyNone:
	case remedyLimit:
		t.limited(after, now)
	case remedyWait:
		l.fails++
		if after <= 0 {
			after = outageDelays().Delay(l.fails)
		}
		l.closed = now.Add(after + backoff.Jitter(after/10, 1, nil)) // up to 20 % more
	case remedySlow:
		l.closed = now.Add(doubling(time.Minute, 10*time.Minute, l.slow))
		l.slow++
	case remedyAuth:
		t.unauthenticated(ctx, asked, err, now)
	case remedyForbidden:
		l.closed = now.Add(doubling(15*time.Minute, slowest, l.refused))
		l.refused++
		t.forbidden(ctx, tool, err, now)
	case remedyNoService:
		t.parkFor(ctx, ParkService, err, now)
	case remedyUpdate:
		t.w.halt(true)
		t.parkFor(ctx, ParkClientUpdate, err, now)
	case remedyMissing, remedyBadInput:
	case remedyForeign:
		t.foreign(ctx, l, err, now)
	case remedyHoldEnded:
		l.fails = 0
		l.closed = now.Add(backoff.Policy{Base: time.Second}.Delay(0)) // spread, but soon
	case remedyNoEnvelope:
		l.fails++
		l.closed = now.Add(earlyPause(l.fails))
	case remedyOutage:
		l.closed = now.Add(outageDelays().Delay(l.fails))
		l.fails++
	}
	return r
}

// limited closes the budget of the token for as long as Envoy says, and up to a fifth more.
func (t *term) limited(after time.Duration, now time.Time) {
	if after <= 0 {
		after = 30 * time.Second
	}
	t.budget.limit(now, after+backoff.Jitter(after/10, 1, nil))
	t.log.Warn("rate limited", "wait", after)
}

// foreign counts replies about another purchase. Nothing of them is kept.
func (t *term) foreign(ctx context.Context, l *line, err error, now time.Time) {
	t.w.metrics.foreign.Inc()
	l.closed = now.Add(outageDelays().Delay(l.fails))
	l.fails++
	l.foreign++
	if l.foreign == 3 {
		t.say(ctx, events.NoticeForeign, now, events.Notice{
			Count: int64(l.foreign), Support: supportOf(err),
			Text: "Three replies in a row were about another purchase than the one asked for. They were dropped.",
		})
	}
}

// troubleStatus handles a status request that gave nothing.
func (t *term) troubleStatus(ctx context.Context, p *purchase, c *call, err error, now time.Time) {
	switch t.settle(ctx, p.line(), envoy.ToolStatus, c.held, c.asked, err, now) {
	case remedyMissing:
		t.notFound(ctx, p, err, now)
	case remedyBadInput:
		t.badReference(ctx, p, err, now)
	default:
	}
	t.schedule(p, now)
}

func (t *term) troubleLook(ctx context.Context, asked time.Time, err error, now time.Time) {
	if t.settle(ctx, &t.lookLine, envoy.ToolAccount, 0, asked, err, now) == remedyBadInput {
		t.badCall(ctx, &t.lookLine, err, now)
	}
	t.trialFailed(now)
	t.sight.closed = t.lookLine.closed
	if t.sight.closed.Before(asked.Add(time.Second)) {
		t.sight.closed = asked.Add(time.Second)
	}
}

func (t *term) troubleList(ctx context.Context, asked time.Time, err error, now time.Time) {
	if t.settle(ctx, &t.listLine, envoy.ToolList, 0, asked, err, now) == remedyBadInput {
		t.badCall(ctx, &t.listLine, err, now)
	}
	t.roll.closed = t.listLine.closed
	if t.roll.closed.Before(asked.Add(time.Second)) {
		t.roll.closed = asked.Add(time.Second)
	}
}

// notFound is Envoy's answer that the purchase does not exist, or is another user's.
func (t *term) notFound(ctx context.Context, p *purchase, err error, now time.Time) {
	p.missing++
	p.line().closed = now.Add(time.Minute)
	if !p.seen {
		p.heard = now // that it does not exist yet is an answer, not blindness
		p.line().closed = now.Add(lookPace(now.Sub(p.ref), t.policy.LookEvery))
		if p.id != "" && now.Sub(p.ref) > 10*time.Minute {
			t.sayMissing(ctx, p, err, now, "Envoy does not know this purchase after ten minutes; it is not watched any more.")
			t.forget(p)
			t.saveSet(now, nil)
		}
		return
	}
	if p.missing == 3 {
		p.slowest = true
		t.sayMissing(ctx, p, err, now, "Envoy does not find this purchase any more; the token may be another user's. It is asked for every six hours.")
	}
}

func (t *term) sayMissing(ctx context.Context, p *purchase, err error, now time.Time, text string) {
	t.say(ctx, events.NoticeNotFound, now, events.Notice{
		PurchaseID: p.id, Code: string(envoy.CodeNotFound), Count: int64(p.missing), Support: supportOf(err), Text: text,
	})
}

// badReference is Envoy's answer that the request was wrong. It is not repeated.
func (t *term) badReference(ctx context.Context, p *purchase, err error, now time.Time) {
	t.sayBadInput(ctx, p.id, err, now)
	if !p.seen {
		t.forget(p)
		t.saveSet(now, nil)
		return
	}
	p.slowest = true
	p.line().closed = now.Add(slowest)
}

// badCall is the same for looks and lists, whose request never changes.
func (t *term) badCall(ctx context.Context, l *line, err error, now time.Time) {
	if l.slow == 0 {
		t.sayBadInput(ctx, "", err, now)
	}
	l.closed = now.Add(doubling(15*time.Minute, slowest, l.slow))
	l.slow++
}

func (t *term) sayBadInput(ctx context.Context, id string, err error, now time.Time) {
	n := events.Notice{
		PurchaseID: id, Code: string(envoy.CodeInvalidInput), Support: supportOf(err),
		Text: "Envoy refuses a request as wrong input. It is not repeated.",
	}
	var refused *envoy.Error
	if errors.As(err, &refused) {
		n.Fields = refused.Fields
	}
	t.say(ctx, events.NoticeBadInput, now, n)
}

// forbidden parks the connection when all three tools are refused.
func (t *term) forbidden(ctx context.Context, tool envoy.Tool, err error, now time.Time) {
	t.sense.refused[tool] = true
	if t.sense.refused[envoy.ToolStatus] && t.sense.refused[envoy.ToolAccount] && t.sense.refused[envoy.ToolList] {
		t.parkFor(ctx, ParkNotAllowed, err, now)
	}
}

func supportOf(err error) events.Support {
	var refused *envoy.Error
	if errors.As(err, &refused) {
		return support(refused.Meta)
	}
	return events.Support{}
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	// codeIDInFlight: the server has this message id in hand already, from an
	// earlier try or from another worker, and cannot say yet what becomes of it.
	codeIDInFlight jetstream.ErrorCode = 10158

	// publishTries bounds how often one publish follows its subject. Two tries
	// settle every conflict but a race; the rest is for races and for replicas
	// that answer a read a moment late.
	publishTries   = 6
	conflictPause  = 20 * time.Millisecond
	publishTimeout = 5 * time.Second
)

// refusal is the first of the publishes that have failed without one that was
// stored between them.
type refusal struct {
	since time.Time
	err   error
}

// refusalAfter is how long publishes may fail before the bus is called unhealthy.
const refusalAfter = 10 * time.Second

// Publish stores an event and returns its stream sequence, or the one of the
// same event if it is there already. A purchase's event is stored only if after
// is the sequence of the newest message of its subject (0: none). If that
// message is another one, an older reading is followed, and a newer one is
// events.ErrNewer: somebody else publishes this purchase now. Any other error
// means that the event is not known to be stored: publish it again, with the
// same id.
func (b *Bus) Publish(ctx context.Context, e events.Event, after uint64) (uint64, error) {
	seq, err := b.publish(ctx, e, after)
	switch {
	case err == nil || errors.Is(err, events.ErrNewer):
		b.refusing.Store(nil)
	case ctx.Err() == nil:
		b.refusing.CompareAndSwap(nil, &refusal{since: time.Now(), err: err})
	}
	if err != nil && !errors.Is(err, events.ErrNewer) {
		b.metrics.publishFailures.Inc()
		if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
			b.recheck() // the stream may be gone
		}
	}
	return seq, err
}

func (b *Bus) publish(ctx context.Context, e events.Event, after uint64) (uint64, error) {
	subject, err := events.EventSubject(e)
	if err != nil {
		return 0, err
	}
	body, err := events.Encode(e)
	if err != nil {
		return 0, err
	}
	msg := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{}}
	if e.Purchase == nil { // notices have no order of their own
		ack, err := b.send(ctx, msg, jetstream.WithMsgID(e.ID))
		if err != nil {
			return 0, fmt.Errorf("publish event %s: %w", e.ID, err)
		}
		return ack.Sequence, nil
	}
	msg.Header.Set(events.HeaderSituation, string(e.Purchase.Situation))
	for try := range publishTries {
		if try > 1 { // the first conflict is followed at once
			if err := pause(ctx, conflictPause<<try); err != nil {
				return 0, err
			}
		}
		ack, err := b.send(ctx, msg, jetstream.WithMsgID(e.ID), jetstream.WithExpectLastSequencePerSubject(after))
		if err == nil && !ack.Duplicate {
			return ack.Sequence, nil
		}
		if err != nil && !isConflict(err) {
			return 0, fmt.Errorf("publish event %s: %w", e.ID, err)
		}
		b.metrics.conflicts.Inc()
		seq, done, rerr := b.resolve(ctx, e, subject, ack)
		if done || rerr != nil {
			return seq, rerr
		}
		after = seq
	}
	return 0, fmt.Errorf("publish event %s: its subject kept changing over %d tries", e.ID, publishTries)
}

// send publishes one message and waits for its acknowledgement, for as long as
// a healthy server can need at the most.
func (b *Bus) send(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if b.closed.Load() {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return b.js.PublishMsg(ctx, msg, opts...)
}

func isConflict(err error) bool {
	return isCode(err, jetstream.JSErrCodeStreamWrongLastSequence) ||
		isCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant) || isCode(err, codeIDInFlight)
}

// resolve reads the newest message of the subject of a refused event, or of one
// answered as a duplicate (dup is set). done: the event is stored, at seq. Not
// done: seq is what to expect at the next try.
func (b *Bus) resolve(ctx context.Context, e events.Event, subject string, dup *jetstream.PubAck) (seq uint64, done bool, err error) {
	last, err := b.last(ctx, subject)
	if err != nil {
		return 0, false, fmt.Errorf("read the newest event before %s: %w", e.ID, err)
	}
	switch standing(e, last) {
	case isOurs:
		b.metrics.repeats.Inc()
		return last.Sequence, true, nil
	case isNewer:
		if dup != nil { // ours is there, and others have come after it
			b.metrics.repeats.Inc()
			return dup.Sequence, true, nil
		}
		return 0, false, fmt.Errorf("publish event %s after %s: %w", e.ID, last.Event.ID, events.ErrNewer)
	case isOlder, isNone:
		if dup != nil { // the same event was published through another connection
			b.metrics.repeats.Inc()
			return dup.Sequence, true, nil
		}
		return last.Sequence, false, nil
	default:
		return 0, false, fmt.Errorf("publish event %s: unknown relation to the newest event", e.ID)
	}
}

// relation is how the newest message of a subject stands to an event that is to
// follow it.
type relation string

const (
	isNone  relation = "none"
	isOurs  relation = "ours"
	isOlder relation = "older"
	isNewer relation = "newer"
)

func standing(e events.Event, last events.Envelope) relation {
	if last.Sequence == 0 {
		return isNone
	}
	if last.Event.ID == e.ID {
		return isOurs
	}
	if last.Bad != nil || last.Event.Purchase == nil {
		return isOlder // no event of ours: it proves nothing and stops nobody
	}
	switch c := events.Compare(positionOf(last.Event), positionOf(e)); {
	case c > 0:
		return isNewer
	case c < 0:
		return isOlder
	case e.Type == events.TypeOverdue:
		return isOlder // the event that the overdue one is about
	default:
		return isOurs // an overdue event about ours, so ours came before it
	}
}

func positionOf(e events.Event) events.Position {
	r := e.Purchase.Reading
	return events.Position{Epoch: r.Epoch, Revision: r.Revision, N: r.N}
}
